"""Rows of a log that are decoded objects: nested records, conversations that hold requests, benchmark results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from recommender.errors import InputError
from recommender.workload.law import Float
from recommender.workload.logs.columns import TIMES, WORDS, Columns, choose, paths, value_at
from recommender.workload.logs.exclusions import exclude, excluded
from recommender.workload.logs.tally import Batch
from recommender.workload.logs.times import as_number, iso_seconds, seconds_of

_DEPTH = 6


def rows_of(decoded: Any, depth: int = _DEPTH) -> list[Mapping[str, Any]]:
    """The records in one decoded JSON value: itself, the requests it holds, or its columns turned into rows."""
    if isinstance(decoded, Sequence) and not isinstance(decoded, str):
        return [row for item in decoded for row in rows_of(item, depth - 1)] if depth else []
    if not isinstance(decoded, Mapping):
        return []
    if has_lengths(decoded):
        return _turned(decoded)
    inner = _inner(decoded, _DEPTH)
    return inner if inner else [decoded]


def has_lengths(record: Mapping[str, Any]) -> bool:
    """Whether the record names prompt and output tokens."""
    return _names_lengths(tuple(paths(record)))


@lru_cache(maxsize=256)
def _names_lengths(names: tuple[str, ...]) -> bool:
    try:
        choose(names)
    except InputError:
        return False
    return True


def _turned(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A record of lists (a benchmark's `input_lens`, `output_lens`) as one record an item; any other as it is."""
    of = choose(paths(record)).of
    lists = {role: value_at(record, path) for role, path in of.items()}
    if not isinstance(lists["input"], list) or not isinstance(lists["output"], list):
        return [record]
    columns = {of[role]: values for role, values in lists.items() if isinstance(values, list) and role != "requests"}
    length = max(len(values) for values in columns.values())
    return [
        {name: values[row] if row < len(values) else None for name, values in columns.items()} for row in range(length)
    ]


def _inner(record: Mapping[str, Any], depth: int) -> list[Mapping[str, Any]]:
    """The first list of records with lengths inside this one; successful requests of a benchmark before failed ones."""
    if depth == 0:
        return []
    for key in sorted(record, key=lambda key: key != "successful"):
        value = record[key]
        found: list[Mapping[str, Any]] = []
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            found = [row for item in value if isinstance(item, Mapping) for row in _rows_inside(item, depth)]
        elif isinstance(value, Mapping):
            found = _inner(value, depth - 1)
        if found:
            return found
    return []


def _rows_inside(item: Mapping[str, Any], depth: int) -> list[Mapping[str, Any]]:
    return _turned(item) if has_lengths(item) else _inner(item, depth - 1)


class Rows:
    """Turns decoded records into batches by the columns chosen for the file, or for a record that has others."""

    def __init__(self, chosen: Columns, unit: str | None) -> None:
        self._chosen = chosen
        self._unit = unit
        self._others: dict[tuple[str, ...], Columns | None] = {}

    def batch(self, records: Sequence[Mapping[str, Any]]) -> Batch:
        """The records' values by role."""
        columns = [self._columns(record) for record in records]
        values: dict[str, list[Any]] = {}
        for role in self._chosen.of:
            values[role] = [
                value_at(record, chosen.of[role]) if role in chosen.of else None
                for record, chosen in zip(records, columns, strict=True)
            ]
        times = {role: self._times(values[role]) for role in TIMES if role in values and self._unit}
        if "elapsed" in values and "timestamp" in times:
            times["end"] = times["timestamp"] + _numbers(values["elapsed"])
        return Batch(
            input=_numbers(values["input"]),
            output=_numbers(values["output"]),
            time=times.get("timestamp"),
            end=times.get("end"),
            first_token=times.get("first_token"),
            total=_numbers(values["total"]) if "total" in values else None,
            requests=_numbers(values["requests"]) if self._chosen.summed else None,
            excluded=_excluded(values),
        )

    def _columns(self, record: Mapping[str, Any]) -> Columns:
        """The file's columns, unless this record has its lengths under other names."""
        of = self._chosen.of
        if value_at(record, of["input"]) is not None and value_at(record, of["output"]) is not None:
            return self._chosen
        names = tuple(paths(record))
        if names not in self._others:
            self._others[names] = choose(names) if has_lengths(record) else None
        return self._others[names] or self._chosen

    def _times(self, values: Iterable[Any]) -> Float:
        if self._unit == "iso":
            text = [str(value).encode("ascii", "replace") if isinstance(value, str) else b"" for value in values]
            return iso_seconds(np.array(text, dtype=np.bytes_))
        return seconds_of(_numbers(values), self._unit or "s")


def _numbers(values: Iterable[Any]) -> Float:
    read = (as_number(value) for value in values)
    return np.array([np.nan if number is None else number for number in read], dtype=np.float64)


def _excluded(values: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    masks: dict[str, Any] = {}
    for role in WORDS:
        reasons = [excluded(role, str(word)) for word in values.get(role, ())]
        said = sorted({reason for reason in reasons if reason})
        exclude(masks, {reason: np.array([each == reason for each in reasons]) for reason in said})
    return masks
