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
from recommender.workload.logs.columns import Columns, choose
from recommender.workload.logs.frames import TIMES, WORDS, batch_of
from recommender.workload.logs.tally import Batch, Tally
from recommender.workload.logs.text import first_lines, open_text
from recommender.workload.logs.times import WIDTH, timestamp_unit

_CHUNK_ROWS = 500_000
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
    sample = next((row[place] for row in rows if len(row) > place and row[place].strip()), None)
    return timestamp_unit(chosen.of["timestamp"], chosen.present, sample, stated)


class _Renamed(io.RawIOBase):
    """A file whose first line is replaced."""

    def __init__(self, first_line: bytes, stream: IO[bytes]) -> None:
        stream.readline()
        self._first = first_line
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read, self._first = self._first or self._stream.read(len(buffer)), b""
        buffer[: len(read)] = read
        return len(read)


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
            chunks = pd.read_csv(
                io.BufferedReader(_Renamed(header.encode() + b"\n", stream)),
                sep=separator,
                usecols=[*sorted(set(places.values())), guard],
                dtype={**types, guard: "S1"},
                index_col=False,
                chunksize=_CHUNK_ROWS,
                encoding_errors="replace",
                skipinitialspace=True,
            )
            for chunk in chunks:
                columns = {role: chunk[place] for role, place in places.items()}
                yield batch_of(columns, unit, summed=chosen.summed, spilled=chunk[guard])
    except pd.errors.EmptyDataError:
        return
    except (pd.errors.ParserError, OSError, EOFError, zlib.error) as error:
        what = re.sub(r"\s+", " ", f"cannot be read to its end: {error}")
        raise InputError(Fault(what, str(path))) from None
