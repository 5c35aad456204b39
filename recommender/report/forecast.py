"""How fast a configuration serves, as text: a load in a few blocks, several as a table and a drawing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recommender.report.figures import figure
from recommender.report.forecast_cost import cost_block, price_line
from recommender.report.grid import grid, page, paragraph
from recommender.speed.benchmarked import Benchmark, Benchmarked
from recommender.speed.forecast import Forecast, Point
from recommender.units import ceil_div, plural
from recommender.workload.plot import bar

EVIDENCE = {
    "anchored": ("anchored", "this GPU, model, engine and dtype was measured, in three runs or more"),
    "anchored by few runs": ("few runs", "this GPU, model, engine and dtype was measured, in one or two runs"),
    "known model": ("model", "models of this family were measured on this engine, on other GPUs"),
    "known GPU only": ("GPU only", "other models were measured on such GPUs, or this one at smaller loads only"),
    "unknown": ("unknown", "neither such a model on this engine nor such a GPU was measured"),
}
"""Each class of evidence in short, and what it means."""
_SECONDS_FROM_MS = 10_000
_BAR = 30


def forecast_page(found: Forecast) -> str:
    """The whole answer of `speed`."""
    one = found.asked and len(found.points) == 1
    return page(
        [
            _head(found, found.points[0] if one else None),
            [line for warning in found.warnings for line in paragraph(f"warning: {warning}", "- ")],
            *([_load_block(found.points[0])] if one else [_table(found), _plot(found.points)]),
            _evidence(found, one=one),
            paragraph(price_line(found)),
            cost_block(found),
            _benchmarks(found.benchmarked),
            ["Sources:", *(line for source in found.sources for line in paragraph(source, "- "))],
        ]
    )


def _band(value: float, interval: tuple[float, float], digits: int) -> str:
    low, high = (figure(end, digits) for end in interval)
    return f"{figure(value, digits)} ({low}-{high})"


def _head(found: Forecast, one: Point | None) -> list[str]:
    setup = found.setup
    gpus = setup.tp * setup.pp * setup.dp * setup.replicas
    sizes = [f"{name} {getattr(setup, name)}" for name in ("tp", "pp", "dp", "ep") if getattr(setup, name) > 1]
    spread = ", ".join([*([plural(setup.replicas, "replica")] if setup.replicas > 1 else []), *sizes])
    version = setup.engine_version or "of the measured versions"
    kv = "" if setup.kv_dtype == "auto" else f", {setup.kv_dtype} KV cache"
    what = f"{setup.model}, {setup.weights} weights{kv}, on {gpus} x {setup.gpu}"
    load = f"{found.prompt_tokens:,} prompt and {found.output_tokens:,} output tokens a request"
    flight = f", {one.speed.concurrency:,.0f} in flight" if one else ""
    return [
        *paragraph(f"{what}{f' ({spread})' if spread else ''}; {setup.engine} {version}"),
        *paragraph(f"{load}{flight}. {_holds(found)}"),
    ]


def _holds(found: Forecast) -> str:
    together = "All replicas together hold" if found.setup.replicas > 1 else "It holds"
    room = f"{together} about {plural(found.holds, 'request')} at once"
    per_engine = ceil_div(found.holds, found.setup.replicas * found.setup.dp)
    limit = f" (with max-num-seqs {per_engine:,} or more)" if found.setup.engine == "vllm" else ""
    return f"{room}{limit}; others queue."


def _load_block(point: Point) -> list[str]:
    """One load, a line a figure."""
    speed = point.speed
    unit, scale = _ttft_unit([point])
    request_s = (speed.ttft_ms + _after_first(speed.requests_per_s, point) * speed.tpot_ms) / 1e3
    each = point.output_tokens_per_s_each
    slow, quick = (1e3 / end for end in reversed(speed.tpot_ms_interval))
    rows = [
        (
            "time to first token",
            f"about {figure(speed.ttft_ms * scale, 2)} {unit}",
            _ends(speed.ttft_ms_interval, 2, scale),
        ),
        ("time per output token", f"{figure(speed.tpot_ms, 3)} ms", _ends(speed.tpot_ms_interval, 3)),
        ("tokens a second, one request", figure(each, 3), f"{figure(slow, 3)} to {figure(quick, 3)}"),
        ("tokens a second, all", figure(speed.output_tokens_per_s, 3), _ends(speed.output_tokens_per_s_interval, 3)),
        ("requests a second", figure(speed.requests_per_s, 3), ""),
        ("seconds a request", figure(request_s, 3), ""),
    ]
    if speed.queue_ms > 0:
        waits = f"{figure(speed.queue_ms * scale, 2)} {unit} of it"
        rows.insert(1, ("  waiting for a place", waits, ""))
    per_dollar = point.output_tokens_per_s_per_usd_per_hour
    if per_dollar is not None:
        rows.append(("tokens a second per $ an hour", figure(per_dollar, 3), ""))
    return grid(("mean over requests", "expected", "80 % of such cases lie in"), rows, frozenset({0, 1, 2}))


def _after_first(requests_per_s: float, point: Point) -> float:
    """Output tokens after the first."""
    return max(point.speed.output_tokens_per_s / requests_per_s - 1, 0.0)


def _ends(interval: tuple[float, float], digits: int, scale: float = 1.0) -> str:
    low, high = (figure(end * scale, digits) for end in interval)
    return f"{low} to {high}"


def _ttft_unit(points: Iterable[Point]) -> tuple[str, float]:
    """(unit, per millisecond) that the times to first token are read in."""
    longest = max(point.speed.ttft_ms_interval[1] for point in points)
    return ("s", 1e-3) if longest >= _SECONDS_FROM_MS else ("ms", 1.0)


def _table(found: Forecast) -> list[str]:
    """A line a load."""
    unit, scale = _ttft_unit(found.points)
    priced = found.price is not None
    head = (
        "at once",
        f"TTFT {unit} (80 %)",
        "TPOT ms (80 %)",
        "tok/s (80 %)",
        "each",
        *(("per $/h",) if priced else ()),
        "evidence",
    )
    rows = [_row(point, scale) for point in found.points]
    return grid(head, rows, frozenset({len(head) - 1}))


def _row(point: Point, scale: float) -> tuple[str, ...]:
    speed = point.speed
    low, high = speed.ttft_ms_interval
    per_dollar = point.output_tokens_per_s_per_usd_per_hour
    return (
        f"{speed.concurrency:,.0f}{'*' if speed.queue_ms > 0 else ''}",
        _band(speed.ttft_ms * scale, (low * scale, high * scale), 2),
        _band(speed.tpot_ms, speed.tpot_ms_interval, 3),
        _band(speed.output_tokens_per_s, speed.output_tokens_per_s_interval, 3),
        figure(point.output_tokens_per_s_each, 3),
        *((figure(per_dollar, 3),) if per_dollar is not None else ()),
        EVIDENCE[speed.evidence][0],
    )


def _plot(points: Sequence[Point]) -> list[str]:
    """Two bars a load: what all requests get together, and what each of them gets."""
    together = max(point.speed.output_tokens_per_s for point in points)
    alone = max(point.output_tokens_per_s_each for point in points)
    lines = [f"{'at once':>9}  {'tok/s of all':<{_BAR + 8}}  tok/s of each"]
    for point in points:
        all_of_them, each = point.speed.output_tokens_per_s, point.output_tokens_per_s_each
        first = f"{bar(all_of_them / together, _BAR)} {figure(all_of_them, 3)}"
        second = f"{bar(each / alone, _BAR)} {figure(each, 3)}"
        lines.append(f"{point.speed.concurrency:>9,.0f}  {first:<{_BAR + 8}}  {second}")
    return lines


def _evidence(found: Forecast, *, one: bool) -> list[str]:
    """What each class that occurs means, and how sharp the times to first token are."""
    used = list(dict.fromkeys(point.speed.evidence for point in found.points))
    lines = []
    for name in used:
        short, meaning = EVIDENCE[name]
        lines += paragraph(f"evidence: {name} ({meaning})" if one else f"{short}: {meaning}", "- ")
    if not one:
        lines += paragraph(
            "TTFT, TPOT: time to first token, per output token, means over requests; tok/s: output tokens of all "
            "requests; each: of one request; per $/h: tok/s for each dollar an hour.",
            "- ",
        )
    lines += paragraph("The time to first token is the least certain figure: read its band, not its middle.", "- ")
    if not one and any(point.speed.queue_ms > 0 for point in found.points):
        lines += paragraph("* more than are held at once: the time to first token includes the wait for a place.", "- ")
    return lines


def _benchmarks(found: Benchmarked | None) -> list[str]:
    """What each result file says, and by how much all figures moved."""
    if found is None:
        return []
    lines = [line for each in found.benchmarks for line in paragraph(_benchmark(each))]
    tpot, ttft = (_percent(factor) for factor in (found.tpot_factor, found.ttft_factor))
    moved = f"All figures here moved: times per output token by {tpot}, times to first token by {ttft}."
    return [*lines, *paragraph(moved)]


def _benchmark(each: Benchmark) -> str:
    """What one file measured against what was predicted for it."""
    slower = f"{_slower(each.tpot_ratio, 'slower', 'faster')} than predicted"
    first = "" if each.ttft_ratio is None else f"; its first tokens came {_slower(each.ttft_ratio, 'later', 'sooner')}"
    if each.runs > 1:
        return f"Your {each.runs} runs in {each.file} are on average {slower}{first}."
    expected = figure(each.tpot_ms / each.tpot_ratio, 3)
    how = f"{figure(each.tpot_ms, 3)} ms a token where {expected} were predicted"
    return f"Your run {each.file} is {slower} ({how}){first}."


def _slower(ratio: float, more: str, less: str) -> str:
    """`8 % slower`, of ratios of times."""
    return f"{abs(100 * (ratio - 1)):.0f} % {more if ratio >= 1 else less}"


def _percent(factor: float) -> str:
    return f"{100 * (factor - 1):+.1f} %"
