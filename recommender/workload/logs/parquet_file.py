"""Logs in Parquet, read by the column with pyarrow where it is installed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from recommender.errors import Fault, InputError
from recommender.workload.logs.columns import WORDS, Columns, choose
from recommender.workload.logs.frames import batch_of
from recommender.workload.logs.tally import Tally
from recommender.workload.logs.times import UNITS, timestamp_unit, usable

_BATCH_ROWS = 500_000


def read_parquet(
    path: Path, tally: Tally, columns: Mapping[str, str] | None, unit: str | None
) -> tuple[Columns, str | None]:
    """Count a file's rows into `tally`; gives the columns used and the unit of their timestamps."""
    try:
        from pyarrow import ArrowException, Table, types
        from pyarrow.parquet import ParquetFile
    except ImportError:
        install = "pip install 'recommender[parquet]'"
        raise InputError(Fault("reading Parquet needs pyarrow", str(path), expected=install)) from None
    unit_used: str | None = None
    try:
        with ParquetFile(path) as table:
            chosen = choose(list(_leaves(table.schema_arrow)), columns, file=str(path))
            for batch in table.iter_batches(_BATCH_ROWS, columns=sorted(set(chosen.of.values()))):
                flat = Table.from_batches([batch])
                while any(types.is_struct(field.type) for field in flat.schema):
                    flat = flat.flatten()
                found = {role: _column(role, flat.column(name)) for role, name in chosen.of.items()}
                unit_used = unit_used or _unit(flat, found, chosen, unit)
                tally.add(batch_of(found, unit_used, summed=chosen.summed))
    except (ArrowException, OSError) as error:
        raise InputError(Fault(re.sub(r"\s+", " ", f"cannot be read: {error}"), str(path))) from None
    return chosen, unit_used


def _leaves(fields: Iterable[Any], prefix: str = "") -> Iterable[str]:
    """The columns' names, those inside structs by their dotted path."""
    from pyarrow import types

    for field in fields:
        if types.is_struct(field.type):
            inner = (field.type.field(place) for place in range(field.type.num_fields))
            yield from _leaves(inner, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}"


def _column(role: str, column: Any) -> Any:
    """A column as pandas has it: dates as seconds since 1970, words as categories."""
    from pyarrow import int64, types

    kind = column.type
    if types.is_date(kind):
        column = column.cast("timestamp[s]")
        kind = column.type
    if types.is_timestamp(kind):
        return column.cast(int64()).to_pandas().astype("float64") * UNITS[kind.unit]
    values = column.to_pandas()
    return values.astype(str).astype("category") if role in WORDS else values


def _unit(flat: Any, found: Mapping[str, Any], chosen: Columns, stated: str | None) -> str | None:
    from pyarrow import types

    if "timestamp" not in chosen.of:
        return None
    column = found["timestamp"].dropna()
    kind = flat.schema.field(chosen.of["timestamp"]).type
    if types.is_timestamp(kind) or types.is_date(kind):
        return "iso" if len(column) else None
    return timestamp_unit(chosen.of["timestamp"], chosen.present, usable(column), stated)
