"""Enumeration checks: the same answers by other means than the solver."""

from __future__ import annotations

from itertools import product

import numpy as np

from recommender.search.problem import Bought, Problem, listed, order


def all_listed(problem: Problem, most: int) -> list[Bought]:
    """Every irreducible purchase with at most `most` instances of a column, in rank order, by trying each count."""
    columns = range(len(problem.names))
    served: dict[tuple[int, ...], Bought] = {}
    for counts in product(range(most + 1), repeat=len(problem.names)):
        chosen = {c: n for c, n in zip(columns, counts, strict=True) if n}
        if chosen and problem.within_limits(chosen) and problem.best_settings(chosen):
            served[counts] = listed(problem, chosen)
    kept = [bought for counts, bought in served.items() if _irreducible(problem, counts, bought, served)]
    return sorted(kept, key=lambda bought: order(problem, bought))


def _irreducible(
    problem: Problem, counts: tuple[int, ...], bought: Bought, served: dict[tuple[int, ...], Bought]
) -> bool:
    """Whether no purchase inside this one (each is found by removing instances) serves at the same or milder rungs."""
    own = (problem.tier[bought.setting], problem.rank[bought.setting])
    for smaller in product(*(range(n + 1) for n in counts)):
        other = served.get(smaller)
        if smaller == counts or other is None:
            continue
        if (problem.tier[other.setting], problem.rank[other.setting]) <= own:
            return False
    return True


def covering_optimum(problem: Problem) -> int | None:
    """The least cost by a covering dynamic programme over each group and setting; None where nothing serves the demand.

    least[n] = min over columns of price + least[n - capacity]. Exact without limits; columns sold from a minimum number
    on are left out, so it raises ValueError where one of those could be cheaper, as it does with limits.
    """
    if problem.limits:
        raise ValueError("the covering programme does not know limits")
    single = [c for c, least in enumerate(problem.minimum) if least == 1]
    best = _cheapest_cover(problem, set(single))
    bundles = [
        problem.minimum[c] * problem.prices[c]
        for c in range(len(problem.names))
        if c not in single and problem.capacity[c].any()
    ]
    if bundles and (best is None or min(bundles) < best):
        raise ValueError("the covering programme does not know minimum counts")
    return best


def _cheapest_cover(problem: Problem, single: set[int]) -> int | None:
    prices = np.array(problem.prices, dtype=np.int64)
    first_tier = _first_feasible_tier(problem)
    best: int | None = None
    for setting in range(len(problem.rank)):
        if problem.tier[setting] != first_tier:
            continue
        for group in problem.groups:
            columns = np.array([c for c in group if c in single and problem.capacity[c, setting] > 0], dtype=np.int64)
            if not len(columns):
                continue
            capacity = problem.capacity[columns, setting]
            bound = problem.demand * float((prices[columns] / capacity).min())
            if best is not None and bound > best:
                continue
            cost = _cover(problem.demand, capacity, prices[columns])
            best = cost if best is None else min(best, cost)
    return best


def _first_feasible_tier(problem: Problem) -> int | None:
    tiers = [
        problem.tier[s]
        for s in range(len(problem.rank))
        if any((problem.capacity[list(g), s] > 0).any() for g in problem.groups)
    ]
    return min(tiers) if tiers else None


def _cover(demand: int, capacity: np.ndarray, prices: np.ndarray) -> int:
    least = np.zeros(demand + 1, dtype=np.int64)
    for n in range(1, demand + 1):
        least[n] = (prices + least[np.maximum(n - capacity, 0)]).min()
    return int(least[demand])
