"""The whole answer of one configuration: its loads, what it holds, what its tokens cost."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from recommender.catalog.catalog import Catalog
from recommender.errors import InputError
from recommender.speed.answer import speed
from recommender.speed.cost import Api
from recommender.speed.forecast import Forecast, forecast
from recommender.speed.price import STATED, Price
from recommender.speed.setup import Setup

SETUP = Setup("meta-llama/Llama-3.1-70B-Instruct", "H100-SXM", tp=4, weights="fp8")
PRICE = Price(10_000_000, STATED)


def of(catalog: Catalog, setup: Setup = SETUP, **changed: Any) -> Forecast:
    asked: dict[str, Any] = {
        "prompt_tokens": 1024,
        "output_tokens": 256,
        "concurrencies": [32],
        "price": PRICE,
    } | changed
    return forecast(setup, catalog=catalog, **asked)


def test_a_load_is_the_public_answer_there(catalog: Catalog) -> None:
    (point,) = of(catalog).points
    assert point.speed == speed(SETUP.model, "H100-SXM", 1024, 256, 32, tp=4, weights="fp8")
    assert point.output_tokens_per_s_each * point.speed.tpot_ms == pytest.approx(1000)
    assert point.output_tokens_per_s_per_usd_per_hour == pytest.approx(point.speed.output_tokens_per_s / 10)


def test_a_curve_ends_at_what_is_held(catalog: Catalog) -> None:
    found = of(catalog, replace(SETUP, replicas=2), concurrencies=None)
    assert not found.asked
    assert [point.speed.concurrency for point in found.points][:4] == [1, 2, 4, 8]
    assert found.points[-1].speed.concurrency == found.holds
    assert found.points[-1].speed == found.saturated.speed
    assert found.saturated.speed.queue_ms == 0


def test_more_than_is_held_serves_no_more(catalog: Catalog) -> None:
    held = of(catalog)
    crowded = of(catalog, concurrencies=[2 * held.holds])
    assert crowded.holds == held.holds
    assert crowded.points[0].speed.queue_ms > 0
    assert crowded.points[0].speed.output_tokens_per_s == pytest.approx(crowded.saturated.speed.output_tokens_per_s)


def test_costs_follow_from_the_rate(catalog: Catalog) -> None:
    """$10 an hour over (1,024 + 256) x 3,600 tokens for each request a second; its parts add up to the price."""
    (point,) = of(catalog).points
    cost, rate = point.cost, point.speed.requests_per_s
    assert cost is not None
    assert point.blended_interval is not None
    assert float(cost.blended) == pytest.approx(10e6 / (1280 * 3600 * rate), rel=1e-3)
    assert float(cost.input) * 1024 + float(cost.output) * 256 == pytest.approx(float(cost.blended) * 1280, rel=2e-3)
    assert point.blended_interval[0] < cost.blended < point.blended_interval[1]


def test_busier_is_cheaper(catalog: Catalog) -> None:
    costs = [point.cost for point in of(catalog, concurrencies=None).points]
    blended = [cost.blended for cost in costs if cost is not None]
    assert blended == sorted(blended, reverse=True)
    assert len(blended) == len(costs)


def test_break_even_is_one_traffic_whatever_the_load(catalog: Catalog) -> None:
    found = of(catalog, api=Api(Decimal("0.5"), Decimal("0.7")))
    at_load, full = found.points[0].break_even, found.saturated.break_even
    assert at_load is not None
    assert full is not None
    assert float(at_load.million_tokens_a_month) == pytest.approx(float(full.million_tokens_a_month), rel=1e-3)
    # $0.54 a million blended over 4 prompt tokens to 1 output token: $7,300 a month buys 13,519 million.
    assert float(full.million_tokens_a_month) == pytest.approx(7300 / 0.54, rel=1e-3)
    assert at_load.share_of_load > full.share_of_load


def test_without_a_price_nothing_is_made_up(catalog: Catalog) -> None:
    found = of(catalog, price=None, api=Api(Decimal(1), Decimal(1)))
    for point in (*found.points, found.saturated):
        assert (point.cost, point.blended_interval, point.break_even) == (None, None, None)
        assert point.output_tokens_per_s_per_usd_per_hour is None


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"tp": 1, "weights": "bf16"}, "tp.*does not fit 1 x H100-SXM .expected at least 2."),
        ({"gpu": "T4", "tp": 1, "weights": "bf16"}, "does not fit 1 x T4.*expected at least 16"),
        ({"model": "deepseek-ai/DeepSeek-R1", "gpu": "T4", "tp": 1}, "does not fit 1 x T4.*expected more memory"),
        ({"ep": 4}, "ep.*has no experts to spread"),
        ({"model": "deepseek-ai/DeepSeek-R1", "tp": 8, "ep": 2}, "ep.*2 cannot be.*all 8 GPUs.*expected 1 or 8"),
    ],
)
def test_what_cannot_be_says_what_can(catalog: Catalog, changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        of(catalog, replace(SETUP, **({"weights": None} | changed)))


def test_an_output_of_one_token_has_no_time_per_token(catalog: Catalog) -> None:
    assert any("no time per output token" in warning for warning in of(catalog, output_tokens=1).warnings)
