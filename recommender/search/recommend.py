"""A scenario and a catalog -> the Recommendation. One way: resolve, list candidates, choose, describe, check."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from statistics import median

from recommender.catalog.catalog import Catalog
from recommender.check import check_plan
from recommender.errors import InternalError
from recommender.memory.capacity import UNBOUNDED
from recommender.scenario import Scenario, Search, Sla
from recommender.search.asked import Asked, look_up
from recommender.search.bounds import least_cost
from recommender.search.by_hour import by_hour
from recommender.search.columns import Column
from recommender.search.enumeration import covering_optimum
from recommender.search.largest import largest_concurrency
from recommender.search.leftout import left_out
from recommender.search.plan import Certificate, LeftOut, Plan, Recommendation, Refusal
from recommender.search.plans import Question, plan_of
from recommender.search.problem import Bought, Problem, order
from recommender.search.refusals import changes, gpu_refusals
from recommender.search.replays import replays_of
from recommender.search.sizing import sizing_of
from recommender.search.solver import Solution, solve
from recommender.search.speeds import unused_anchors
from recommender.workload.lengths import served_share
from recommender.workload.replica import Progress

TIME_DIGITS = 6
"""Of CP-SAT's own measure of its work, whose last digits differ from run to run: same input, same bytes."""
CROSS_CHECK_WORK = 20_000_000  # demand x columns x settings up to which the covering programme checks an answer
FEWEST_FOR_MEDIAN = 4  # offers below which a GPU's median price says nothing


def recommend(scenario: Scenario, catalog: Catalog, progress: Progress | None = None) -> Recommendation:
    """Ranked, checked, provably cheapest plans for a scenario, or the reasons why there are none.

    `progress` is told of a replay's requests as they finish.
    """
    asked = look_up(scenario, catalog, wider=True)
    problem = asked.problem(asked.columns)
    solution = _solve(asked, problem)
    question = question_of(asked)
    plans = tuple(plan_of(question, bought, rank) for rank, bought in enumerate(solution.purchases, 1))
    alternatives = _alternatives(asked, question, plans)
    for plan in (*plans, *(each for each in alternatives.values() if each)):
        check_plan(plan, asked.scenario, catalog, asked.anchors)
    certificate = _certificate(asked, problem, solution)
    return Recommendation(
        scenario=scenario.name,
        question=_question_in_words(asked),
        model=asked.model.id,
        concurrency=scenario.workload.concurrency,
        status=certificate.status,
        certificate=certificate,
        plans=plans,
        cheapest_quality_untouched=alternatives["untouched"],
        cheapest_no_checkpoint_needed=alternatives["no_checkpoint"],
        cheapest_on_fresh_prices=alternatives["fresh"],
        left_out=_left_out(asked),
        refusals=_refusals(asked, problem, plans),
        defaults=dict(scenario.defaults),
        catalog=catalog.stamp,
        warnings=(*_warnings(asked), *unused_anchors(asked.anchors, plans)),
        as_of=asked.scenario.as_of,
        rank=scenario.rank,
        speed_limited=scenario.sla.timed,
        sizing=sizing_of(asked, plans),
        replays=replays_of(asked, plans, progress),
        by_hour=by_hour(scenario.workload, asked.load, plans, catalog),
    )


def question_of(asked: Asked) -> Question:
    """What every part of the answer is described from."""
    return Question(
        scenario=asked.scenario,
        model=asked.model,
        gpus=asked.gpus,
        columns=asked.columns,
        candidates=asked.candidates,
        medians=_medians(asked.catalog),
        anchors=asked.anchors,
    )


def _medians(catalog: Catalog) -> dict[str, int]:
    """Micro-dollars per GPU-hour on demand, by GPU: each instance type once, in its cheapest region."""
    cheapest: dict[tuple[str, str, str], int] = {}
    for offer in catalog.offers:
        if offer.listed and not offer.stale and "on_demand" in offer.prices:
            key = (offer.gpu, offer.provider, offer.instance_type)
            price = offer.prices["on_demand"] // offer.gpus
            cheapest[key] = min(price, cheapest.get(key, price))
    prices: dict[str, list[int]] = defaultdict(list)
    for (gpu, _, _), price in cheapest.items():
        prices[gpu].append(price)
    return {gpu: int(median(each)) for gpu, each in prices.items() if len(each) >= FEWEST_FOR_MEDIAN}


