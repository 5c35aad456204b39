"""One of a thing is never shown as several."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recommender.cli import app
from recommender.units import plural

ONE_OF_MANY = re.compile(r"(?<![\d.,x-])1 (?:requests|replicas|GPUs|instances|candidates|days|faults|rows|offers)\b")
SMALL = "model: llama-3.1-8b\nworkload: {concurrency: 1, lengths: {fixed: 2K}}\n"


def test_a_count_and_its_noun() -> None:
    assert [plural(count, "request") for count in (0, 1, 2, 2048)] == [
        "0 requests",
        "1 request",
        "2 requests",
        "2,048 requests",
    ]


@pytest.mark.parametrize(
    ("command", "search"),
    [
        (["run"], "search: {gpus: L4, plans: 1}\n"),
        (["run"], "search: {gpus: L4, plans: 1}\nlimits: {usd_per_month: 1, quota: [{gpus: 1, provider: gcp}]}\n"),
        (["run"], "search: {gpus: L4, max_gpus: 1}\nlimits: {stock: [{gpu: L4, instances: 0}]}\n"),
        (["ladder"], "search: {gpus: L4}\n"),
        (["budget", "--usd-per-month", "5000"], "search: {gpus: H200-SXM, max_gpus: 1}\n"),
    ],
)
def test_answers_about_one_request_and_one_card(tmp_path: Path, command: list[str], search: str) -> None:
    path = tmp_path / "one.yaml"
    path.write_text(SMALL + search, encoding="utf-8")
    name, *options = command
    result = CliRunner().invoke(app, [name, str(path), *options])
    assert result.exit_code in (0, 1), result.output
    assert not ONE_OF_MANY.findall(" ".join(result.output.split()))


def test_lengths_of_one_request() -> None:
    result = CliRunner().invoke(app, ["lengths", "alpaca_helix", "--concurrency", "1"])
    shown = " ".join(result.output.split())
    assert result.exit_code == 0
    assert "1 request at once holds" in shown
    assert not ONE_OF_MANY.findall(shown)
