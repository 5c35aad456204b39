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
            key = f"search.segments: [{', '.join(segments)}]"
            yield Axis(f"{segment} offers", key, replace(search, segments=segments))
    if search.offers == "listed" and not scenario.hardware:
        yield Axis("indicative prices", "search.offers: all", replace(search, offers="all"))
    if not search.stale and not scenario.hardware:
        yield Axis("prices their source marks as outdated", "search.stale: true", replace(search, stale=True))
    if not search.linear_sizes and not scenario.hardware:
        yield Axis("2, 4 and 8 GPUs of 1-GPU listings", "search.linear_sizes: true", replace(search, linear_sizes=True))


def left_out(
    axis: Axis,
    base: list[Column],
    beyond: list[Column],
    problem_of: Callable[[list[Column], bool], Problem],
    name: Callable[[list[Column], Bought], str],
) -> LeftOut | None:
    """The cheapest plan that an axis adds to the search; None where it admits no offer of its own.

    `base` are the columns searched anyway, `beyond` those that only this axis admits. `problem_of(columns, untouched)`
    builds a problem; `name` says what a purchase is.
    """
    if not beyond:
        return None
    cheapest = _cheapest(base, beyond, lambda columns: problem_of(columns, False))
    native = _cheapest(base, beyond, lambda columns: problem_of(columns, True))
    return LeftOut(
        what=axis.what,
        how_to_include=axis.how_to_include,
        offers=sum(len(column.offers) for column in beyond),
        cheapest_micro_usd_per_hour=cheapest[1].cost if cheapest else None,
        cheapest=name(*cheapest) if cheapest else None,
        quality_untouched_micro_usd_per_hour=native[1].cost if native else None,
    )


def _cheapest(
    base: list[Column], beyond: list[Column], problem_of: Callable[[list[Column]], Problem]
) -> tuple[list[Column], Bought] | None:
    """What the widened search would choose if that buys something beyond, else the best of what is beyond alone."""
    for columns in ([*beyond, *base], beyond):
        solution = solve(problem_of(columns), plans=1, cost_only=True)
        if solution.status != "optimal" or not solution.purchases:
            continue
        bought = solution.purchases[0]
        if any(column < len(beyond) for column, _ in bought.counts):
            return columns, bought
    return None
