"""docs/accuracy.md says what the program computes."""

from __future__ import annotations

import accuracy


def test_the_page_is_current() -> None:
    assert accuracy.PAGE.read_text(encoding="utf-8") == accuracy.page(), "make accuracy writes it anew"


def test_every_log_is_a_dot_of_the_plot() -> None:
    drawn = accuracy.PLOT.read_text(encoding="utf-8")
    assert drawn.count("<circle") == len([*accuracy.logs_0_19(), *accuracy.logs_mixed()])
