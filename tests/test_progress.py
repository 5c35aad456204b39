from __future__ import annotations

import io
import sys

import pytest

from recommender.progress import bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_a_bar_that_is_wiped_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    draw = bar("replaying")
    assert draw
    draw(500, 1000)
    shown = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert shown.endswith("####################                    ] 500 of 1,000 requests")
    draw(1000, 1000)
    wiped = sys.stderr.getvalue()[len(shown) :]  # type: ignore[attr-defined]
    assert wiped.strip() == ""
    assert wiped.count("\r") == 2


def test_nobody_else_sees_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert bar("replaying") is None
    monkeypatch.setattr(sys, "stderr", None)
    assert bar("replaying") is None