def _solve(asked: Asked, problem: Problem) -> Solution:
    """The k best purchases; with `group_by`, the optimum and the best of each GPU, provider or region alone."""
    plans = asked.scenario.search.plans
    by = asked.scenario.group_by
    if by is None:
        return solve(problem, plans)
    kinds: dict[str, list[int]] = defaultdict(list)
    for index, column in enumerate(asked.columns):
        for value in column.offers if by == "region" else (getattr(column, by),):
            kinds[value].append(index)
    solutions = [solve(problem, 1), *_best_of_each(problem, kinds.values(), plans)]
    found = sorted(
        {bought for solution in solutions for bought in solution.purchases}, key=lambda each: order(problem, each)
    )[:plans]
    if not found:
        return max(solutions, key=lambda each: each.status, default=Solution("infeasible", (), 0, None, 0.0))
    proven = all(solution.status in ("optimal", "infeasible") for solution in solutions)
    status = "optimal" if proven else "feasible"
    spent = sum(solution.deterministic_time for solution in solutions)
    return Solution(status, tuple(found), len(found) if proven else 0, solutions[0].bound, spent)


def _best_of_each(problem: Problem, kinds: Iterable[Sequence[int]], plans: int) -> Iterator[Solution]:
    """The best purchase of each kind of column; none of those that are surely dearer than so many of the others'."""
    bounded = sorted(((least_cost(problem, members), members) for members in kinds), key=lambda each: each[0])
    costs: list[int] = []
    for least, members in bounded:
        if len(costs) >= plans and least > sorted(costs)[plans - 1]:
            return
        solution = solve(replace(problem, groups=_within(problem, members)), 1)
        costs += [bought.cost for bought in solution.purchases]
        yield solution


