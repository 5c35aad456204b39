"""Lengths by name: a shipped trace, a cell file, a log or a server's metrics; and what its requests hold in flight."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from recommender.errors import Fault, InputError, nearest
from recommender.workload.files import lengths_of_file
from recommender.workload.inflight import DEFAULT_EPSILON, InFlight, inflight_of
from recommender.workload.lengths import Lengths


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


def lengths_of(name: str | Path) -> Lengths:
    """The lengths of a shipped trace by its name, or of a file. Raises InputError."""
    from recommender.catalog.catalog import shipped
    from recommender.catalog.traces import read_trace

    path = Path(name)
    if path.suffix or path.exists():
        return lengths_of_file(path)
    traces = {trace.stem: trace for trace in sorted((shipped("catalogs") / "traces").glob("*.json"))}
    if str(name) not in traces:
        near = nearest(str(name), traces)
        expected = "a file, or one of " + ", ".join(traces)
        raise InputError(Fault(f"{name} is no trace", expected=expected, suggestion=near[0] if near else None))
    return read_trace(traces[str(name)]).lengths()
