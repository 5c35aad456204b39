"""Logs with one JSON object a line: the needed values are found by their keys, prompt text is never decoded.

A key in quotes that a colon follows cannot stand inside a JSON string (its quotes would be escaped), so a plain search
finds it. Lines where it is found twice or not at all, and values that are no plain numbers, are decoded as JSON.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from recommender.errors import Fault, InputError
from recommender.workload.logs.columns import Columns, choose, paths, value_at
from recommender.workload.logs.json_scan import Scanner
from recommender.workload.logs.records import Rows, rows_of
from recommender.workload.logs.tally import Tally
from recommender.workload.logs.text import first_lines, open_text
from recommender.workload.logs.times import timestamp_unit, usable

_BLOCK_BYTES = 2**22
_LONGEST_LINE_BYTES = 2**26
_SAMPLE_BYTES = 2**22
_SAMPLE_LINES = 20


def read_jsonl(
    path: Path, tally: Tally, columns: Mapping[str, str] | None, unit: str | None
) -> tuple[Columns, str | None]:
    """Count a file's lines into `tally`; gives the keys used and the unit of their timestamps."""
    chosen, unit = _sniffed(path, columns, unit)
    scanner = Scanner.of(chosen, unit)
    rows = Rows(chosen, unit)
    try:
        for block in _blocks(path):
            lines = block.splitlines() if scanner is None else scanner.scan(block, tally)
            _decode(lines, rows, tally)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(Fault(f"cannot be read to its end: {error}", str(path))) from None
    return chosen, unit


def _sniffed(path: Path, columns: Mapping[str, str] | None, unit: str | None) -> tuple[Columns, str | None]:
    """The keys and the unit of timestamps by the first lines. Raises InputError where no line is an object."""
    records = []
    for line in first_lines(path, _SAMPLE_BYTES)[:_SAMPLE_LINES]:
        try:
            records.extend(rows_of(json.loads(line)))
        except (ValueError, RecursionError):
            continue
    if not records:
        raise InputError(Fault("none of the first lines is a JSON object", str(path)))
    names = list(dict.fromkeys(name for record in records for name in paths(record)))
    chosen = choose(names, columns, file=str(path))
    if "timestamp" not in chosen.of:
        return chosen, None
    samples = (value_at(record, chosen.of["timestamp"]) for record in records)
    return chosen, timestamp_unit(chosen.of["timestamp"], chosen.present, usable(samples), unit)


def _blocks(path: Path) -> Iterator[bytes]:
    """The file in blocks of whole lines."""
    rest = b""
    with open_text(path) as stream:
        while read := stream.read(_BLOCK_BYTES):
            block = rest + read
            end = block.rfind(b"\n") + 1
            rest = block[end:]
            if len(rest) > _LONGEST_LINE_BYTES:
                raise InputError(Fault(f"a line is longer than {_LONGEST_LINE_BYTES:,} bytes", str(path)))
            if end:
                yield block[:end]
    if rest.strip():
        yield rest + b"\n"


def _decode(lines: Sequence[bytes], rows: Rows, tally: Tally) -> None:
    """Count lines that need a JSON decoder."""
    records, broken = [], 0
    for line in lines:
        if not line.strip():
            continue
        try:
            found = rows_of(json.loads(line.removeprefix(b"\xef\xbb\xbf")))
        except (ValueError, RecursionError):
            found = []
        records.extend(found)
        broken += not found
    tally.drop("not a JSON object", broken)
    if records:
        tally.add(rows.batch(records))