def _within(problem: Problem, members: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The groups cut down to some columns."""
    wanted = set(members)
    return tuple(cut for group in problem.groups if (cut := tuple(c for c in group if c in wanted)))


def _alternatives(asked: Asked, question: Question, plans: Sequence[Plan]) -> dict[str, Plan | None]:
    """The cheapest plan untouched in quality, without a checkpoint to make, and on fresh prices, where they differ."""
    found: dict[str, Plan | None] = {"untouched": None, "no_checkpoint": None, "fresh": None}
    if not plans:
        return found
    first = plans[0]
    found["untouched"] = first if first.quality_untouched else _best(asked, question, asked.columns, asked.untouched)
    made = {i for i, each in enumerate(asked.terms) if each.choice.how == "to_make"}
    found["no_checkpoint"] = (
        first
        if all(group.weights_how != "to_make" for group in first.replicas)
        else _best(asked, question, asked.columns, [i for i in range(len(asked.terms)) if i not in made])
    )
    if not all(_fresh(asked, purchase.as_of) for purchase in first.offers):
        fresh = [each for each in asked.columns if all(_fresh(asked, offer.as_of) for offer in each.offers.values())]
        found["fresh"] = _best(asked, question, fresh, None)
    return found


def _fresh(asked: Asked, priced_on: date) -> bool:
    as_of = asked.scenario.as_of
    return as_of is None or (as_of - priced_on).days <= asked.scenario.search.max_price_age_days


def _best(asked: Asked, question: Question, columns: Sequence[Column], allowed: Iterable[int] | None) -> Plan | None:
    """The proven best plan over some columns and terms."""
    solution = solve(asked.problem(columns, allowed), plans=1)
    if not solution.purchases or solution.status != "optimal":
        return None
    return plan_of(replace(question, columns=tuple(columns)), solution.purchases[0], 1)


def _certificate(asked: Asked, problem: Problem, solution: Solution) -> Certificate:
    candidates, feasible = _counted(asked)
    gap = None
    if solution.purchases and solution.bound is not None and problem.priced:
        cost = solution.purchases[0].cost
        gap = Decimal(0) if solution.status == "optimal" else Decimal(cost - solution.bound) / cost
    return Certificate(
        status=solution.status,
        bound_micro_usd_per_hour=solution.bound if problem.priced else None,
        gap=gap,
        candidates=candidates,
        feasible_candidates=feasible,
        solver="OR-Tools CP-SAT",
        cross_check=_cross_check(problem, solution),
        deterministic_time=round(solution.deterministic_time, TIME_DIGITS),
        plans_proven=solution.proven,
    )


def _counted(asked: Asked) -> tuple[int, int]:
    """(candidates, those that hold a request): an offer, a tensor parallel size and terms each."""
    rows = {gpu: asked.candidates.of_gpu(gpu) for gpu in sorted({column.gpu for column in asked.columns})}
    tally: dict[tuple[str, int], tuple[int, int]] = {}
    total = [0, 0]
    for column in asked.columns:
        key = (column.gpu, column.gpus)
        if key not in tally:
            fitting = [row for row in rows[column.gpu] if row.layout.gpus <= column.gpus]
            tally[key] = (len(fitting), sum(1 for row in fitting if row.sequences))
        total[0] += tally[key][0] * len(column.offers)
        total[1] += tally[key][1] * len(column.offers)
    return total[0], total[1]


def _cross_check(problem: Problem, solution: Solution) -> str:
    """Whether the covering programme finds the same optimum. Raises InternalError where it does not."""
    if not problem.priced or problem.limits:
        return "no second method: it knows neither limits nor unpriced cards"
    work = problem.demand * len(problem.names) * len(problem.rank)
    if work > CROSS_CHECK_WORK or not solution.purchases:
        return "no second method: too large" if solution.purchases else "no second method: nothing serves"
    try:
        least = covering_optimum(problem)
    except ValueError as error:
        return f"no second method: {error}"
    if solution.status == "optimal" and least != solution.purchases[0].cost:
        raise InternalError(f"CP-SAT says {solution.purchases[0].cost}, the covering programme {least}")
    return "confirmed by a covering dynamic programme"


def _left_out(asked: Asked) -> tuple[LeftOut, ...]:
    def problem_of(columns: list[Column], untouched: bool) -> Problem:
        return asked.problem(columns, asked.untouched if untouched else None)

    def name(columns: list[Column], bought: Bought) -> str:
        return " + ".join(
            f"{count} x {columns[c].provider} {columns[c].instance_type} ({columns[c].gpus} x {columns[c].gpu})"
            for c, count in bought.counts
        )

    base = list(asked.columns)
    found = (left_out(axis, base, list(beyond), problem_of, name) for axis, beyond in asked.wider)
    return tuple(each for each in found if each)


def _refusals(asked: Asked, problem: Problem, plans: Sequence[Plan]) -> tuple[Refusal, ...]:
    searched = {column.gpu for column in asked.columns}
    refused = asked.unsearched + gpu_refusals(asked.candidates, searched)
    if plans:
        return refused

    def build(changed: Scenario) -> Problem:
        again = look_up(changed, asked.catalog)
        return again.problem(again.columns)

    def largest() -> int:
        again = look_up(asked.scenario, asked.catalog, UNBOUNDED)
        return largest_concurrency(again.problem(again.columns))[0]

    if asked.refused_lengths:
        return (Refusal(None, "max_model_len", asked.refused_lengths, None), *refused)
    nothing = () if asked.columns else (Refusal(None, "price", _no_offer(asked.scenario), None),)
    return (*nothing, *changes(asked.scenario, problem, build, largest, asked.load), *refused)


def _no_offer(scenario: Scenario) -> str:
    """What there is to look at where nothing may be bought at all."""
    if scenario.hardware:
        return f"none of the own cards runs {scenario.engine}"
    narrowed = [
        name
        for name in ("gpus", "providers", "segments", "regions", "markets")
        if getattr(scenario.search, name) not in (None, getattr(Search(), name))
    ]
    keys = ", ".join(f"search.{name}" for name in narrowed) or "search"
    return f"no offer matches {keys} at prices up to {scenario.as_of}"


def _question_in_words(asked: Asked) -> str:
    lengths = asked.scenario.workload.lengths
    what = lengths.name or f"{lengths.maximum_tokens:,} tokens each"
    limits = service_level_words(asked.scenario.sla)
    return f"{asked.load.words(asked.load.demand)}, {what}, of {asked.model.id}{limits}"


def service_level_words(sla: Sla) -> str:
    """The limits on speed: `, at most 30 ms a token`; nothing where there are none."""
    said = [
        sla.ttft_ms is not None and f"at most {sla.ttft_ms:,} ms to the first token{_for_whom(sla)}",
        sla.tpot_ms is not None and f"at most {sla.tpot_ms:,} ms a token",
        sla.output_tokens_per_s is not None and f"at least {sla.output_tokens_per_s:,} output tokens a second in all",
        sla.requests_per_s is not None and f"at least {sla.requests_per_s:,} requests a second in all",
    ]
    limits = [each for each in said if each]
    return f"; {', '.join(limits)} (kept by {float(sla.confidence * 100):g} % of such predictions)" if limits else ""


def _for_whom(sla: Sla) -> str:
    return " on average" if sla.percentile is None else f" for {float(sla.percentile):g} % of requests"


def _warnings(asked: Asked) -> tuple[str, ...]:
    """What concerns the whole answer: requests no plan serves, and what the lengths themselves warn of."""
    lengths = asked.scenario.workload.lengths
    found = [*lengths.notes, *asked.doubts]
    share = served_share(lengths, asked.longest)
    if share < 1:
        found.append(
            f"{100 * (1 - share):.2f} % of the requests are longer than the model's"
            f" {asked.longest:,} tokens: refused, or cut at it"
        )
    return tuple(found)
