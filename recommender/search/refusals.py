"""Why there is no plan: for each GPU the first limit that binds, and the nearest single change that would do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from decimal import Decimal

from recommender.scenario import Scenario, Search
from recommender.search.candidates import Candidates, Row
from recommender.search.load import Load
from recommender.search.plan import Refusal
from recommender.search.problem import Limit, Problem
from recommender.search.slower import eased, more_at_once, too_slow
from recommender.search.solver import solve
from recommender.units import HOURS_PER_MONTH, ceil_decimal, show_usd, usd

STAGES = (1, 2, 3, 4)
ORDER = ("fits", "speed", "max_model_len", "memory", "compatibility")  # nearest to a plan first


def gpu_refusals(candidates: Candidates, searched: Iterable[str]) -> tuple[Refusal, ...]:
    """One refusal for each searched GPU on which no replica holds a request, by what stopped its best attempt."""
    found = []
    for name in sorted(searched):
        rows = candidates.of_gpu(name)
        if not rows or any(row.sequences for row in rows):
            continue
        if any(row.limit == "speed" for row in rows):
            found.append(Refusal(name, "speed", too_slow(candidates, rows), None))
            continue
        nearest = min(rows, key=lambda row: (ORDER.index(row.limit), -row.kv_cache_bytes, -row.layout.gpus, -row.terms))
        found.append(Refusal(name, nearest.limit, _words(nearest, candidates), None))
    return tuple(found)


def _words(row: Row, candidates: Candidates) -> str:
    if row.limit == "compatibility":
        return row.reason
    terms = candidates.terms[row.terms]
    how = f"{row.layout}, {terms.choice.weights} weights, {terms.kv_dtype} KV, max-model-len {terms.max_model_len:,}"
    return f"{row.reason} (at best {how})"


def changes(
    scenario: Scenario, problem: Problem, build: Callable[[Scenario], Problem], largest: Callable[[], int], load: Load
) -> Iterator[Refusal]:
    """Single changes that make an infeasible scenario feasible, in the ladder's order, then load, SLA, quota, budget.

    `build(scenario)` gives the problem of a changed scenario; `largest()` the units of load the limits do allow.
    """
    for rung in ("max_model_len", "kv_dtype", "weights"):
        yield from _rung(scenario, rung, build)
    if scenario.search.tp is not None:
        yield from _lifted("search.tp", replace(scenario.search, tp=None), scenario, build)
    yield from more_at_once(scenario, lambda changed: _least_cost(build(changed)))
    yield from eased(scenario, lambda changed: _feasible(build(changed)))
    totals = scenario.sla.output_tokens_per_s or scenario.sla.requests_per_s  # which fewer requests reach even less
    most = largest() if problem.limits and not totals else 0
    if 0 < most < load.demand:
        yield Refusal(None, "max_num_seqs", "fewer requests fit the limits", load.reduced(most))
    for index, limit in enumerate(problem.limits):
        yield from _relaxed(problem, index, limit)
    if scenario.search.gpus is not None:
        yield from _lifted("search.gpus", replace(scenario.search, gpus=None), scenario, build)
    if scenario.search.pp == (1,):
        staged = replace(scenario.search, pp=STAGES)
        if _feasible(build(replace(scenario, search=staged))):
            text = f"search.pp: {list(STAGES)} (pipeline stages)"
            yield Refusal(None, "search.pp", "the weights need more GPUs than tensor parallel reaches", text)


def _rung(scenario: Scenario, rung: str, build: Callable[[Scenario], Problem]) -> Iterator[Refusal]:
    """Allowing a forbidden rung, or dropping the list of dtypes that rules it out."""
    key = {"kv_dtype": "kv_dtypes", "weights": "weights"}.get(rung)
    listed = key is not None and getattr(scenario.search, key) is not None
    if rung not in scenario.forbidden_rungs and not listed:
        return
    search = scenario.search
    if key == "kv_dtypes":
        search = replace(search, kv_dtypes=None)
    elif key == "weights":
        search = replace(search, weights=None)
    allow, drop = f"allow the adjustment {rung}", f"drop search.{key}"
    ways = ((True, scenario.search, allow), (False, search, drop), (True, search, f"{allow} and {drop}"))
    for allowed, listing, change in ways:
        kept = scenario.forbidden_rungs - {rung} if allowed else scenario.forbidden_rungs
        changed = replace(scenario, forbidden_rungs=kept, search=listing)
        if changed != scenario and _feasible(build(changed)):
            yield Refusal(None, rung, f"every set-up that serves takes the {rung} adjustment", change)
            return


def _lifted(key: str, search: Search, scenario: Scenario, build: Callable[[Scenario], Problem]) -> Iterator[Refusal]:
    if _feasible(build(replace(scenario, search=search))):
        yield Refusal(None, key, f"{key} leaves out every set-up that serves", f"drop {key}")


def _feasible(problem: Problem) -> bool:
    return _least_cost(problem) is not None


def _least_cost(problem: Problem) -> int | None:
    purchases = solve(problem, plans=1, cost_only=True).purchases
    return purchases[0].cost if purchases else None


def _relaxed(problem: Problem, index: int, limit: Limit) -> Iterator[Refusal]:
    """The least bound of one limit at which, all others kept, something serves."""
    others = problem.limits[:index] + problem.limits[index + 1 :]
    alone = replace(problem, limits=others, prices=limit.weights, tier=(0,) * len(problem.rank))
    least = solve(alone, plans=1, cost_only=True)
    if not least.purchases:
        return
    needed = sum(limit.weights[column] * count for column, count in least.purchases[0].counts)
    if needed <= limit.bound:
        return
    if limit.kind == "budget":
        month = usd(needed * HOURS_PER_MONTH)
        change = f"limits.usd_per_month: {show_usd(Decimal(ceil_decimal(month)), 0)} or more"
    else:
        change = f"{limit.text}: {needed:,} instead of {limit.bound:,}"
    yield Refusal(None, limit.kind, f"the limit on {limit.kind} ({limit.text}) binds", change)
