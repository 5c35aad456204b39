"""How GPUs are sold: one offer is an instance type in a region, with the price of the WHOLE instance by market."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

MARKETS = ("on_demand", "spot", "reserved_1y", "reserved_3y", "owned")
SEGMENTS = ("hyperscaler", "neocloud", "marketplace", "serverless", "own")


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

    @property
    def key(self) -> tuple[str, str, str]:
        """(provider, instance type, region): unique in a catalog."""
        return (self.provider, self.instance_type, self.region)
