"""A tally turned into a summary."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from recommender.units import plural
from recommender.workload.lengths import Arrivals
from recommender.workload.logs.columns import Columns
from recommender.workload.logs.tally import Counts, Tally
from recommender.workload.logs.times import describe
from recommender.workload.summary import SHARES, TOTAL_SHARES, LengthsSummary, Spread

_SLOW_PER_S = 0.001


def summary_of(tally: Tally, name: str, columns: Columns, unit: str | None) -> LengthsSummary:
    """What was tallied, rounded as it is written. Raises InputError where no request was read."""
    tally.check()
    prompt, output = _spread(tally.lengths["input"], SHARES), _spread(tally.lengths["output"], SHARES)
    return LengthsSummary(
        name=name,
        rows=tally.rows,
        requests=tally.requests,
        dropped=tuple(sorted(tally.dropped.items())),
        input=prompt,
        output=output,
        total=_spread(tally.lengths["total"], TOTAL_SHARES),
        pearson=_pearson(tally, prompt, output),
        arrivals=_arrivals(tally),
        latency=tuple(
            (name, round(total / count, 6)) for name, (total, count) in sorted(tally.latency.items()) if count
        ),
        peak_concurrency=tally.peak_concurrency(),
        timestamps=describe(unit, columns.of),
        columns=tuple(columns.of.items()),
        notes=_notes(tally),
        cells=tuple(
            (count, _rounded(tokens_in), _rounded(tokens_out)) for count, tokens_in, tokens_out in tally.cells()
        ),
    )


def _spread(counts: Counts, shares: Sequence[float]) -> Spread:
    """Mean, deviation and quantiles (the fewest tokens at which the share is reached) of counted lengths."""
    tokens, often = counts.table()
    total = int(often.sum())
    mean = float(tokens @ often) / total
    variance = float(((tokens - mean) ** 2) @ often) / total
    reached = np.cumsum(often)
    ranks = [math.ceil(share * total * (1 - 1e-12)) for share in shares]
    places = np.searchsorted(reached, ranks)
    points = tuple((share, int(tokens[place])) for share, place in zip(shares, places, strict=True))
    return Spread(int(tokens[0]), int(tokens[-1]), round(mean, 2), round(math.sqrt(variance), 2), points)


def _pearson(tally: Tally, prompt: Spread, output: Spread) -> float | None:
    if prompt.std == 0 or output.std == 0:
        return None
    covariance = tally.products / tally.requests - prompt.mean * output.mean
    return round(covariance / (prompt.std * output.std), 4)


def _arrivals(tally: Tally) -> Arrivals | None:
    duration = tally.last_s - tally.first_s
    if not duration > 0:
        return None
    arrived = tally.requests - tally.unread_times
    peaks = tuple((window, round(float(ratio), 3)) for window, ratio in tally.peaks())
    hourly = tuple(round(ratio, 4) for ratio in tally.hourly())
    rate = float(arrived / duration)
    written = round(rate, 6) if rate >= _SLOW_PER_S else float(f"{rate:.4g}")
    return Arrivals(round(float(duration), 3), written, peaks, hourly)


def _notes(tally: Tally) -> tuple[str, ...]:
    notes = []
    if tally.wrong_totals:
        state = "states" if tally.wrong_totals == 1 else "state"
        notes.append(f"{plural(tally.wrong_totals, 'row')} {state} a total other than prompt + output")
    if tally.unread_times:
        notes.append(f"{plural(tally.unread_times, 'timestamp')} could not be read, or lie decades from the others")
    return tuple(notes)


def _rounded(tokens: float) -> float:
    """A cell's mean as it is written: whole tokens from 100 on, else two decimals."""
    return round(tokens) if tokens >= 100 else round(tokens, 2)
