"""Where limits on speed leave nothing: what one request alone would see, and the limits or loads that do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np

from recommender.scenario import Scenario, Sla
from recommender.search.candidates import Candidates, Row
from recommender.search.plan import Refusal
from recommender.speed.candidates import Float
from recommender.speed.slo import Seen, Target
from recommender.units import plural, show_figures

STEP = Decimal("1.01")
"""Between the limits that are tried: a nearest change is near to a per cent."""
_FARTHEST = 1000  # times the limit: beyond, nobody would call it the same question
_FIGURES = 3
_DOUBLINGS = 12
_MOST = 10**7  # requests at once that a scenario may ask


@dataclass(frozen=True, slots=True)
class _Limit:
    """One limit on speed: its key, whether less is stricter, and its words."""

    key: str
    most: bool
    words: str


LIMITS = (
    _Limit("ttft_ms", True, "ms to the first token"),
    _Limit("tpot_ms", True, "ms a token"),
    _Limit("output_tokens_per_s", False, "output tokens a second"),
    _Limit("requests_per_s", False, "requests a second"),
)


def too_slow(candidates: Candidates, rows: Sequence[Row]) -> str:
    """What one request by itself sees on the fastest of some rows of one GPU, all of which miss a limit on speed."""
    evaluation = candidates.evaluation
    slow = [row for row in rows if row.limit == "speed"]
    tokens = np.array([row.max_num_batched_tokens for row in slow])
    seen = evaluation.alone([(row.gpu, row.layout, row.terms, row.verdict) for row in slow], tokens)
    if seen is None or evaluation.speeds is None:
        return slow[0].reason
    target = evaluation.speeds.target
    best = int(np.argmin(_missed_by(seen, target)))
    row, terms = slow[best], candidates.terms[slow[best].terms]
    how = f"{row.layout}, {terms.choice.weights} weights, {terms.kv_dtype} KV"
    return f"{_seen(seen, target, best)} even for one request alone ({how})"


def _missed_by(seen: Seen, target: Target) -> Float:
    """How many times over the worst limit each row is."""
    missed = np.zeros(len(seen.tpot_ms))
    if target.tpot_ms is not None:
        missed = np.maximum(missed, seen.tpot_ms / target.tpot_ms)
    if target.ttft_ms is not None:
        missed = np.maximum(missed, seen.ttft_ms / target.ttft_ms)
    if target.request_tokens_per_s is not None:
        missed = np.maximum(missed, target.request_tokens_per_s / seen.request_tokens_per_s)
    return missed


def _seen(seen: Seen, target: Target, row: int) -> str:
    said = []
    if target.tpot_ms is not None:
        said.append(f"{show_figures(seen.tpot_ms[row])} ms a token")
    if target.ttft_ms is not None:
        said.append(f"{show_figures(seen.ttft_ms[row])} ms to the first")
    if target.request_tokens_per_s is not None:
        said.append(f"{show_figures(seen.request_tokens_per_s[row])} output tokens a second")
    return ", ".join(said)


def eased(scenario: Scenario, feasible: Callable[[Scenario], bool]) -> Iterator[Refusal]:
    """Each limit on speed at which something serves when it alone is changed, as near as a per cent."""
    for limit in LIMITS:
        asked = getattr(scenario.sla, limit.key)
        if asked is None:
            continue
        near = _nearest(scenario, limit, asked, feasible)
        if near is not None:
            change = f"sla.{limit.key}: {asked} -> {near}"
            yield Refusal(None, "speed", f"the limit on speed ({asked:,} {limit.words}) binds", change)


def more_at_once(scenario: Scenario, least_cost: Callable[[Scenario], int | None]) -> Iterator[Refusal]:
    """The requests at once, of the doublings of those asked, that reach a total at the least cost.

    Nothing where none do, and at a rate. More of them ask less of each and share replicas, so costs fall until memory
    is what binds.
    """
    asked, sla = scenario.workload.concurrency, scenario.sla
    if asked is None or not (sla.output_tokens_per_s or sla.requests_per_s):
        return
    best: tuple[int, int] | None = None
    doublings = (asked * 2**power for power in range(1, _DOUBLINGS + 1))
    for requests in (each for each in doublings if each <= _MOST):
        cost = least_cost(replace(scenario, workload=replace(scenario.workload, concurrency=requests)))
        if best is not None and (cost is None or cost >= best[0]):
            break
        best = best if cost is None else (cost, requests)
    if best is not None:
        why = f"the total needs more than {plural(asked, 'request')} at once (named: the doubling that costs least)"
        yield Refusal(None, "concurrency", why, f"workload.concurrency: {asked} -> {best[1]}")


def _nearest(scenario: Scenario, limit: _Limit, asked: Decimal, feasible: Callable[[Scenario], bool]) -> Decimal | None:
    """The nearest value that serves, by bisection: easing a limit never takes a set-up away."""

    def at(steps: int) -> Decimal:
        factor = STEP**steps
        return _rounded(asked * factor if limit.most else asked / factor, up=limit.most)

    def serves(steps: int) -> bool:
        sla: Sla = replace(scenario.sla, **{limit.key: at(steps)})
        return feasible(replace(scenario, sla=sla))

    most = 1
    while STEP**most < _FARTHEST:
        most *= 2
    low, high = 0, most
    if not serves(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if serves(middle) else (middle, high)
    return at(high)


def _rounded(value: Decimal, *, up: bool) -> Decimal:
    """Three figures, on the side that serves."""
    unit = Decimal(1).scaleb(value.adjusted() - _FIGURES + 1)
    rounded = value.quantize(unit, ROUND_CEILING if up else ROUND_FLOOR)
    return rounded if rounded.as_tuple().exponent <= 0 else Decimal(int(rounded))  # type: ignore[operator]
