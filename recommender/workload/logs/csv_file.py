"""Logs as comma-, semicolon- or tab-separated text, plain or gzipped: only the needed columns, a chunk at a time."""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from recommender.errors import Fault, InputError
from recommender.workload.logs.columns import TIMES, WORDS, Columns, choose
from recommender.workload.logs.frames import batch_of
from recommender.workload.logs.tally import Batch, Tally
from recommender.workload.logs.text import first_lines, open_text
from recommender.workload.logs.times import WIDTH, timestamp_unit, usable

_READ_BYTES = 2**20
_SEGMENT_BYTES = 2**24
"""Of the rows split at a time, prompt text and all: memory does not grow with what a row holds."""
_MOST_HELD_BYTES = 2**28
_TRIES = 64  # line ends looked at from the last one on: within quotes there may be some
_SEPARATORS = ",;\t|"


def read_csv(
    path: Path, tally: Tally, columns: Mapping[str, str] | None, unit: str | None
) -> tuple[Columns, str | None]:
    """Count a file's rows into `tally`; gives the columns used and the unit of their timestamps."""
    head = first_lines(path)
    separator = max(_SEPARATORS, key=head[0].count)
    names = _fields(head[0], separator)
    chosen = choose(names, columns, file=str(path))
    unit = _unit(chosen, [_fields(line, separator) for line in head[1:]], unit)
    for batch in _batches(path, chosen, separator, unit):
        tally.add(batch)
    return chosen, unit


def _fields(line: str, separator: str) -> list[str]:
    return [field.strip() for field in next(csv.reader([line], delimiter=separator), [])]


def _unit(chosen: Columns, rows: list[list[str]], stated: str | None) -> str | None:
    if "timestamp" not in chosen.of:
        return None
    place = chosen.present.index(chosen.of["timestamp"])
    samples = (row[place] for row in rows if len(row) > place)
    return timestamp_unit(chosen.of["timestamp"], chosen.present, usable(samples), stated)


def _segments(stream: IO[bytes], file: str) -> Iterator[bytes]:
    """The rows below the header in segments of whole rows: a row ends at a line's end outside quotes.

    Raises InputError where rows do not end, before anybody tries to split them.
    """
    held, held_bytes, inside = list[bytes](), 0, False
    while read := stream.read(_READ_BYTES):
        quotes = read.count(b'"')
        end = _last_row_end(read, inside) if held_bytes + len(read) >= _SEGMENT_BYTES else 0
        if end:
            yield b"".join([*held, read[:end]])
            held, held_bytes = [], 0
        held.append(read[end:])
        held_bytes += len(read) - end
        inside ^= bool(quotes % 2)
        if held_bytes > _MOST_HELD_BYTES:
            why = "a quote is not closed, or a line is no row"
            raise InputError(Fault(f"has rows that do not end within {_MOST_HELD_BYTES:,} bytes: {why}", file))
    yield b"".join(held)


def _last_row_end(read: bytes, inside: bool) -> int:
    """Where the last row in these bytes ends, 0 where none does; `inside` is whether they begin within quotes."""
    end = len(read)
    for _ in range(_TRIES):
        end = read.rfind(b"\n", 0, end)
        if end < 0:
            return 0
        if (read.count(b'"', 0, end) + inside) % 2 == 0:
            return end + 1
    return 0


def _batches(path: Path, chosen: Columns, separator: str, unit: str | None) -> Iterator[Batch]:
    """The needed columns in chunks. One column more than the header has catches rows with too many fields."""
    import pandas as pd

    roles = [role for role in chosen.of if unit or role not in (*TIMES, "elapsed")]
    places = {role: str(chosen.present.index(chosen.of[role])) for role in roles}
    guard = str(len(chosen.present))
    types: dict[str, Any] = {places[role]: "category" for role in WORDS if role in places}
    if unit == "iso":
        types |= {places[role]: f"S{WIDTH}" for role in TIMES if role in places}
    header = separator.join(str(place) for place in range(len(chosen.present) + 1))
    try:
        with open_text(path) as stream:
            stream.readline()
            for rows in _segments(stream, str(path)):
                chunk = pd.read_csv(
                    io.BytesIO(header.encode() + b"\n" + rows),
                    sep=separator,
                    usecols=[*sorted(set(places.values())), guard],
                    dtype={**types, guard: "S1"},
                    index_col=False,
                    encoding_errors="replace",
                    skipinitialspace=True,
                )
                columns = {role: chunk[place] for role, place in places.items()}
                yield batch_of(columns, unit, summed=chosen.summed, spilled=chunk[guard])
    except (pd.errors.ParserError, OSError, EOFError, zlib.error) as error:
        unclosed = re.search(r"EOF inside string starting at row (\d+)", str(error))
        why = f"a quote that opens in row {unclosed[1]} is not closed" if unclosed else re.sub(r"\s+", " ", str(error))
        raise InputError(Fault(f"cannot be read to its end: {why}", str(path))) from None
