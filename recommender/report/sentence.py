"""The answer in one plain sentence: the set-up, the one that leaves quality untouched, and what was left out."""

from __future__ import annotations

from collections.abc import Iterable

from recommender.report.by_hour import follows
from recommender.report.replays import rejected
from recommender.report.sizing import saving
from recommender.report.words import bought, cards, dollars, joined, layout, monthly, per_hour_and_month, precision
from recommender.search.plan import LeftOut, Plan, Recommendation


def sentence(answer: Recommendation) -> str:
    """One sentence; the parts of it stand between semicolons."""
    if not answer.plans:
        return _no_plan(answer)
    parts = [
        _first(answer),
        *rejected(answer),
        *_fresh(answer),
        *_untouched(answer),
        *saving(answer.sizing),
        *follows(answer),
        *_left_out(answer),
    ]
    return "; ".join(parts) + "."


def _first(answer: Recommendation) -> str:
    plan = answer.plans[0]
    precisions = joined(dict.fromkeys(precision(group) for group in plan.replicas))
    what = f"{cards(plan)} ({joined(bought(purchase) for purchase in plan.offers)}), {layout(plan)}, {precisions}"
    cost = f" for {per_hour_and_month(plan.micro_usd_per_hour)}" if plan.micro_usd_per_hour is not None else ""
    return f"{_claim(answer)} {what}{cost}"


def _claim(answer: Recommendation) -> str:
    """Nothing is called cheapest without a proof."""
    if answer.plans[0].micro_usd_per_hour is None:
        return "On your own cards, the set-up that adjusts least is"
    if answer.status != "optimal":
        return "The best set-up found, not proven cheapest, is"
    return "With quality first, the cheapest set-up is" if answer.rank == "quality_first" else "The cheapest set-up is"


def _fresh(answer: Recommendation) -> Iterable[str]:
    """What it takes on prices that are not old, where rank 1 rests on old ones."""
    fresh = answer.cheapest_on_fresh_prices
    if fresh is not None and fresh.offers != answer.plans[0].offers:
        yield f"on fresh prices it is {cards(fresh)} for {per_hour_and_month(fresh.micro_usd_per_hour or 0)}"


def _untouched(answer: Recommendation) -> Iterable[str]:
    """What leaving quality untouched takes, where rank 1 does not."""
    first, native = answer.plans[0], answer.cheapest_quality_untouched
    if first.quality_untouched:
        yield "weights and KV cache stay as published"
        return
    if native is None:
        yield "no set-up in this search leaves weights and KV cache untouched"
        return
    what = f"with quality untouched it is {cards(native)} ({joined(bought(purchase) for purchase in native.offers)})"
    yield f"{what}{_dearer(first, native)}"


def _dearer(first: Plan, other: Plan) -> str:
    if first.micro_usd_per_hour is None or other.micro_usd_per_hour is None:
        return ""
    more = other.micro_usd_per_hour - first.micro_usd_per_hour
    return f", ${monthly(more)} more a month" if more > 0 else f" at {dollars(other.micro_usd_per_hour)} an hour too"


def _left_out(answer: Recommendation) -> Iterable[str]:
    """What the defaults left out: what would be cheaper with its price, the rest by name."""
    first = answer.plans[0].micro_usd_per_hour
    cheaper = [each for each in answer.left_out if first and (each.cheapest_micro_usd_per_hour or first) < first]
    rest = [each.what for each in answer.left_out if each not in cheaper]
    if cheaper:
        yield f"left out by default, and cheaper: {joined(_kind(each) for each in cheaper)}"
    if rest:
        yield f"left out by default, and no cheaper: {joined(rest)}"


def _kind(left: LeftOut) -> str:
    if left.cheapest_micro_usd_per_hour is None:
        return f"{left.what} (no set-up)"
    return f"{left.what} (from {dollars(left.cheapest_micro_usd_per_hour)} an hour)"


def _no_plan(answer: Recommendation) -> str:
    if answer.status == "unknown":
        return "No set-up was found before the limit of the search, and none was ruled out."
    change = next((refusal for refusal in answer.refusals if refusal.change), None)
    found = "No set-up in this search serves that"
    if change is None:
        return f"{found}; the reasons follow."
    what = "more requests at once would do" if change.limit == "concurrency" else "the nearest change that would do"
    return f"{found}; {what}: {change.change}."
