"""Lengths by file: a log, a cell file or a server's metrics."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recommender.errors import Fault, InputError
from recommender.workload.cellfile import lengths_from_cell_file
from recommender.workload.lengths import Lengths
from recommender.workload.logs.text import open_text
from recommender.workload.prometheus import lengths_from_metrics, samples_of
from recommender.workload.readers import PROMETHEUS_SUFFIXES, suffix_of, summarise

_LARGEST_BYTES = 2**24  # of a cell file; it is a few kilobytes
_LARGEST_SCRAPE_BYTES = 2**24


def lengths_of_file(
    path: Path,
    *,
    columns: Mapping[str, str] | None = None,
    timestamp_unit: str | None = None,
    longest: int | None = None,
) -> Lengths:
    """The lengths in a log, a cell file or a metrics text, where `longest` bounds what lies beyond its last bucket."""
    if suffix_of(path) in PROMETHEUS_SUFFIXES:
        return metrics_lengths(path, longest=longest)
    document = cell_file(path)
    if document is not None:
        return lengths_from_cell_file(document, name=str(document.get("name") or path.name), file=str(path))
    return summarise(path, columns=columns, timestamp_unit=timestamp_unit).lengths()


def cell_file(path: Path) -> Mapping[str, Any] | None:
    """The document of a cell file; None for any other file."""
    if suffix_of(path) != ".json" or path.suffix == ".gz":
        return None
    try:
        with path.open("rb") as stream:
            text = stream.read(_LARGEST_BYTES)
        document = json.loads(text.decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, Mapping) and "cells" in document else None


def metrics_lengths(
    path: Path, *, before: Path | None = None, model_name: str | None = None, longest: int | None = None
) -> Lengths:
    """The lengths in a scrape of a server's /metrics, since an earlier scrape where one is given."""
    earlier = () if before is None else samples_of(_text(before), file=str(before))
    now = samples_of(_text(path), file=str(path))
    return lengths_from_metrics(now, before=earlier, model_name=model_name, longest=longest, file=str(path))


def _text(path: Path) -> str:
    try:
        with open_text(path) as stream:
            text = stream.read(_LARGEST_SCRAPE_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(Fault(f"cannot be read: {error}", str(path))) from None
    if len(text) > _LARGEST_SCRAPE_BYTES:
        raise InputError(Fault(f"is larger than {_LARGEST_SCRAPE_BYTES:,} bytes: no scrape of a server", str(path)))
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(Fault("is UTF-16 text", str(path), expected="UTF-8"))
    return text.decode("utf-8-sig", errors="replace")
