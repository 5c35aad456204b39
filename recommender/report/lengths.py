"""A request-length distribution as text, JSON (a cell file) and CSV, and what its requests in flight hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from recommender.report.csv_ import flat_csv
from recommender.report.grid import grid, page, paragraph
from recommender.report.json_ import SCHEMA_VERSION
from recommender.report.record import plain
from recommender.report.words import served_words
from recommender.units import plural, show_figures
from recommender.workload.inflight import InFlight
from recommender.workload.lengths import HOURS
from recommender.workload.plot import octave_of, plot
from recommender.workload.summary import LengthsSummary, Spread, written

_SHARES = (0.5, 0.9, 0.95, 0.99, 0.999)
_MOST_COLUMNS = 13  # of the joint histogram: what fits the page


def lengths_page(summary: LengthsSummary, need: InFlight | None) -> str:
    """Quantiles, a drawing, the joint histogram, arrivals, and the need in flight where it was asked for."""
    return page(
        [
            _head(summary),
            _quantiles(summary),
            plot(summary.cells).splitlines(),
            _joint(summary.cells),
            _arrivals(summary),
            paragraph(need_in_words(need)) if need else [],
            [line for note in summary.notes for line in paragraph(note, "- ")],
        ]
    )


def lengths_json(summary: LengthsSummary, need: InFlight | None) -> str:
    """A cell file, the need in flight among its keys where it was asked for."""
    return written({"schema_version": SCHEMA_VERSION, **(plain(need) if need else {}), **summary.document()})


def lengths_csv(summary: LengthsSummary, need: InFlight | None) -> str:
    """One row: what was read, quantiles of prompt, output and both, and the need in flight."""
    sides = {"input_tokens": summary.input, "output_tokens": summary.output, "total_tokens": summary.total}
    record: dict[str, Any] = {
        "name": summary.name,
        "rows": summary.rows,
        "requests": summary.requests,
        "dropped": dict(summary.dropped),
        **{side: _flat(spread) for side, spread in sides.items()},
        "pearson": summary.pearson,
        "rate_per_s": summary.arrivals.rate_per_s if summary.arrivals else None,
        "peak_to_mean": dict(_peaks(summary)),
        "latency": dict(summary.latency),
        "peak_concurrency": summary.peak_concurrency,
        **(plain(need) if need else {}),
    }
    return flat_csv([record])


def _flat(spread: Spread) -> dict[str, Any]:
    quantiles = {_percent(share): tokens for share, tokens in spread.quantiles}
    return {"minimum": spread.minimum, "mean": spread.mean, "std": spread.std, **quantiles, "maximum": spread.maximum}


def _percent(share: float) -> str:
    return f"p{round(100 * share, 2):g}"


def _peaks(summary: LengthsSummary) -> Iterable[tuple[str, float]]:
    return ((f"{window}s", ratio) for window, ratio in (summary.arrivals.peak_to_mean if summary.arrivals else ()))


def _head(summary: LengthsSummary) -> list[str]:
    title = f"{summary.name or 'lengths'}: {plural(summary.requests, 'request')}"
    read = f" of {plural(summary.rows, 'row')} read" if summary.rows != summary.requests else ""
    dropped = "; ".join(f"{count:,} {reason}" for reason, count in summary.dropped)
    lines = paragraph(f"{title}{read}." + (f" Not counted: {dropped}." if dropped else ""))
    if summary.columns:
        columns = ", ".join(f"{role} from {column}" for role, column in summary.columns)
        lines += paragraph(f"Columns: {columns}. Times: {summary.timestamps}.")
    return lines


def _quantiles(summary: LengthsSummary) -> list[str]:
    head = ("tokens", "min", "mean", *map(_percent, _SHARES), "max")
    sides = {"prompt": summary.input, "output": summary.output, "prompt + output": summary.total}
    return grid(head, [_quantile_row(name, spread) for name, spread in sides.items()])


def _quantile_row(name: str, spread: Spread) -> tuple[str, ...]:
    known = dict(spread.quantiles)
    quantiles = (f"{known[share]:,}" if share in known else "?" for share in _SHARES)
    return (name, f"{spread.minimum:,}", f"{spread.mean:,.0f}", *quantiles, f"{spread.maximum:,}")


def _joint(cells: Iterable[tuple[float, float, float]]) -> list[str]:
    """Per cent of the requests by prompt (down) and output (across)."""
    cells = tuple(cells)
    weight = sum(cell[0] for cell in cells)
    outputs = [octave_of(output) for _, _, output in cells]
    wide = -(-(max(outputs) - min(outputs) + 1) // _MOST_COLUMNS)  # octaves a column
    shares: dict[tuple[int, int], float] = {}
    for count, prompt, output in cells:
        at = octave_of(prompt), -(-octave_of(output) // wide) * wide
        shares[at] = shares.get(at, 0.0) + count / weight
    down, across = ({at[side] for at in shares} for side in (0, 1))
    columns = range(min(across), max(across) + 1, wide)
    rows = [
        (_up_to(row), *(_share(shares.get((row, column), 0.0)) for column in columns))
        for row in range(min(down), max(down) + 1)
    ]
    title = "Per cent of requests: prompts down, outputs across, each up to so many tokens and above the one before."
    return [*paragraph(title), *grid(("", *map(_up_to, columns)), rows, frozenset())]


def _up_to(octave: int) -> str:
    return f"{2**octave}" if octave < 10 else f"{2 ** (octave - 10)}K" if octave < 20 else f"{2 ** (octave - 20)}M"


def _share(share: float) -> str:
    whole = f"{100 * share:.0f}"
    return "" if share == 0 else "<1" if whole == "0" else whole


def _arrivals(summary: LengthsSummary) -> list[str]:
    arrivals, lines = summary.arrivals, list[str]()
    if arrivals is not None:
        peaks = ", ".join(f"{window} s at {ratio:.2f} times that" for window, ratio in arrivals.peak_to_mean)
        busiest = f"; the busiest {peaks}" if peaks else ""
        span = f" over {arrivals.duration_s / 3600:,.1f} hours" if arrivals.duration_s else ""
        rate = show_figures(arrivals.rate_per_s)
        lines += paragraph(f"Arrivals: {rate} a second on average{span}{busiest}{_by_hour(arrivals.hourly)}.")
    if summary.latency:
        times = ", ".join(f"{name} {show_figures(seconds)}" for name, seconds in summary.latency)
        most = f"; at most {plural(summary.peak_concurrency, 'request')} at once" if summary.peak_concurrency else ""
        lines += paragraph(f"Means of the log: {times}{most}.")
    if summary.pearson is not None:
        lines += paragraph(f"Correlation of prompt and output: {summary.pearson:+.2f}.")
    return lines


def _by_hour(hourly: Sequence[float]) -> str:
    """The quietest and the busiest hour of a profile."""
    if not hourly:
        return ""
    least, most = min(hourly), max(hourly)
    span = "day" if len(hourly) == HOURS[0] else "week"
    at = f"{least:.2f} (hour {hourly.index(least)}) to {most:.2f} (hour {hourly.index(most)}) times that"
    return f"; by the hour of the {span} {at}"


def need_in_words(need: InFlight) -> str:
    """What the requests in flight hold, against the worst case, and whom max_model_len serves."""
    share = need.statistical_tokens / need.worst_case_tokens
    requests = f"{plural(need.concurrency, 'request')} at once {'holds' if need.concurrency == 1 else 'hold'}"
    return (
        f"{requests} {need.total_mean_tokens:,.0f} tokens on average, and in all but"
        f" {100 * need.epsilon:g} % of the engine's steps at most {need.statistical_tokens:,} (blocks of"
        f" {need.block_size}): {100 * share:.0f} % of the worst case, {need.worst_case_tokens:,}. At max-model-len"
        f" {need.max_model_len:,}, {served_words(need.served_share, need.truncated_share, need.refused_share)}."
    )
