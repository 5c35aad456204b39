"""How request lengths were sized, in words and as cells of a table."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from recommender.report.grid import paragraph
from recommender.report.words import monthly, served_words, share_text
from recommender.search.plan import Plan, RateSizing, Recommendation, Served, Sizing
from recommender.units import show_figures, usd
from recommender.workload.replica import StepTime
from recommender.workload.service import ASSUMED_STEP_TIME

COLUMNS = (
    "sizing",
    "epsilon",
    "served_share",
    "truncated_share",
    "refused_share",
    "statistical_usd_per_hour",
    "worst_case_usd_per_hour",
    "rate_per_s",
    "preemptions_per_request",
    "replay_accepted",
)
"""What a plan's row of a CSV says about sizing and its replay."""


def saving(sizing: Sizing | None) -> Iterable[str]:
    """What sizing by the real lengths saves, as a part of the sentence; nothing where that was not looked up."""
    if sizing is None or not sizing.compared:
        return
    saved, real = sizing.saved_micro_usd_per_hour, sizing.mode != "worst_case"
    if saved is None:
        one, other = ("worst case", "real lengths") if real else ("real lengths", "worst case")
        yield f"sized by the {one} no set-up in this search would serve, sized by the {other} one does"
    elif saved > 0:
        yield f"sizing by your real lengths {'saves' if real else 'would save'} ${monthly(saved)} a month"
    else:
        yield f"sizing by {'the worst case' if real else 'your real lengths'} would cost the same"


def sizing_lines(answer: Recommendation) -> list[str]:
    """A paragraph on the lengths, and one on the rate where one was asked."""
    sizing = answer.sizing
    if sizing is None:
        return []
    lines = paragraph(_lengths(sizing))
    return lines + (paragraph(_rate(sizing.rate, sizing)) if sizing.rate else [])


def _lengths(sizing: Sizing) -> str:
    return " ".join([_shares(sizing.served[0]), *_held(sizing), *_costs(sizing)])


def _shares(served: Served) -> str:
    said = served_words(served.served_share, served.truncated_share, served.refused_share)
    return f"Lengths: {said} (max-model-len {served.max_model_len:,})."


def _held(sizing: Sizing) -> Iterable[str]:
    mean, real, worst = sizing.mean_tokens_in_flight, sizing.statistical_tokens, sizing.worst_case_tokens
    if mean is None or real is None or worst is None:
        return
    but = f"in all but {share_text(float(sizing.epsilon))} of each engine's steps at most {real:,}"
    sized = "; sized for that" if sizing.mode == "worst_case" else ""
    yield f"Rank 1's requests hold {mean:,.0f} tokens on average, {but}; all at full length {worst:,}{sized}."


def _costs(sizing: Sizing) -> Iterable[str]:
    if not sizing.compared:
        return
    real, worst = sizing.statistical_micro_usd_per_hour, sizing.worst_case_micro_usd_per_hour
    if real is not None and worst is not None:
        yield f"The cheapest set-up costs ${monthly(real)} a month sized by the real lengths,"
        yield f"${monthly(worst)} by the worst case."


def _rate(rate: RateSizing, sizing: Sizing) -> str:
    mean, peak, factor = (show_figures(each) for each in (rate.per_s, rate.peak_per_s, rate.peak_factor))
    said = f"Rate: {mean} requests a second on average, {peak} in the busiest minute"
    said += f" ({factor} times: {rate.peak_factor_source})."
    if rate.request_s is None or rate.mean_in_flight is None:
        return said
    why = "as stated" if rate.request_s_stated else _paced(rate.step_time)
    seconds, in_flight = show_figures(rate.request_s), show_figures(rate.mean_in_flight)
    return (
        f"{said} A request then takes {seconds} s ({why}), so {in_flight} are in flight on average; max-num-seqs is"
        f" exceeded in {share_text(float(sizing.epsilon))} of the time, when requests queue."
    )


def _paced(step: StepTime | None) -> str:
    """What the seconds of a request follow from."""
    if step is None:
        return "by the speed model, on the side that is planned on"
    said = "assumed, not measured; write your own with sizing.step_ms" if step == ASSUMED_STEP_TIME else "as stated"
    return f"at {step_words(step)}: {said}"


def step_words(step: StepTime) -> str:
    """`20 ms a step, 0.1 ms more for each request that decodes and 0.05 ms for each prompt token`."""
    base, decode, prompt = (
        show_figures(1000 * each) for each in (step.base_s, step.per_decode_s, step.per_prompt_token_s)
    )
    return f"{base} ms a step, {decode} ms more for each request that decodes and {prompt} ms for each prompt token"


def _usd(micro: int | None) -> Decimal | None:
    return None if micro is None else usd(micro)


def sizing_cells(answer: Recommendation, plan: Plan) -> dict[str, Any]:
    """A plan's cells of COLUMNS; empty where lengths are one fixed total."""
    sizing = answer.sizing
    if sizing is None:
        return {}
    length = plan.replicas[0].max_model_len
    served = next(each for each in sizing.served if each.max_model_len == length)
    return {
        "sizing": sizing.mode,
        "epsilon": sizing.epsilon if sizing.at_risk else None,
        "served_share": served.served_share,
        "truncated_share": served.truncated_share,
        "refused_share": served.refused_share,
        "statistical_usd_per_hour": _usd(sizing.statistical_micro_usd_per_hour),
        "worst_case_usd_per_hour": _usd(sizing.worst_case_micro_usd_per_hour),
        "rate_per_s": sizing.rate.per_s if sizing.rate else None,
        **_replay_cells(answer, plan),
    }


def _replay_cells(answer: Recommendation, plan: Plan) -> dict[str, Any]:
    """The worst of the plan's replays; nothing where none was made."""
    results = [each.result for each in answer.replays if each.rank == plan.rank and each.result]
    if not results:
        return {}
    accepted = all(each.accepted for each in answer.replays if each.rank == plan.rank and each.result)
    most = max(result.preemptions_per_request for result in results)
    return {"preemptions_per_request": most, "replay_accepted": accepted}
