"""The purchase problem in integers: what the solver and the enumeration both see, and nothing else.

A purchase is a count of instances per column. A setting is a choice of weight dtype, KV dtype and max-model-len for
every replica; `capacity[column, setting]` is how many requests one instance serves at it. Settings are ordered by
`tier` (compared before cost; 0 unless quality comes first) and `rank` (the rungs they take, dearest first).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Limit:
    """`sum(weights x counts) <= bound`: a quota, a stock, a budget, a power limit."""

    kind: str  # quota | stock | budget | power | gpus
    text: str
    weights: tuple[int, ...]
    bound: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Serve `demand` requests at the least cost.

    Columns are sorted by name; `groups` are the sets of columns that may be bought together.
    """

    demand: int
    names: tuple[str, ...]
    prices: tuple[int, ...]  # micro-dollars an hour of one instance; 0 where owned and unpriced
    gpus: tuple[int, ...]
    minimum: tuple[int, ...]  # smallest number sold together
    capacity: Integers  # columns x settings
    rank: tuple[int, ...]  # of each setting
    tier: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    limits: tuple[Limit, ...] = ()

    @property
    def priced(self) -> bool:
        """Whether anything costs money; if not, purchases are ordered by rungs, then GPUs."""
        return any(self.prices)

    def served(self, counts: dict[int, int], setting: int) -> int:
        """Requests that `counts` instances (by column) serve at a setting."""
        return sum(count * int(self.capacity[column, setting]) for column, count in counts.items())

    def cost(self, counts: dict[int, int]) -> int:
        """Micro-dollars an hour."""
        return sum(count * self.prices[column] for column, count in counts.items())

    def gpu_count(self, counts: dict[int, int]) -> int:
        """GPUs bought."""
        return sum(count * self.gpus[column] for column, count in counts.items())

    def best_settings(self, counts: dict[int, int]) -> tuple[int, ...]:
        """The feasible settings of the mildest feasible (tier, rank), most requests first."""
        served = {s: self.served(counts, s) for s in range(len(self.rank))}
        feasible = [s for s in served if served[s] >= self.demand]
        if not feasible:
            return ()
        mildest = min((self.tier[s], self.rank[s]) for s in feasible)
        return tuple(
            sorted((s for s in feasible if (self.tier[s], self.rank[s]) == mildest), key=lambda s: (-served[s], s))
        )

    def within_limits(self, counts: dict[int, int]) -> bool:
        """Whether the purchase keeps every limit, each column's minimum and one group."""
        if any(count < self.minimum[column] for column, count in counts.items()):
            return False
        if not any(set(counts) <= set(group) for group in self.groups):
            return False
        return all(sum(limit.weights[c] * n for c, n in counts.items()) <= limit.bound for limit in self.limits)


@dataclass(frozen=True, slots=True)
class Bought:
    """One listed purchase: instances by column, and the setting it is shown at."""

    counts: tuple[tuple[int, int], ...]
    setting: int
    cost: int
    gpus: int
    served: int


def of_one_kind(problem: Problem, before: Sequence[Bought]) -> list[Bought]:
    """The cheapest purchase of each single column that serves, best first; none that holds a column of one before."""
    held = {column for bought in before for column, _ in bought.counts}
    found = []
    for column in sorted({c for group in problem.groups for c in group} - held):
        most = int(problem.capacity[column].max(initial=0))
        counts = {column: max(-(-problem.demand // most), problem.minimum[column])} if most else {}
        if counts and problem.within_limits(counts):
            found.append(listed(problem, counts))
    return sorted(found, key=lambda bought: order(problem, bought))


def listed(problem: Problem, counts: dict[int, int]) -> Bought:
    """The purchase at its best setting. Raises ValueError where it serves too few at every setting."""
    best = problem.best_settings(counts)
    if not best:
        raise ValueError("a purchase that serves too few is not listed")
    return Bought(
        counts=tuple(sorted(counts.items())),
        setting=best[0],
        cost=problem.cost(counts),
        gpus=problem.gpu_count(counts),
        served=problem.served(counts, best[0]),
    )


def order(problem: Problem, bought: Bought) -> tuple[object, ...]:
    """The key purchases are ranked by: tier, cost, rungs, GPUs, headroom, name (design: lexicographic objective)."""
    name = tuple((problem.names[column], count) for column, count in bought.counts)
    rank = problem.rank[bought.setting]
    return (problem.tier[bought.setting], bought.cost, rank, bought.gpus, -bought.served, name)
