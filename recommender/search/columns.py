"""What may be bought: the offers a scenario admits, as columns of the purchase problem."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import NamedTuple

from recommender.catalog.gpus import Gpu
from recommender.catalog.offers import Offer
from recommender.scenario import Cap, OwnCards, Scenario, Search
from recommender.units import micro_usd

LINEAR_SIZES = (2, 4, 8)
OWN = "own hardware"


@dataclass(frozen=True, slots=True)
class Column:
    """One thing to buy so many of: an instance at a price, the same in every region of `offers`."""

    provider: str
    instance_type: str
    gpu: str
    gpus: int
    market: str
    micro_usd_per_hour: int | None  # None: owned and unpriced
    minimum: int
    assumed_size: bool
    offers: Mapping[str, Offer]  # by region

    @property
    def name(self) -> str:
        """Unique and stable: what ties are broken by."""
        size = f" x{self.gpus}" if self.assumed_size else ""
        region = "" if len(self.offers) > 1 else f" {next(iter(self.offers))}"
        return f"{self.provider} {self.instance_type}{size} {self.market} {self.micro_usd_per_hour}{region}"


def newest_price(offers: Iterable[Offer]) -> date:
    """The date an answer is given for unless the scenario names one."""
    return max(offer.as_of for offer in offers)


def admit(offers: Iterable[Offer], search: Search, gpus: Mapping[str, Gpu], as_of: date) -> list[tuple[Offer, str]]:
    """Offers with a known price in an admitted market that every field of `search` lets through."""
    return [
        (offer, market)
        for offer in offers
        if (search.stale or not offer.stale)
        and offer.as_of <= as_of
        and (search.offers == "all" or offer.listed)
        and offer.segment in search.segments
        and _named(search.providers, offer.provider)
        and _named(search.regions, offer.region)
        and _named(search.gpus, offer.gpu)
        and offer.gpu in gpus
        for market in search.markets
        if market in offer.prices
    ]


def _named(names: tuple[str, ...] | None, name: str) -> bool:
    return names is None or name in names


def columns_of(scenario: Scenario, offers: Iterable[Offer], gpus: Mapping[str, Gpu], as_of: date) -> list[Column]:
    """The columns of a scenario, sorted by name: what it owns, or else what its search admits."""
    if scenario.hardware:
        return sorted((_owned(cards, as_of) for cards in merged(scenario.hardware)), key=lambda column: column.name)
    apart = any(cap.region for cap in scenario.limits.caps)
    regions: dict[_Bought, dict[str, Offer]] = defaultdict(dict)
    for offer, market in admit(offers, scenario.search, gpus, as_of):
        for size in _sizes(offer, scenario.search, gpus[offer.gpu]):
            key = _Bought(
                provider=offer.provider,
                instance_type=offer.instance_type,
                gpu=offer.gpu,
                gpus=offer.gpus * size,
                market=market,
                micro_usd_per_hour=offer.prices[market] * size,
                minimum=offer.minimum_instances,
                assumed_size=size > 1,
                region=offer.region if apart else None,
            )
            regions[key][offer.region] = offer
    columns = [Column(*key[:-1], offers=dict(sorted(by_region.items()))) for key, by_region in regions.items()]
    return sorted(columns, key=lambda column: column.name)


class _Bought(NamedTuple):
    """What makes two offers the same purchase: everything but the region, unless a limit names regions."""

    provider: str
    instance_type: str
    gpu: str
    gpus: int
    market: str
    micro_usd_per_hour: int
    minimum: int
    assumed_size: bool
    region: str | None


def _sizes(offer: Offer, search: Search, gpu: Gpu) -> tuple[int, ...]:
    """1, and for a 1-GPU listing the sizes assumed at n times its price, where the scenario asks for them."""
    if not search.linear_sizes or offer.gpus != 1:
        return (1,)
    return (1, *(size for size in LINEAR_SIZES if size <= (gpu.max_gpus_per_node or 1)))


def merged(hardware: Iterable[OwnCards]) -> list[OwnCards]:
    """Own cards, those alike in card, machine and price counted together."""
    counts: dict[OwnCards, int] = defaultdict(int)
    for cards in hardware:
        counts[replace(cards, count=0)] += cards.count
    return [replace(cards, count=count) for cards, count in counts.items()]


def _owned(cards: OwnCards, as_of: date) -> Column:
    """Cards one has, as an offer of oneself."""
    price = None if cards.usd_per_hour is None else micro_usd(cards.usd_per_hour)
    instance_type = f"{cards.gpus_per_instance} x {cards.gpu}"
    offer = Offer(
        provider=OWN,
        segment="own",
        instance_type=instance_type,
        region="own",
        gpu=cards.gpu,
        gpus=cards.gpus_per_instance,
        listed=True,
        prices={} if price is None else {"owned": price},
        ram_bytes=None if cards.ram_gb is None else int(cards.ram_gb * 10**9),
        vcpus=None,
        minimum_instances=1,
        as_of=as_of,
        stale=False,
        source="the scenario's hardware",
        notes="",
    )
    return Column(OWN, instance_type, cards.gpu, cards.gpus_per_instance, "owned", price, 1, False, {"own": offer})


def groups_of(columns: list[Column], placement: str) -> list[tuple[str, tuple[int, ...]]]:
    """Named sets of columns that one purchase may mix: a region of a provider, a provider, or everything."""
    if placement == "anywhere":
        return [("anywhere", tuple(range(len(columns))))]
    groups: dict[str, list[int]] = defaultdict(list)
    for index, column in enumerate(columns):
        if placement == "one_provider":
            groups[column.provider].append(index)
        else:
            for region in column.offers:
                groups[f"{column.provider} {region}"].append(index)
    return [(name, tuple(members)) for name, members in sorted(groups.items())]


def matches(cap: Cap, column: Column) -> bool:
    """Whether a quota or stock counts this column."""
    return (
        (cap.provider is None or cap.provider == column.provider)
        and (cap.gpu is None or cap.gpu == column.gpu)
        and (cap.instance_type is None or cap.instance_type == column.instance_type)
        and (cap.region is None or cap.region in column.offers)
    )
