"""Logs and benchmark results that are one JSON document: an array of records, or records somewhere inside."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recommender.errors import Fault, InputError
from recommender.workload.logs.columns import Columns, choose, paths, value_at
from recommender.workload.logs.records import Rows, rows_of
from recommender.workload.logs.tally import Tally
from recommender.workload.logs.text import first_lines, open_text
from recommender.workload.logs.times import timestamp_unit, usable

_LARGEST_BYTES = 2**28
_MOST_VALUES = 2**24
"""Each takes some 100 bytes of memory once it is decoded."""
_SAMPLE_ROWS = 20


def read_json(
    path: Path, tally: Tally, columns: Mapping[str, str] | None, unit: str | None
) -> tuple[Columns, str | None]:
    """Count a document's records into `tally`; gives the keys used and the unit of their timestamps."""
    first_lines(path)
    try:
        with open_text(path) as stream:
            text = stream.read(_LARGEST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(Fault(f"cannot be read to its end: {error}", str(path))) from None
    if len(text) > _LARGEST_BYTES:
        raise InputError(
            Fault(f"is larger than {_LARGEST_BYTES:,} bytes", str(path), expected="one record a line (.jsonl)")
        )
    if sum(map(text.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        what = f"holds more than {_MOST_VALUES:,} values"
        raise InputError(Fault(what, str(path), expected="one record a line (.jsonl)"))
    try:
        document = json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith(b"{") and b"\n{" in text:
            from recommender.workload.logs.json_lines import read_jsonl

            return read_jsonl(path, tally, columns, unit)
        why = "a number has thousands of digits" if "integer string" in str(error) else str(error)
        raise InputError(Fault(f"is not JSON: {why}", str(path))) from None
    return _count(document, path, tally, columns, unit)


def _count(
    document: Any, path: Path, tally: Tally, columns: Mapping[str, str] | None, unit: str | None
) -> tuple[Columns, str | None]:
    records = rows_of(document) if not columns else _plain_rows(document)
    if not records:
        raise InputError(Fault("holds no records", str(path), expected="an array of objects with token counts"))
    names = list(dict.fromkeys(name for record in records[:_SAMPLE_ROWS] for name in paths(record)))
    chosen = choose(names, columns, file=str(path))
    unit_used = None
    if "timestamp" in chosen.of:
        samples = (value_at(record, chosen.of["timestamp"]) for record in records)
        unit_used = timestamp_unit(chosen.of["timestamp"], chosen.present, usable(samples), unit)
    tally.add(Rows(chosen, unit_used).batch(records))
    return chosen, unit_used


def _plain_rows(document: Any) -> list[Mapping[str, Any]]:
    """The records of an array, whose columns the user names."""
    rows = document if isinstance(document, list) else [document]
    return [row for row in rows if isinstance(row, Mapping)]
