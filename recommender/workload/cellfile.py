"""The small JSON file that stands for a log: joint cells, stated quantiles and arrivals, no single request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any

from recommender.errors import Fault, InputError
from recommender.workload.lengths import MAXIMUM_TOKENS, Arrivals, Cell, Lengths

BUCKETING = "half-octave, le=round(2**(k/2)); one cell per non-empty (input,output) bucket pair"
FIELDS = ["count", "mean_input", "mean_output"]


def lengths_from_cell_file(document: Mapping[str, Any], *, name: str = "", file: str | None = None) -> Lengths:
    """The distribution that a cell file (or a shipped trace, same layout) holds. Raises InputError."""
    histogram = document.get("hist")
    if not isinstance(histogram, Mapping) or "cells" not in histogram:
        raise InputError(Fault("no cells", file=file, key="hist.cells", expected="[[count, mean_input, mean_output]]"))
    cells = cells_from_rows(histogram["cells"], key="hist.cells", file=file)
    total = document.get("total")
    if not isinstance(total, Mapping) or not _is_tokens(total.get("max")):
        expected = f"the longest prompt + output, a whole number from 1 to {MAXIMUM_TOKENS:,}"
        raise InputError(Fault("the longest request is not stated", file=file, key="total.max", expected=expected))
    return Lengths(
        cells=cells,
        maximum_tokens=int(total["max"]),
        totals=_points(total, file),
        name=name or str(document.get("name", "")),
        source=str(document.get("source", "")),
        notes=tuple(str(document[key]) for key in ("kind", "note") if document.get(key)),
        spread=str(histogram.get("bucketing", "")).startswith("half-octave"),
        arrivals=_arrivals(document.get("arrivals")),
    )


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
        return f"{row!r} is not a row of three numbers"
    if not all(_is_number(value) for value in row):
        return f"{row!r} holds something that is not a finite number"
    count, input_tokens, output_tokens = row
    if count <= 0 or input_tokens < 1 or output_tokens < 1:
        return f"{row!r} is too small"
    if input_tokens + output_tokens > MAXIMUM_TOKENS:
        return f"{row!r} is longer than {MAXIMUM_TOKENS:,} tokens"
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_tokens(value: Any) -> bool:
    return _is_number(value) and value == int(value) and 1 <= value <= MAXIMUM_TOKENS


def _points(total: Mapping[str, Any], file: str | None) -> tuple[tuple[float, float], ...]:
    """Stated (tokens, cumulative share) points from `p1`, `p99.9`, `min` and `max`."""
    points = []
    for key, tokens in total.items():
        try:
            percent = float(str(key)[1:]) if str(key).startswith("p") else None
        except ValueError:
            percent = None
        if percent is None:
            continue
        if not 0 < percent < 100 or not _is_number(tokens) or not 0 < tokens <= total["max"]:
            expected = "tokens at a percentile between 0 and 100, at most total.max"
            raise InputError(Fault(f"{tokens!r} cannot be", file=file, key=f"total.{key}", expected=expected))
        points.append((float(tokens), percent / 100))
    points.sort(key=lambda point: point[1])
    if any(low[0] > high[0] for low, high in pairwise(points)):
        raise InputError(Fault("the percentiles decrease", file=file, key="total"))
    if points and _is_tokens(total.get("min")):
        points.insert(0, (float(total["min"]) - 1, 0.0))
    return tuple(points)


def _arrivals(stated: Any) -> Arrivals | None:
    if not isinstance(stated, Mapping) or not _is_number(stated.get("rate_per_s")):
        return None
    peaks = []
    for key, ratio in stated.items():
        window = str(key).removeprefix("peak_to_mean_").removesuffix("s")
        if str(key).startswith("peak_to_mean_") and window.isdigit() and _is_number(ratio):
            peaks.append((int(window), float(ratio)))
    duration = stated.get("duration_s", 0.0)
    duration_s = float(duration) if _is_number(duration) else 0.0
    return Arrivals(duration_s, float(stated["rate_per_s"]), tuple(sorted(peaks)))
