"""CP-SAT, exhaustive enumeration and the covering programme find the same purchases."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from recommender.search.enumeration import all_listed, covering_optimum
from recommender.search.problem import Limit, Problem, order
from recommender.search.solver import solve


def random_problem(
    seed: int, *, columns: int = 3, limits: bool = False, tiers: bool = False, minimum: bool = False
) -> Problem:
    rng = random.Random(seed)
    columns, settings = rng.randint(1, columns), rng.randint(1, 4)
    rank = tuple(sorted(rng.randint(0, 3) for _ in range(settings)))
    tier = tuple(min(r, 1) for r in rank) if tiers else (0,) * settings
    capacity = np.array([[rng.choice([0, 0, 1, 2, 3, 5, 8, 13]) for _ in rank] for _ in range(columns)], dtype=np.int64)
    prices = tuple(rng.choice([1, 2, 3, 5, 7, 8]) * 500_000 for _ in range(columns))
    gpus = tuple(rng.choice([1, 2, 4]) for _ in range(columns))
    half = rng.randint(0, columns)
    groups = ((tuple(range(half)), tuple(range(half, columns))), (tuple(range(columns)),))[rng.randint(0, 1)]
    caps = (Limit("quota", "q", gpus, rng.randint(2, 12)), Limit("stock", "s", (1,) + (0,) * (columns - 1), 1))
    return Problem(
        demand=rng.randint(1, 12),
        names=tuple(f"offer-{c}" for c in range(columns)),
        prices=prices,
        gpus=gpus,
        minimum=tuple(rng.choice([1, 1, 2]) for _ in range(columns)) if minimum else (1,) * columns,
        capacity=capacity,
        rank=rank,
        tier=tier,
        groups=tuple(g for g in groups if g),
        limits=caps if limits else (),
    )


@pytest.mark.parametrize("seed", range(300))
def test_same_purchases_as_enumeration(seed: int) -> None:
    problem = random_problem(seed, limits=seed % 3 == 1, tiers=seed % 5 == 2, minimum=seed % 7 == 3)
    wanted = all_listed(problem, most=12)
    got = solve(problem, plans=5)
    assert list(got.purchases) == wanted[:5]
    assert got.status == ("optimal" if wanted else "infeasible")
    assert got.proven == len(got.purchases)


@pytest.mark.parametrize("seed", range(300))
def test_same_optimum_as_the_covering_programme(seed: int) -> None:
    problem = random_problem(1000 + seed, columns=6, tiers=seed % 2 == 0)
    got = solve(problem, plans=1)
    assert (got.purchases[0].cost if got.purchases else None) == covering_optimum(problem)
    if got.purchases:
        assert got.bound == got.purchases[0].cost


@pytest.mark.parametrize("seed", range(40))
def test_unpriced_purchases_are_ordered_by_rungs_then_gpus(seed: int) -> None:
    priced = random_problem(5000 + seed)
    problem = Problem(
        demand=min(priced.demand, 6),
        names=priced.names,
        prices=(0,) * len(priced.names),
        gpus=priced.gpus,
        minimum=priced.minimum,
        capacity=priced.capacity,
        rank=priced.rank,
        tier=priced.tier,
        groups=(tuple(range(len(priced.names))),),
    )
    wanted = all_listed(problem, most=6)
    assert list(solve(problem, plans=4).purchases) == wanted[:4]


def test_lists_are_sorted_and_distinct() -> None:
    for seed in range(60):
        problem = random_problem(9000 + seed, columns=8)
        purchases = solve(problem, plans=8).purchases
        keys = [order(problem, bought) for bought in purchases]
        assert keys == sorted(keys)
        assert len({bought.counts for bought in purchases}) == len(purchases)


def test_same_answer_twice() -> None:
    problem = random_problem(77, columns=8)
    assert solve(problem, plans=6) == solve(problem, plans=6)


def test_a_large_demand_is_still_proven() -> None:
    capacity = np.array([[27, 40], [55, 83], [112, 171], [230, 340]], dtype=np.int64)
    names, prices = tuple(f"offer-{c}" for c in range(4)), (1_500_000, 3_100_000, 6_050_000, 12_400_000)
    groups = (tuple(range(4)),)
    problem = Problem(200_000, names, prices, (1, 2, 4, 8), (1,) * 4, capacity, (0, 1), (0, 0), groups)
    got = solve(problem, plans=3)
    assert got.status == "optimal"
    assert got.purchases[0].cost == got.bound == covering_optimum(problem)


def test_prices_beyond_any_sum_are_added_up() -> None:
    """A billion dollars an hour for each of 125 own machines, of which a demand alone would take a million."""
    capacity = np.array([[1], [1]], dtype=np.int64)
    owned = Limit("stock", "125 machines", (1, 0), 125)
    problem = Problem(
        120, ("a", "b"), (10**15, 10**15 + 1), (1, 1), (1, 1), capacity, (0,), (0,), ((0, 1),), limits=(owned,)
    )
    assert solve(problem, plans=1).bound == 120 * 10**15
    few = replace(problem, demand=10**7, limits=(owned, Limit("stock", "3 machines", (0, 1), 3)))
    assert solve(few, plans=1).status == "infeasible"


def test_millions_of_unpriced_cards_are_ordered() -> None:
    capacity = np.array([[10**6, 2 * 10**6]] * 2, dtype=np.int64)
    limits = tuple(Limit("stock", "own", tuple(int(c == own) for c in range(2)), 10**7) for own in range(2))
    problem = Problem(10**13, ("a", "b"), (0, 0), (8, 4), (1, 1), capacity, (0, 1), (0, 0), ((0, 1),), limits)
    found = solve(problem, plans=1)
    assert found.status == "optimal"
    assert (found.purchases[0].setting, found.purchases[0].gpus) == (0, 4 * 10**7)
