"""The pages of `speed`, on hand-made forecasts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest
from sample_forecasts import CURVE, EVEN, LOAD, UNPRICED

from recommender.report.figures import figure
from recommender.report.forecast import forecast_page
from recommender.report.forecast_record import forecast_csv, forecast_json
from recommender.speed.forecast import Forecast

ALL = {"curve": CURVE, "load": LOAD, "unpriced": UNPRICED}


@pytest.mark.parametrize("name", ALL)
def test_page_is_the_golden_one(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"speed_{name}.txt", forecast_page(ALL[name]))


@pytest.mark.parametrize("name", ["load", "unpriced"])
def test_json_is_the_golden_one(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"speed_{name}.json", forecast_json(ALL[name]))


def test_csv_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    golden("speed_curve.csv", forecast_csv(CURVE))


@pytest.mark.parametrize("found", ALL.values(), ids=ALL)
def test_lines_fit_the_page(found: Forecast) -> None:
    assert max(map(len, forecast_page(found).splitlines())) <= 100


def test_unknown_costs_stay_unknown() -> None:
    page = forecast_page(UNPRICED)
    assert "No price: no listed on-demand offer hosts 4 x H100-SXM so" in page
    assert "$/h" not in page.split("- TTFT")[0]
    record = json.loads(forecast_json(UNPRICED))
    assert record["price"] is None
    assert {point["usd_per_million_tokens"] for point in record["points"]} == {None}
    assert {row["usd_per_million_blended"] for row in csv.DictReader(io.StringIO(forecast_csv(UNPRICED)))} == {""}


def test_the_first_token_is_never_sharp() -> None:
    """Two digits and a band, at every load."""
    for page in map(forecast_page, ALL.values()):
        assert "least certain figure" in page
    assert "100 (50-200)" in forecast_page(CURVE)
    assert "about 2,100 ms" in forecast_page(LOAD)


def test_long_times_are_read_in_seconds() -> None:
    points = [
        replace(p, speed=replace(p.speed, ttft_ms=83_000.0, ttft_ms_interval=(35e3, 190e3))) for p in CURVE.points
    ]
    page = forecast_page(replace(CURVE, points=tuple(points)))
    assert "TTFT s (80 %)" in page
    assert "83 (35-190)" in page


def test_an_api_that_is_cheaper_at_any_load() -> None:
    dear = replace(EVEN, share_of_load=Decimal("1.2500"))
    page = " ".join(forecast_page(replace(CURVE, saturated=replace(CURVE.saturated, break_even=dear))).split())
    assert "is cheaper at any load: both would cost the same at 7,008 million tokens a month" in page
    assert "125 % of what the GPUs do saturated" in " ".join(page.split())


def test_what_a_benchmark_moved() -> None:
    """tpot_log 0.077 of one run weighs 1 / 1.4: exp(0.055) is 5.7 % more; ttft -0.105 weighs 1 / 2.5: 4.1 % less."""
    page = forecast_page(LOAD)
    assert "Your run mine.json is 8 % slower than predicted (10.8 ms a token where 10.0 were predicted)" in page
    assert "its first tokens came 10 % sooner" in " ".join(page.split())
    assert "times per output token by +5.7 %, times to first token by -4.1 %" in page


def test_lengths_of_bars_follow_the_figures() -> None:
    bars = [line for line in forecast_page(CURVE).splitlines() if "█" in line]
    assert next(line.count("█") for line in bars) > 30  # the fastest request has the longest bar
    assert len(bars) == len(CURVE.points)


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (1362.1, 2, "1,400"),
        (9.96, 2, "10.0"),
        (12.345, 3, "12.3"),
        (0.03604, 3, "0.0360"),
        (0, 3, "0"),
        (1e9, 3, "1,000,000,000"),
    ],
)
def test_figures(value: float, digits: int, shown: str) -> None:
    assert figure(value, digits) == shown
