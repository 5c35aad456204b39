"""Logs in Parquet, read by the column with pyarrow where it is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recommender.errors import Fault, InputError
from recommender.workload.logs.columns import Columns, choose
from recommender.workload.logs.frames import WORDS, batch_of
from recommender.workload.logs.tally import Tally
from recommender.workload.logs.times import timestamp_unit

_BATCH_ROWS = 500_000


def read_parquet(
    path: Path, tally: Tally, columns: Mapping[str, str] | None, unit: str | None
) -> tuple[Columns, str | None]:
    """Count a file's rows into `tally`; gives the columns used and the unit of their timestamps."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        install = "pip install 'recommender[parquet]'"
        raise InputError(Fault("reading Parquet needs pyarrow", str(path), expected=install)) from None
    unit_used: str | None = None
    try:
        with ParquetFile(path) as table:
            chosen = choose(table.schema_arrow.names, columns, file=str(path))
            for batch in table.iter_batches(_BATCH_ROWS, columns=sorted(set(chosen.of.values()))):
                frame = batch.to_pandas()
                unit_used = unit_used or _unit(frame, chosen, unit)
                roles = {role: frame[name] for role, name in chosen.of.items()}
                roles |= {role: roles[role].astype("category") for role in WORDS if role in roles}
                tally.add(batch_of(roles, unit_used, summed=chosen.summed))
    except (ArrowException, OSError) as error:
        raise InputError(Fault(f"cannot be read: {error}", str(path))) from None
    return chosen, unit_used


def _unit(frame: Any, chosen: Columns, stated: str | None) -> str | None:
    if "timestamp" not in chosen.of:
        return None
    column = frame[chosen.of["timestamp"]].dropna()
    if not len(column):
        return None
    if column.dtype.kind == "M" or hasattr(column.dtype, "tz"):
        return "iso"
    return timestamp_unit(chosen.of["timestamp"], chosen.present, column.iloc[0], stated)
