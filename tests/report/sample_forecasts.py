"""Hand-made forecasts: what the pages of `speed` are tested on, whatever the constants say today."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

from recommender.catalog.offers import Offer
from recommender.speed.anchors import Anchor
from recommender.speed.answer import Speed
from recommender.speed.benchmarked import Benchmark, Benchmarked
from recommender.speed.cost import Api, BreakEven, TokenCost
from recommender.speed.forecast import Forecast, Point
from recommender.speed.price import CHEAPEST, Price
from recommender.speed.setup import Setup

OFFER = Offer(
    provider="hyperstack",
    segment="neocloud",
    instance_type="n3-H100x4",
    region="CANADA-1",
    gpu="H100-SXM",
    gpus=4,
    listed=True,
    prices={"on_demand": 10_000_000},
    ram_bytes=None,
    vcpus=None,
    minimum_instances=1,
    as_of=date(2026, 10, 1),
    stale=False,
    source="a price list",
    notes="",
)


def speed_at(concurrency: float, tpot_ms: float, evidence: str = "anchored", queue_ms: float = 0.0) -> Speed:
    """Requests of 1,000 + 201 tokens, their first token after 100 ms; bands of half to twice and of 10 %."""
    request_s = (100 + queue_ms + 200 * tpot_ms) / 1e3
    rate = concurrency / request_s
    return Speed(
        model="meta-llama/Llama-3.1-70B-Instruct",
        gpu="H100-SXM",
        weights="fp8",
        engine="vllm",
        gpus=4,
        concurrency=concurrency,
        ttft_ms=100 + queue_ms,
        tpot_ms=tpot_ms,
        output_tokens_per_s=201 * rate,
        requests_per_s=rate,
        ttft_ms_interval=((100 + queue_ms) / 2, (100 + queue_ms) * 2),
        tpot_ms_interval=(0.9 * tpot_ms, 1.1 * tpot_ms),
        output_tokens_per_s_interval=(0.9 * 201 * rate, 1.1 * 201 * rate),
        evidence=evidence,
        queue_ms=queue_ms,
        running=concurrency,
        prompt_share=0.25,
        sources=("published measurements",),
        warnings=(),
    )


COST = TokenCost(Decimal("0.1250"), Decimal("1.8657"), Decimal("0.4154"), Decimal("2.4876"))
EVEN = BreakEven(Decimal("25.0000"), Decimal("0.4000"), Decimal("7008.0000"))


def point_at(concurrency: float, tpot_ms: float, evidence: str = "anchored", queue_ms: float = 0.0) -> Point:
    """A priced point; its costs are stated, not computed."""
    speed = speed_at(concurrency, tpot_ms, evidence, queue_ms)
    per_dollar = speed.output_tokens_per_s / 10
    return Point(speed, COST, (Decimal("0.3776"), Decimal("0.4616")), per_dollar, EVEN)


BENCHMARKED = Benchmarked(
    (Benchmark("mine.json", 1, 10.8, 1.08, 0.9, ("mine.json: 1 of 21 requests failed",)),),
    Anchor("H100-SXM", "meta-llama/Llama-3.1-70B-Instruct", "vllm", "fp8", 0.077, -0.105, 1, "mine.json"),
)
CURVE = Forecast(
    setup=Setup("meta-llama/Llama-3.1-70B-Instruct", "H100-SXM", tp=4, weights="fp8"),
    prompt_tokens=1000,
    output_tokens=201,
    asked=False,
    points=(point_at(1, 10), point_at(8, 12, "anchored by few runs"), point_at(80, 40, "known GPU only")),
    saturated=point_at(80, 40, "known GPU only"),
    holds=80,
    price=Price(10_000_000, CHEAPEST, 1, OFFER, 0, ("10 days old",)),
    api=Api(Decimal("0.50"), Decimal("1.50")),
    benchmarked=None,
    warnings=("80 requests at once: nothing above 64 was measured",),
    sources=("published measurements", "price: a price list, 2026-10-01"),
)
LOAD = replace(CURVE, asked=True, points=(point_at(100, 40, "anchored", 2000.0),), benchmarked=BENCHMARKED)
UNPRICED = replace(
    CURVE,
    points=tuple(Point(point.speed) for point in CURVE.points),
    saturated=Point(CURVE.saturated.speed),
    price=None,
    api=None,
)
