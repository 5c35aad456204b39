"""The small JSON file that stands for a log: joint cells, stated quantiles and arrivals, no single request.

Its layout is that of the catalog's traces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any

from recommender.errors import Fault, InputError, show
from recommender.workload.lengths import HOURS, MAXIMUM_TOKENS, Arrivals, Cell, Lengths

VERSION = 1  # of the layout
_LEAST_COUNT, _MOST_COUNT = 1e-12, 1e15
"""Requests of one cell; they may be shares."""
_SAME = 1e-9
_ROUNDED = 1.0  # both means of a cell are rounded to whole tokens

HALF_OCTAVES = (
    "half octaves: buckets end at round(2^(k/2)) tokens; one cell for each pair of input and output buckets that holds "
    "requests"
)


def lengths_from_cell_file(document: Mapping[str, Any], *, name: str = "", file: str | None = None) -> Lengths:
    """The distribution that a cell file (the layout of the catalog's traces) holds. Raises InputError."""
    faults: list[Fault] = []
    cells: tuple[Cell, ...] = ()
    total = document.get("total_tokens")
    try:
        cells = cells_from_rows(document.get("cells"), key="cells", file=file)
    except InputError as error:
        faults.extend(error.faults)
    if not isinstance(total, Mapping) or not _is_tokens(total.get("maximum")):
        expected = f"the longest prompt + output, a whole number from 1 to {MAXIMUM_TOKENS:,}"
        faults.append(Fault("the longest request is not stated", file, key="total_tokens.maximum", expected=expected))
        raise InputError(faults)
    points = _points(total)
    if points is None:
        expected = "[[share, tokens], ...], both increasing, shares between 0 and 1, no tokens above the maximum"
        faults.append(Fault("broken quantiles", file, key="total_tokens.quantiles", expected=expected))
    faults += [Fault(what, file, key=key, expected=expected) for key, what, expected in _odd(document, cells)]
    if faults:
        raise InputError(faults)
    return Lengths(
        cells=cells,
        maximum_tokens=int(total["maximum"]),
        totals=points or (),
        name=name or str(document.get("name", "")),
        source=str(document.get("source", "")),
        notes=tuple(str(document[key]) for key in ("notes",) if document.get(key)),
        spread=is_spread(document),
        arrivals=arrivals_from(document),
        longest_prompt=_longest_prompt(document),
    )


def _odd(document: Mapping[str, Any], cells: Sequence[Cell]) -> Iterable[tuple[str, str, str]]:
    """(key, what is wrong, what was expected) where the parts of a cell file do not agree, or say nothing sensible."""
    version, requests = document.get("schema_version", VERSION), document.get("requests")
    if version != VERSION:
        yield "schema_version", f"{show(version)} is of another version of this program", str(VERSION)
    counted = sum(cell.weight for cell in cells)
    if (
        cells
        and requests is not None
        and not (_is_number(requests) and abs(counted - requests) <= 0.5 + _SAME * counted)
    ):
        yield (
            "requests",
            f"the cells count {counted:,.0f} requests, not {show(requests)}: the file was changed",
            "their sum",
        )
    longest = max((cell.input_tokens + cell.output_tokens for cell in cells), default=0.0)
    if longest > document["total_tokens"]["maximum"] + _ROUNDED:
        yield "total_tokens.maximum", f"a cell holds requests of {longest:,.0f} tokens", "no less than that"
    if _broken_arrivals(document.get("arrivals")):
        expected = "rate_per_s above 0, duration_s, peak_to_mean_60s and the like above 0, hourly of 24 or 168 numbers"
        yield "arrivals", "broken arrivals", expected


def _broken_arrivals(stated: Any) -> bool:
    if stated is None:
        return False
    if not isinstance(stated, Mapping) or not _is_positive(stated.get("rate_per_s")):
        return True
    peaks = [stated[word] for word in stated if _window_s(word)]
    duration, profile = stated.get("duration_s", 0.0), stated.get("hourly")
    whole = _is_number(duration) and duration >= 0 and all(map(_is_positive, peaks))
    return not whole or (profile is not None and not _hourly(profile))


def _is_positive(value: Any) -> bool:
    return _is_number(value) and 0 < value <= _MOST_COUNT


def is_spread(document: Mapping[str, Any]) -> bool:
    """Whether its cells are means of half-octave buckets, not requests of exactly those lengths."""
    return str(document.get("bucketing", "")).startswith("half octaves")


def cells_from_rows(rows: Any, *, key: str, file: str | None = None) -> tuple[Cell, ...]:
    """Cells from `[[count, mean_input, mean_output], ...]`; every faulty row is named in one InputError."""
    if not isinstance(rows, Sequence) or isinstance(rows, str) or not rows:
        raise InputError(Fault("no cells", file=file, key=key, expected="[[count, mean_input, mean_output], ...]"))
    cells, faults = [], []
    for place, row in enumerate(rows):
        problem = _row_problem(row)
        if problem:
            expected = "[count > 0, mean_input >= 1, mean_output >= 1]"
            faults.append(Fault(problem, file=file, key=f"{key}[{place}]", expected=expected))
        else:
            cells.append(Cell(*(float(value) for value in row)))
    if faults:
        raise InputError(faults)
    return tuple(cells)


def _row_problem(row: Any) -> str | None:
    if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != 3:
        return f"{show(row)} is not a row of three numbers"
    if not all(_is_number(value) for value in row):
        return f"{show(row)} holds something that is not a finite number"
    count, input_tokens, output_tokens = row
    if count <= 0 or input_tokens < 1 or output_tokens < 1:
        return f"{show(row)} is too small"
    if not _LEAST_COUNT <= count <= _MOST_COUNT:
        return f"{show(count)} requests cannot be"
    if input_tokens + output_tokens > MAXIMUM_TOKENS:
        return f"{show(row)} is longer than {MAXIMUM_TOKENS:,} tokens"
    return None


def _is_number(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def _is_tokens(value: Any) -> bool:
    return _is_number(value) and value == int(value) and 1 <= value <= MAXIMUM_TOKENS


def _longest_prompt(document: Mapping[str, Any]) -> int | None:
    prompts = document.get("input_tokens")
    stated = prompts.get("maximum") if isinstance(prompts, Mapping) else None
    return int(stated) if isinstance(stated, int) and _is_tokens(stated) else None


def _points(total: Mapping[str, Any]) -> tuple[tuple[float, float], ...] | None:
    """(tokens, cumulative share) points, beginning below the shortest request; None where they are broken."""
    rows = total.get("quantiles", [])
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        return None
    points = []
    for row in rows:
        if not isinstance(row, Sequence) or len(row) != 2 or not all(_is_number(value) for value in row):
            return None
        share, tokens = row
        if not 0 < share < 1 or not 0 < tokens <= total["maximum"]:
            return None
        points.append((float(tokens), float(share)))
    if any(low[0] > high[0] or low[1] >= high[1] for low, high in pairwise(points)):
        return None
    if points and _is_tokens(total.get("minimum")) and total["minimum"] <= points[0][0]:
        points.insert(0, (float(total["minimum"]) - 1, 0.0))
    return tuple(points)


def arrivals_from(document: Mapping[str, Any]) -> Arrivals | None:
    """How requests arrived, from `arrivals` (timestamps) or `diurnal` (rates per window); None where neither is."""
    stated = document.get("arrivals")
    if isinstance(stated, Mapping) and _is_number(stated.get("rate_per_s")):
        windows = {word: _window_s(word) for word in stated}
        peaks = {window: stated[word] for word, window in windows.items() if window and _is_number(stated[word])}
        duration = stated.get("duration_s")
        return Arrivals(
            duration_s=float(duration) if isinstance(duration, int | float) else 0.0,
            rate_per_s=float(stated["rate_per_s"]),
            peak_to_mean=tuple((window, float(ratio)) for window, ratio in sorted(peaks.items())),
            hourly=_hourly(stated.get("hourly")),
        )
    daily = document.get("diurnal")
    needed = ("window_s", "windows", "mean_rate", "max_to_mean")
    if isinstance(daily, Mapping) and all(_is_number(daily.get(word)) for word in needed):
        window = int(daily["window_s"])
        peaks_known = ((window, float(daily["max_to_mean"])),)
        return Arrivals(float(window * daily["windows"]), float(daily["mean_rate"]), peaks_known)
    return None


def _hourly(profile: Any) -> tuple[float, ...]:
    """The profile; empty where it is none."""
    if not isinstance(profile, Sequence) or isinstance(profile, str) or len(profile) not in HOURS:
        return ()
    known = all(_is_number(each) and each >= 0 for each in profile) and any(profile)
    return tuple(float(each) for each in profile) if known else ()


def _window_s(word: str) -> int:
    """Seconds of `peak_to_mean_60s`; 0 for any other word."""
    digits = word.removeprefix("peak_to_mean_").removesuffix("s") if word.startswith("peak_to_mean_") else ""
    return int(digits) if digits.isdigit() else 0
