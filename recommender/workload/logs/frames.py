"""Columns of a data frame as a batch: numbers where they can be read, times in seconds, rows that do not count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from recommender.workload.law import Float
from recommender.workload.logs.columns import TIMES, WORDS
from recommender.workload.logs.exclusions import exclude, excluded
from recommender.workload.logs.tally import Batch, Mask
from recommender.workload.logs.times import WIDTH, iso_seconds, seconds_of


def batch_of(columns: Mapping[str, Any], unit: str | None, *, summed: bool, spilled: Any = None) -> Batch:
    """A batch of pandas columns by role; words are categories. `spilled` is what rows have beyond the last column."""
    times = {role: _times(columns[role], unit) for role in TIMES if role in columns and unit}
    if "elapsed" in columns and "timestamp" in times:
        times["end"] = times["timestamp"] + _numbers(columns["elapsed"])
    masks: dict[str, Mask] = {}
    if spilled is not None:
        masks["too many columns"] = _filled(spilled)
    for role in WORDS:
        if role in columns:
            exclude(masks, _excluded(role, columns[role]))
    return Batch(
        input=_numbers(columns["input"]),
        output=_numbers(columns["output"]),
        time=times.get("timestamp"),
        end=times.get("end"),
        first_token=times.get("first_token"),
        total=_numbers(columns["total"]) if "total" in columns else None,
        requests=_numbers(columns["requests"]) if summed else None,
        excluded=masks,
    )


def _filled(column: Any) -> Mask:
    """Where a column that should be empty is not."""
    values = column.to_numpy()
    if values.dtype.kind == "S":
        filled: Mask = values.view(np.uint8) != 0
        return filled
    beyond: Mask = column.notna().to_numpy(dtype=np.bool_) & (values != b"")
    return beyond


def _numbers(column: Any) -> Float:
    import pandas as pd

    if column.dtype.kind == "b":
        return np.full(len(column), np.nan)
    if column.dtype.kind not in "iuf":
        column = pd.to_numeric(column, errors="coerce")
    numbers: Float = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return numbers


def _times(column: Any, unit: str | None) -> Float:
    if unit != "iso":
        return seconds_of(_numbers(column), unit or "s")
    if column.dtype.kind == "f":  # dates of a format that knows them, in seconds already
        return _numbers(column)
    text = column.to_numpy()
    if text.dtype.kind != "S":
        text = np.array([_ascii(each) for each in text], dtype=f"S{WIDTH}")
    seconds = iso_seconds(text)
    odd = np.flatnonzero(np.isnan(seconds) & (text != b""))
    if len(odd):
        seconds[odd] = _read_one_by_one(text[odd])
    return seconds


def _ascii(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("ascii", "replace")


def _read_one_by_one(text: Any) -> Float:
    """Seconds of dates in any other form that pandas knows; NaN where it knows none."""
    import pandas as pd

    words = [each.decode("ascii", "replace") for each in text.tolist()]
    try:
        return _seconds(pd.Series(pd.to_datetime(words, errors="coerce", utc=True, format="mixed")))
    except (ValueError, OverflowError):
        return np.full(len(words), np.nan)  # a year that no log was written in


def _seconds(column: Any) -> Float:
    import pandas as pd

    since = column - pd.Timestamp(0, tz=getattr(column.dtype, "tz", None))
    seconds: Float = since.dt.total_seconds().to_numpy(dtype=np.float64)
    return seconds


def _excluded(role: str, column: Any) -> dict[str, Mask]:
    """Masks by reason of the rows whose word says that they are no served generation."""
    masks: dict[str, Mask] = {}
    codes = column.cat.codes.to_numpy()
    for code, word in enumerate(column.cat.categories):
        reason = excluded(role, str(word))
        if reason:
            masks[reason] = masks.get(reason, np.zeros(len(codes), dtype=np.bool_)) | (codes == code)
    return masks
