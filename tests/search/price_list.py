"""A small price list, and scenarios with a distribution of lengths."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

from recommender.answer import shipped_catalog
from recommender.catalog.catalog import Catalog
from recommender.catalog.offers import Offer
from recommender.scenario import Scenario, Search, Workload
from recommender.search.plan import Recommendation
from recommender.workload.lengths import Cell, Lengths

CARDS = {"L40S": "0.9", "A100-80GB-SXM": "1.6", "H100-SXM": "3", "H200-SXM": "3.7"}


def offer(gpu: str, gpus: int, usd: Decimal, provider: str = "a") -> Offer:
    return Offer(
        provider=provider,
        segment="neocloud",
        instance_type=f"{gpus}x{gpu}",
        region="r1",
        gpu=gpu,
        gpus=gpus,
        listed=True,
        prices={"on_demand": int(usd * 10**6)},
        ram_bytes=None,
        vcpus=None,
        minimum_instances=1,
        as_of=date(2026, 10, 1),
        stale=False,
        source="made for a test",
        notes="",
    )


def price_list(*gpus: str) -> Catalog:
    """The cards at their price times 1, 2, 4 and 8."""
    sizes = (1, 2, 4, 8)
    offers = tuple(offer(gpu, n, n * Decimal(CARDS[gpu])) for gpu in gpus or CARDS for n in sizes)
    return replace(shipped_catalog(), offers=offers)


def trace(name: str) -> Lengths:
    return shipped_catalog().trace(name).lengths()


def cells(*rows: tuple[float, int, int]) -> Lengths:
    """Requests of exactly these lengths: (weight, prompt, output)."""
    made = tuple(Cell(float(weight), float(prompt), float(output)) for weight, prompt, output in rows)
    return Lengths(made, max(prompt + output for _, prompt, output in rows), name="cells")


def ask(lengths: Lengths, concurrency: int | None = 50, model: str = "llama-3.1-8b", **changed: Any) -> Scenario:
    """A scenario sized statistically, one plan, unless said otherwise; fields of the workload by their names."""
    work = {key: changed.pop(key) for key in ("rate", "request_s", "shared_prefix", "log") if key in changed}
    base = Scenario("test", model, Workload(concurrency, lengths, **work), sizing="statistical")
    return replace(base, **({"search": Search(plans=1)} | changed))


def cost(answer: Recommendation) -> int:
    """Micro-dollars an hour of rank 1; beyond any price where nothing serves."""
    return (answer.plans[0].micro_usd_per_hour or 0) if answer.plans else 10**15
