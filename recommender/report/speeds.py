"""How fast the ranked plans serve, in words and as cells of a table."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from recommender.report.figures import cents, figure
from recommender.report.grid import grid, paragraph
from recommender.report.record import plain
from recommender.search.plan import Plan, PlanSpeed, Recommendation
from recommender.speed.answer import Speed
from recommender.units import plural, show_usd

_COSTS = {
    "usd_per_million_input": "input",
    "usd_per_million_output": "output",
    "usd_per_million_blended": "blended",
}
COLUMNS = (
    "ttft_ms",
    "ttft_ms_low",
    "ttft_ms_high",
    "tpot_ms",
    "tpot_ms_low",
    "tpot_ms_high",
    "output_tokens_per_s",
    "output_tokens_per_s_low",
    "output_tokens_per_s_high",
    "requests_per_s",
    "speed_evidence",
    *_COSTS,
)
"""What a plan's row of a CSV says about its speed."""

_FIGURES = ("ttft_ms", "tpot_ms", "output_tokens_per_s")
_HEAD = ("#", "first token", "a token", "tok/s in all", "requests/s", "evidence")
_LEFT = frozenset({0, 1, 2, 3, 5})
_LEGEND = (
    "Predicted means over requests, with all that is asked in flight; 80 % of such predictions lay in the brackets "
    "when measured. The time to first token is the least certain. docs/speed.md says what the evidence means."
)


def speed_lines(answer: Recommendation) -> list[str]:
    """A row a plan, best first; or why nothing is known."""
    timed = [(plan, plan.speed) for plan in answer.plans if plan.speed is not None]
    if not timed:
        reasons = dict.fromkeys(
            group.speed_unknown for plan in answer.plans for group in plan.replicas if group.speed_unknown
        )
        return [line for reason in reasons for line in paragraph(f"How fast it serves is not predicted: {reason}.")]
    ranks: dict[tuple[str, ...], list[int]] = {}
    for plan, speed in timed:
        ranks.setdefault(tuple(_cells(speed)), []).append(plan.rank)
    rows = [(_ranks(ranked), *cells) for cells, ranked in ranks.items()]
    return ["How fast:", *grid(_HEAD, rows, _LEFT), *paragraph(_LEGEND), *paragraph(_tokens(answer, timed[0][1]))]


def _tokens(answer: Recommendation, speed: PlanSpeed) -> str:
    """What a million tokens cost on the best plan, and against a hosted API."""
    cost, full, even = speed.cost, speed.full_cost, speed.break_even
    if cost is None or full is None:
        return ""
    load = "on average" if answer.concurrency is None else "at this load"
    held = f", ${cents(full.blended)} with the {plural(speed.full_concurrency, 'request')} at once that it holds"
    said = (
        f"A million tokens cost ${cents(cost.blended)} on rank 1 {load} (${cents(cost.input)} of prompts,"
        f" ${cents(cost.output)} of output, by the time the GPUs spend on each)"
        f"{held if full.blended != cost.blended else ''}."
    )
    if even is None:
        return said
    cheaper = "the API is cheaper" if even.share_of_load > 1 else "the plan is cheaper"
    millions = f"{even.million_tokens_a_month.quantize(Decimal(1), ROUND_HALF_UP):,} million tokens a month"
    return (
        f"{said} The hosted API would ask ${show_usd(even.api_usd_per_hour)} an hour for the same: {cheaper};"
        f" both cost the same at {millions}."
    )


def _ranks(ranks: list[int]) -> str:
    """`1-3, 5, 8`."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _cells(speed: PlanSpeed) -> Iterable[str]:
    yield banded_time(speed.ttft_ms, speed.ttft_ms_interval)
    yield banded_time(speed.tpot_ms, speed.tpot_ms_interval)
    yield _banded(speed.output_tokens_per_s, speed.output_tokens_per_s_interval)
    yield _sharp(speed.requests_per_s)
    yield speed.evidence


def banded_time(milliseconds: float, interval: tuple[float, float]) -> str:
    """`24 ms (19-31)`, `1.2 s (0.61-2.4)`: as sharp as it is known."""
    scale, unit = (1e3, " s") if milliseconds >= 1000 else (1.0, " ms")
    low, high = interval
    return _banded(milliseconds / scale, (low / scale, high / scale), unit)


def _banded(value: float, interval: tuple[float, float], unit: str = "") -> str:
    low, high = interval
    return f"{_sharp(value)}{unit} ({_sharp(low)}-{_sharp(high)})"


def _sharp(value: float) -> str:
    """Two figures, three where the first is a 1: what bands of a tenth can tell apart."""
    return figure(value, 3 if f"{value:e}".startswith("1") else 2)


def speed_cells(plan: Plan) -> dict[str, Any]:
    """The cells of `COLUMNS`; empty where nothing is known."""
    speed = plan.speed
    if speed is None:
        return dict.fromkeys(COLUMNS)
    found: dict[str, Any] = {}
    for name in _FIGURES:
        low, high = getattr(speed, f"{name}_interval")
        found |= {name: _rounded(getattr(speed, name)), f"{name}_low": _rounded(low), f"{name}_high": _rounded(high)}
    found |= {"requests_per_s": _rounded(speed.requests_per_s), "speed_evidence": speed.evidence}
    return found | {name: getattr(speed.cost, part, None) for name, part in _COSTS.items()}


def speed_record(speed: Speed | PlanSpeed) -> dict[str, Any]:
    """The figures for JSON, as sharp as they are known; without what the replica says already."""
    names = [*_FIGURES, "requests_per_s", "evidence"]
    record: dict[str, Any] = {}
    for name in names:
        value = getattr(speed, name)
        record[name] = value if isinstance(value, str) else _rounded(value)
        if name in _FIGURES:
            record[f"{name}_interval"] = [_rounded(end) for end in getattr(speed, f"{name}_interval")]
    return record


def plan_record(speed: PlanSpeed) -> dict[str, Any]:
    """The plan's figures for JSON, with what a million tokens cost."""
    at_capacity = {
        "concurrency": speed.full_concurrency,
        "output_tokens_per_s": _rounded(speed.full_output_tokens_per_s),
        "requests_per_s": _rounded(speed.full_requests_per_s),
        "usd_per_million_tokens": plain(speed.full_cost),
    }
    return {
        **speed_record(speed),
        "usd_per_million_tokens": plain(speed.cost),
        "at_capacity": at_capacity,
        "break_even": plain(speed.break_even),
    }


def _rounded(value: float) -> float:
    """Four significant figures."""
    return float(f"{value:.4g}")
