"""Which columns can be part of one of the k best purchases, and how often: exact pruning before the solver."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recommender.search.problem import Integers, Problem

FAR = np.iinfo(np.int64).max // 4


def reachable(problem: Problem, tier: int, plans: int) -> Integers:
    """The most instances of each column that a purchase among the `plans` best can hold; 0 where none can.

    A column needs no more instances than serve the demand alone at its weakest useful setting. Where prices are known,
    a purchase that holds the column costs at least the column plus the rest of the demand at its group's best price per
    request; above the cost of `plans` distinct one-column purchases it cannot be listed.
    """
    usable = [s for s in range(len(problem.rank)) if problem.tier[s] <= tier]
    capacity = problem.capacity[:, usable]
    alone = _alone(problem.demand, capacity, np.array(problem.minimum, dtype=np.int64))
    most: Integers = _within(problem, np.where(alone < FAR, alone, 0).max(axis=1, initial=0))
    if not problem.priced:
        return most
    prices = np.array(problem.prices, dtype=np.int64)
    ceiling = _ceiling(problem, tier, plans)
    if ceiling >= FAR:
        return most
    floor = _floor(problem, capacity, prices)
    affordable = np.where(prices > 0, ceiling // np.maximum(prices, 1), most)
    pruned: Integers = np.where(floor <= ceiling, np.minimum(most, affordable), 0)
    return pruned


def _within(problem: Problem, most: Integers) -> Integers:
    """No more of each column than every limit lets through by itself."""
    for limit in problem.limits:
        weights = np.array(limit.weights, dtype=np.int64)
        most = np.where(weights > 0, np.minimum(most, limit.bound // np.maximum(weights, 1)), most)
    return most


def _alone(demand: int, capacity: Integers, minimum: Integers) -> Integers:
    """Instances of each column that serve the demand alone, per setting; FAR where it never does."""
    needed = np.where(capacity > 0, -(-demand // np.maximum(capacity, 1)), FAR)
    return np.where(needed < FAR, np.maximum(needed, minimum[:, None]), FAR)


def _ceiling(problem: Problem, tier: int, plans: int) -> int:
    """The cost of the `plans`-th cheapest one-column purchase listed in this tier; FAR where there are fewer.

    So many of a column are listed at a rank where they are fewer than every milder rank needs: with more, the milder
    rank would serve too.
    """
    keys = sorted(set(zip(problem.tier, problem.rank, strict=True)))
    alone = _alone(problem.demand, problem.capacity, np.array(problem.minimum, dtype=np.int64))
    needed = np.stack([alone[:, _settings_at(problem, key)].min(axis=1) for key in keys], axis=1)
    milder = np.minimum.accumulate(np.column_stack([np.full(len(needed), FAR), needed[:, :-1]]), axis=1)
    counts = np.where((needed < milder) & np.array([key[0] == tier for key in keys]), needed, FAR)
    grouped = {column for group in problem.groups for column in group}
    counts[[c for c in range(len(counts)) if c not in grouped]] = FAR
    for limit in problem.limits:
        used = np.where(counts < FAR, counts, 0) * np.array(limit.weights, dtype=np.int64)[:, None]
        counts = np.where(used <= limit.bound, counts, FAR)
    prices = np.array(problem.prices, dtype=np.int64)[:, None]
    costs = np.sort((np.where(counts < FAR, counts, 0) * prices)[counts < FAR])
    return int(costs[plans - 1]) if 0 < plans <= len(costs) else FAR


def _settings_at(problem: Problem, key: tuple[int, int]) -> list[int]:
    return [s for s, own in enumerate(zip(problem.tier, problem.rank, strict=True)) if own == key]


def _floor(problem: Problem, capacity: Integers, prices: Integers) -> Integers:
    """The least cost of any purchase that holds each column, by the best price per request around it."""
    floor = np.full(len(prices), FAR, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_request = np.where(capacity > 0, prices[:, None] / capacity, np.inf)
    for group in problem.groups:
        inside = np.array(group, dtype=np.int64)
        if not len(inside):
            continue
        best = per_request[inside].min(axis=0)
        rest = np.maximum(problem.demand - capacity[inside], 0)
        with np.errstate(invalid="ignore"):
            cost = prices[inside, None] + np.where(rest > 0, rest * best[None, :], 0.0)
        cost = np.where(capacity[inside] > 0, cost, np.inf).min(axis=1)
        floor[inside] = np.minimum(floor[inside], cost)
    return np.floor(np.minimum(floor, float(FAR)) * (1 - 1e-12)).astype(np.int64)


def least_cost(problem: Problem, columns: Sequence[int]) -> int:
    """What any purchase of these columns alone costs at least; 0 where cost does not come first."""
    if not problem.priced or len(set(problem.tier)) > 1:
        return 0
    prices = np.array(problem.prices, dtype=np.int64)[list(columns)]
    most = problem.capacity[list(columns)].max(axis=1, initial=0)
    serving = most > 0
    if not serving.any():
        return int(FAR)
    each = float((prices[serving] / most[serving]).min()) * problem.demand * (1 - 1e-12)
    return max(int(prices[serving].min()), int(each))
