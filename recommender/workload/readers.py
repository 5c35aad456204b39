"""Request lengths from a file: which reader its name asks for, and the cache that makes a second look instant."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recommender.errors import Fault, InputError
from recommender.workload.summary import LengthsSummary

if TYPE_CHECKING:
    from recommender.workload.logs.columns import Columns
    from recommender.workload.logs.tally import Tally

_VERSION = 2  # of what is read from a log; a change makes older caches useless
SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
PROMETHEUS_SUFFIXES = (".prom", ".txt")
TIMESTAMP_UNITS = ("s", "ms", "us", "ns", "auto")

Reader = Callable[["Path", "Tally", Mapping[str, str] | None, str | None], "tuple[Columns, str | None]"]


def summarise(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    timestamp_unit: str | None = None,
    cache: bool = True,
) -> LengthsSummary:
    """What a log says about its requests' lengths: quantiles, joint cells, arrivals, dropped rows.

    `columns` names the columns of input, output and timestamp where the file's own names are unknown. Read once, the
    summary is kept in the user's cache directory until the file changes. Raises InputError.
    """
    path = Path(path)
    if timestamp_unit is not None and timestamp_unit not in TIMESTAMP_UNITS:
        raise InputError(
            Fault(f"{timestamp_unit!r} is no unit", key="timestamp_unit", expected=", ".join(TIMESTAMP_UNITS))
        )
    kept = _cache_path(path, columns, timestamp_unit)
    known = _cached(kept) if cache else None
    if known is not None:
        return known
    summary = _read(path, columns, timestamp_unit)
    if cache:
        _keep(kept, summary)
    return summary


def suffix_of(path: Path) -> str:
    """The suffix that says what is inside, without `.gz`."""
    suffixes = [suffix.casefold() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _read(path: Path, columns: Mapping[str, str] | None, unit: str | None) -> LengthsSummary:
    from recommender.workload.logs.summary_of import summary_of
    from recommender.workload.logs.tally import Tally

    tally = Tally(file=str(path))
    chosen, unit = reader_of(path)(path, tally, columns, unit)
    return summary_of(tally, path.name, chosen, unit)


def reader_of(path: Path) -> Reader:
    """The reader that a file's name asks for. Raises InputError for an unknown suffix."""
    suffix = suffix_of(path)
    if suffix in (".csv", ".tsv"):
        from recommender.workload.logs.csv_file import read_csv

        return read_csv
    if suffix in (".jsonl", ".ndjson"):
        from recommender.workload.logs.json_lines import read_jsonl

        return read_jsonl
    if suffix == ".json":
        from recommender.workload.logs.json_document import read_json

        return read_json
    if suffix == ".parquet":
        from recommender.workload.logs.parquet_file import read_parquet

        return read_parquet
    raise InputError(
        Fault(f"no reader for {suffix or 'a name without a suffix'}", str(path), expected=", ".join(SUFFIXES))
    )


def _cache_path(path: Path, columns: Mapping[str, str] | None, unit: str | None) -> Path:
    """Where the summary of this very file (path, size, time of change) would be kept. Raises InputError."""
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror or error}", str(path))) from None
    if path.is_dir():
        raise InputError(Fault("is a directory", str(path), expected="a file"))
    identity = [
        str(path.resolve()),
        status.st_size,
        status.st_mtime_ns,
        sorted((columns or {}).items()),
        unit,
        _VERSION,
    ]
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(home) / "recommender" / "lengths" / f"{digest[:32]}.json"


def _cached(kept: Path) -> LengthsSummary | None:
    try:
        document: Any = json.loads(kept.read_text(encoding="utf-8"))
        return LengthsSummary.from_document(document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _keep(kept: Path, summary: LengthsSummary) -> None:
    """Write the cache whole or not at all; a cache that cannot be written is no error."""
    draft = kept.with_suffix(f".{os.getpid()}.tmp")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(summary.document()), encoding="utf-8")
        draft.replace(kept)
    except OSError:
        with suppress(OSError):
            draft.unlink()
