"""Plans that follow the hours: instances are held only in the hours that need them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from recommender.catalog.catalog import Catalog
from recommender.scenario import Workload
from recommender.search.load import Load
from recommender.search.plan import ByHour, Level, Plan, Scaled
from recommender.units import ceil_div

ELASTIC = ("on_demand", "spot")
"""Markets that end with the hour; what is reserved or owned is paid for in all of them."""
STATED = "as stated"
LOGGED = "the log's own arrivals"
_EXACT = 1e-9
MOST_CHOICES = 1000
"""Numbers of one kind's instances that are tried beside another kind: thousands are scaled to about a thousandth."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """Equal instances of a plan: how many, what one costs, and what all of them carry in units of the load."""

    count: int
    micro_usd_per_hour: int
    carried: int
    replicas: int
    least: int  # the fewest that may be held, besides none
    elastic: bool

    def carries(self, instances: int) -> int:
        """Units that so many of them carry: those that carry most are kept, so no less than the average."""
        return self.carried * instances // self.count

    @property
    def choices(self) -> Iterable[int]:
        """How many of them may be held."""
        return (0, *self._some) if self.elastic else self._some

    @property
    def looked_at(self) -> Iterable[int]:
        """Those that are tried: of thousands every so many one, and all of them."""
        each = ceil_div(len(self._some), MOST_CHOICES)
        return (*((0,) if self.elastic else ()), *self._some[:-1:each], self.count)

    @property
    def _some(self) -> range:
        """How many of them may be held, besides none."""
        return range(self.least if self.elastic else self.count, self.count + 1)

    def carrying(self, units: int) -> int | None:
        """The fewest that carry so many units; None where all of them do not."""
        if units <= 0 and self.elastic:
            return 0
        enough = max(ceil_div(units * self.count, self.carried), self._some[0]) if self.carried else self.count
        return enough if enough <= self.count and self.carries(enough) >= units else None


def by_hour(work: Workload, load: Load, plans: Sequence[Plan], catalog: Catalog) -> ByHour | None:
    """The plans scaled to a workload's hours; None where no hours are known, or nothing is priced."""
    shares, source = _profile(work)
    if not shares or not plans or any(plan.micro_usd_per_hour is None for plan in plans):
        return None
    least = {offer.key: offer.minimum_instances for offer in catalog.offers}
    return ByHour(len(shares), source, tuple(_scaled(plan, shares, load, least) for plan in plans))


def _profile(work: Workload) -> tuple[tuple[float, ...], str]:
    """Each hour's load as a share of the busiest hour's, and where that is known from."""
    stated = work.hourly if work.rate is None else work.rate.hourly
    logged = work.lengths.arrivals.hourly if work.lengths.arrivals else ()
    profile = stated or logged
    busiest = max(profile, default=0.0)
    return tuple(each / busiest for each in profile), STATED if stated else LOGGED


def _scaled(plan: Plan, shares: Sequence[float], load: Load, least: Mapping[tuple[str, str, str], int]) -> Scaled:
    kinds = _kinds(plan, load, least)
    chosen: dict[int, tuple[int, ...]] = {}
    hours: dict[tuple[int, ...], list[int]] = {}
    for hour, share in enumerate(shares):
        units = math.ceil(load.demand * share - _EXACT)
        chosen[units] = chosen.get(units) or _fewest(kinds, units)
        hours.setdefault(chosen[units], []).append(hour)
    levels = (_level(kinds, instances, tuple(at), shares, load) for instances, at in hours.items())
    ranked = tuple(sorted(levels, key=lambda level: -level.share))
    scaled = sum(len(level.hours) * level.micro_usd_per_hour for level in ranked)
    return Scaled(plan.rank, ranked, scaled, len(shares) * (plan.micro_usd_per_hour or 0))


def _kinds(plan: Plan, load: Load, least: Mapping[tuple[str, str, str], int]) -> tuple[_Kind, ...]:
    kinds = []
    for place, bought in enumerate(plan.offers):
        groups = [group for group in plan.replicas if group.offer_index == place]
        kinds.append(
            _Kind(
                count=bought.count,
                micro_usd_per_hour=bought.micro_usd_per_hour or 0,
                carried=sum(load.units_of(group.concurrency, group.rate_per_s) * group.count for group in groups),
                replicas=sum(group.count for group in groups),
                least=least.get((bought.provider, bought.instance_type, bought.region), 1),
                elastic=bought.market in ELASTIC,
            )
        )
    return tuple(kinds)


def _fewest(kinds: Sequence[_Kind], units: int) -> tuple[int, ...]:
    """Instances of each kind that carry so many units at the least cost, of equal ones the fewest; at most all."""
    last = max(range(len(kinds)), key=lambda place: kinds[place].count)
    best: tuple[int, int, tuple[int, ...]] | None = None
    for others in product(*(kind.looked_at if place != last else (0,) for place, kind in enumerate(kinds))):
        left = units - sum(kind.carries(count) for kind, count in zip(kinds, others, strict=True))
        enough = kinds[last].carrying(left)
        if enough is None:
            continue
        counts = (*others[:last], enough, *others[last + 1 :])
        found = _cost(kinds, counts), sum(counts), counts
        best = found if best is None else min(best, found)
    return best[2] if best else tuple(kind.count for kind in kinds)


def _cost(kinds: Sequence[_Kind], instances: Sequence[int]) -> int:
    return sum(kind.micro_usd_per_hour * count for kind, count in zip(kinds, instances, strict=True))


def _level(
    kinds: Sequence[_Kind], instances: tuple[int, ...], hours: tuple[int, ...], shares: Sequence[float], load: Load
) -> Level:
    share = max(shares[hour] for hour in hours)
    return Level(
        hours=hours,
        share=share,
        asked=load.words(math.ceil(load.demand * share - _EXACT)),
        instances=instances,
        replicas=sum(kind.replicas * count // kind.count for kind, count in zip(kinds, instances, strict=True)),
        micro_usd_per_hour=_cost(kinds, instances),
    )
