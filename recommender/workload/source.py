"""Lengths by name: a shipped trace, a cell file, a log or a server's metrics; and what its requests hold in flight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from recommender.errors import Fault, InputError, nearest
from recommender.workload.cellfile import lengths_from_cell_file
from recommender.workload.files import cell_file, lengths_of_file
from recommender.workload.inflight import DEFAULT_EPSILON, InFlight, inflight_of
from recommender.workload.lengths import Lengths
from recommender.workload.readers import PROMETHEUS_SUFFIXES, suffix_of, summarise
from recommender.workload.summary import LengthsSummary, Spread

if TYPE_CHECKING:
    from recommender.catalog.traces import Spread as StatedSpread
    from recommender.catalog.traces import Trace


def inflight(
    lengths: str | Path | Lengths,
    concurrency: int,
    epsilon: float | Decimal = DEFAULT_EPSILON,
    max_model_len: int | None = None,
    block_size: int = 16,
) -> InFlight:
    """KV-cache tokens that `concurrency` requests at once need: exceeded in `epsilon` of the steps, and never.

    `lengths` is a shipped trace's name, a file (log, cell file, Prometheus text) or a Lengths. Raises InputError.
    """
    known = lengths if isinstance(lengths, Lengths) else lengths_of(lengths)
    return inflight_of(known, concurrency, epsilon, max_model_len, block_size)


def describe(
    name: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    timestamp_unit: str | None = None,
    longest: int | None = None,
) -> LengthsSummary:
    """What a log, a cell file, a server's metrics or a shipped trace says about request lengths. Raises InputError.

    `longest` (max_model_len) bounds what lies beyond the last bucket of a server's metrics.
    """
    path = Path(name)
    if _is_name(path):
        return _of_trace(shipped_trace(str(name)))
    document = cell_file(path)
    if document is not None and "log" in document:
        lengths_from_cell_file(document, file=str(path))
        try:
            return LengthsSummary.from_document(document)
        except (KeyError, TypeError, ValueError, AttributeError):
            expected = "the file as recommender lengths wrote it, or without this key"
            raise InputError(Fault("broken or incomplete", str(path), key="log", expected=expected)) from None
    if document is not None or is_metrics(path):
        return LengthsSummary.of_lengths(lengths_of_file(path, longest=longest))
    return summarise(path, columns=columns, timestamp_unit=timestamp_unit)


def lengths_of(
    name: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    timestamp_unit: str | None = None,
    longest: int | None = None,
) -> Lengths:
    """The lengths of a shipped trace by its name, or of a file. Raises InputError."""
    path = Path(name)
    if _is_name(path):
        return shipped_trace(str(name)).lengths()
    return lengths_of_file(path, columns=columns, timestamp_unit=timestamp_unit, longest=longest)


def is_metrics(name: str | Path) -> bool:
    """Whether a name is that of a server's metrics, which need max_model_len where requests are beyond all buckets."""
    return suffix_of(Path(name)) in PROMETHEUS_SUFFIXES


def shipped_trace(name: str) -> Trace:
    """The shipped trace of this name. Raises InputError with the nearest one."""
    from recommender.catalog.catalog import shipped
    from recommender.catalog.traces import read_trace

    traces = {trace.stem: trace for trace in sorted((shipped("catalogs") / "traces").glob("*.json"))}
    if name not in traces:
        near = nearest(name, traces)
        expected = "a file, or one of " + ", ".join(traces)
        raise InputError(Fault(f"{name} is no trace", expected=expected, suggestion=near[0] if near else None))
    return read_trace(traces[name])


def _is_name(path: Path) -> bool:
    return not path.suffix and not path.exists()


def _of_trace(trace: Trace) -> LengthsSummary:
    """The summary of a shipped trace, its quantiles exact."""
    summary = LengthsSummary.of_lengths(trace.lengths())
    return replace(
        summary,
        input=_stated(trace.input),
        output=_stated(trace.output),
        total=_stated(trace.total),
        pearson=trace.correlation.get("pearson"),
    )


def _stated(side: StatedSpread) -> Spread:
    points = tuple((share, int(tokens)) for share, tokens in side.quantiles)
    return Spread(side.minimum, side.maximum, side.mean, side.std, points)
