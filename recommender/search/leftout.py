"""What the defaults left out, and what the cheapest plan among each would cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from recommender.scenario import Scenario, Search
from recommender.search.columns import Column
from recommender.search.plan import LeftOut
from recommender.search.problem import Bought, Problem
from recommender.search.solver import solve


@dataclass(frozen=True, slots=True)
class Axis:
    """One default, and the search that lifts it."""

    what: str
    how_to_include: str
    search: Search


def axes_of(scenario: Scenario) -> Iterator[Axis]:
    """The defaults that narrow this scenario's search."""
    search = scenario.search
    for market, words in (("spot", "spot prices"), ("reserved_1y", "1-year"), ("reserved_3y", "3-year")):
        if market not in search.markets and not scenario.hardware:
            what = words if market == "spot" else f"{words} commitments"
            markets = (*search.markets, market)
            yield Axis(what, f"search.markets: [{', '.join(markets)}]", replace(search, markets=markets))
    for segment in ("marketplace", "serverless"):
        if segment not in search.segments and not scenario.hardware:
            segments = (*search.segments, segment)
            yield Axis(
                f"{segment} offers", f"search.segments: [{', '.join(segments)}]", replace(search, segments=segments)
            )
    if search.offers == "listed" and not scenario.hardware:
        yield Axis("indicative prices", "search.offers: all", replace(search, offers="all"))
    if not search.linear_sizes and not scenario.hardware:
        yield Axis("2, 4 and 8 GPUs of 1-GPU listings", "search.linear_sizes: true", replace(search, linear_sizes=True))


def left_out(
    axis: Axis,
    columns: list[Column],
    problem_of: Callable[[list[Column], bool], Problem],
    name: Callable[[Bought], str],
) -> LeftOut | None:
    """The cheapest plan among the columns that only this axis admits; None where there are none.

    `problem_of(columns, untouched)` builds the problem; `name` says what a purchase is.
    """
    if not columns:
        return None
    best = [_cheapest(problem_of(columns, untouched)) for untouched in (False, True)]
    cheapest, native = best
    return LeftOut(
        what=axis.what,
        how_to_include=axis.how_to_include,
        offers=sum(len(column.offers) for column in columns),
        cheapest_micro_usd_per_hour=cheapest.cost if cheapest else None,
        cheapest=name(cheapest) if cheapest else None,
        quality_untouched_micro_usd_per_hour=native.cost if native else None,
    )


def _cheapest(problem: Problem) -> Bought | None:
    solution = solve(problem, plans=1)
    return solution.purchases[0] if solution.status == "optimal" else None
