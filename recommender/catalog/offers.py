"""How GPUs are sold: one offer is an instance type in a region, with the price of the WHOLE instance by market."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from recommender.catalog.gpus import MEMORY_TOLERANCE, Gpu
from recommender.catalog.table import Row, rows
from recommender.errors import Fault, nearest
from recommender.units import GB, MICRO

MARKETS = ("on_demand", "spot", "reserved_1y", "reserved_3y", "owned")
SEGMENTS = ("hyperscaler", "neocloud", "marketplace", "serverless", "own")
PRICES = {market: f"usd_per_hour_{market}" for market in MARKETS if market != "owned"}
COLUMNS = (
    "provider",
    "segment",
    "instance_type",
    "region",
    "gpu",
    "gpus",
    "gpu_memory_gb",
    "listed",
    *PRICES.values(),
    "ram_gb",
    "vcpus",
    "minimum_instances",
    "as_of",
    "stale",
    "source",
    "notes",
)
REQUIRED = ("provider", "segment", "instance_type", "region", "gpu", "gpus", "as_of", "source")
YES_NO = ("yes", "no")


@dataclass(frozen=True, slots=True)
class Offer:
    """One purchasable instance. A market that is absent from `prices` has no known price: it is not an offer there."""

    provider: str
    segment: str
    instance_type: str
    region: str
    gpu: str
    gpus: int
    listed: bool  # orderable under this name; False: an indicative figure (a median, a "cheapest listed")
    prices: dict[str, int] = field(hash=False)  # market -> micro-dollars an hour, whole instance
    ram_bytes: int | None
    vcpus: int | None
    minimum_instances: int  # 1, or the smallest number sold together
    as_of: date
    stale: bool  # the source itself marked it as outdated
    source: str
    notes: str
    gpu_memory_gb: int | None = None  # as the source states it, to check `gpu` against; GB of marketing

    @property
    def key(self) -> tuple[str, str, str]:
        """(provider, instance type, region): unique in a catalog."""
        return (self.provider, self.instance_type, self.region)


def read_offers(path: Path, gpus: Mapping[str, Gpu], faults: list[Fault]) -> Iterator[tuple[int, Offer]]:
    """(line, offer) of a price list; what is wrong with it is added to `faults`."""
    for row in rows(path, COLUMNS, REQUIRED, faults):
        offer = _offer(row)
        _check_gpu(row, offer, gpus)
        _check_spot(row, offer)
        yield row.line, offer


def _offer(row: Row) -> Offer:
    """One offer from its row. An empty price cell is an unknown price, not a free instance."""
    return Offer(
        provider=row.required("provider"),
        segment=row.word("segment", SEGMENTS),
        instance_type=row.required("instance_type"),
        region=row.required("region"),
        gpu=row.required("gpu"),
        gpus=row.whole("gpus"),
        listed=row.word("listed", YES_NO, "yes") == "yes",
        prices=_prices(row),
        ram_bytes=row.scaled("ram_gb", GB),
        vcpus=row.scaled("vcpus"),
        minimum_instances=row.whole("minimum_instances", default=1),
        as_of=row.day("as_of"),
        stale=row.word("stale", YES_NO, "no") == "yes",
        source=row.required("source"),
        notes=row.text("notes"),
        gpu_memory_gb=row.scaled("gpu_memory_gb"),
    )


def _prices(row: Row) -> dict[str, int]:
    """Micro-dollars an hour of the whole instance by market; a market without a price is left out."""
    prices = {}
    for market, key in PRICES.items():
        price = row.scaled(key, MICRO)
        if price is not None:
            prices[market] = price
    return prices


def _check_gpu(row: Row, offer: Offer, gpus: Mapping[str, Gpu]) -> None:
    """Note a GPU the catalog does not have, or one whose memory is not what this offer says (host RAM, say)."""
    gpu = gpus.get(offer.gpu)
    if gpu is None:
        near = nearest(offer.gpu, gpus)
        row.fault("gpu", f"{offer.gpu!r} is not a GPU of the catalog", "a name of gpus.csv", near[0] if near else None)
        return
    stated, known = offer.gpu_memory_gb, gpu.memory_bytes_marketing // GB
    if stated is not None and abs(stated - known) > MEMORY_TOLERANCE * known:
        row.fault("gpu_memory_gb", f"{stated} GB is not the memory of {gpu.name}", f"{known} GB, within 7 %")


def _check_spot(row: Row, offer: Offer) -> None:
    """Note a spot price that is not below the on-demand price: a copy, or a wrong field."""
    on_demand, spot = offer.prices.get("on_demand"), offer.prices.get("spot")
    if on_demand is not None and spot is not None and spot >= on_demand:
        row.fault(PRICES["spot"], "spot is not below on-demand", f"less than {row.text(PRICES['on_demand'])}, or empty")
