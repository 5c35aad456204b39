"""Request-length data sets that ship with the catalog: joint cells, quantiles, arrivals, licence."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recommender.catalog.table import read_text
from recommender.errors import Fault, InputError
from recommender.workload.cellfile import arrivals_from
from recommender.workload.lengths import Cell, Lengths

KINDS = ("production", "synthetic", "dataset")


@dataclass(frozen=True, slots=True)
class Spread:
    """Tokens of one side of the requests. `quantiles` are (share, tokens) points, exact in the source data."""

    minimum: int
    maximum: int
    mean: float
    std: float
    quantiles: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """One data set. `cells` are (requests, mean input tokens, mean output tokens) of joint half-octave buckets.

    `partial` says what part of the source is missing, None where nothing is. `requests` is what the cells count;
    `requests_behind` what they were drawn from, where that is more.
    """

    name: str
    source: str
    licence: str
    kind: str
    partial: str | None
    notes: str
    requests: int
    requests_behind: int | None
    input: Spread
    output: Spread
    total: Spread
    correlation: dict[str, float]
    arrivals: dict[str, float] | None
    diurnal: dict[str, float] | None
    cells: tuple[tuple[int, float, float], ...]

    def lengths(self) -> Lengths:
        """The request lengths as joint cells, with the exact quantiles of their totals."""
        notes = (f"partial: {self.partial}",) if self.partial else ()
        return Lengths(
            cells=tuple(
                Cell(float(count), float(tokens_in), float(tokens_out)) for count, tokens_in, tokens_out in self.cells
            ),
            maximum_tokens=self.total.maximum,
            totals=((self.total.minimum - 1.0, 0.0), *((tokens, share) for share, tokens in self.total.quantiles)),
            name=self.name,
            source=f"{self.source} ({self.licence})",
            notes=notes,
            spread=True,
            arrivals=arrivals_from({"arrivals": self.arrivals, "diurnal": self.diurnal}),
            longest_prompt=self.input.maximum,
        )


def read_trace(path: Path) -> Trace:
    """The trace of a JSON file. Raises InputError where it cannot be read."""
    try:
        data = json.loads(read_text(path))
        return _trace(data)
    except json.JSONDecodeError as error:
        raise InputError(Fault(f"is not JSON: {error.msg}", str(path), error.lineno)) from None
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(Fault(f"is not a trace: {error!r}", str(path))) from None


def _trace(data: dict[str, Any]) -> Trace:
    """A trace from its parsed JSON."""
    behind = data["requests_behind"]
    return Trace(
        name=data["name"],
        source=data["source"],
        licence=data["licence"],
        kind=data["kind"],
        partial=data["partial"],
        notes=data["notes"],
        requests=int(data["requests"]),
        requests_behind=None if behind is None else int(behind),
        input=_spread(data["input_tokens"]),
        output=_spread(data["output_tokens"]),
        total=_spread(data["total_tokens"]),
        correlation=data["correlation"],
        arrivals=data["arrivals"],
        diurnal=data["diurnal"],
        cells=tuple((int(count), float(mean_in), float(mean_out)) for count, mean_in, mean_out in data["cells"]),
    )


def _spread(data: dict[str, Any]) -> Spread:
    """One side's figures from its parsed JSON."""
    points = tuple((float(share), float(tokens)) for share, tokens in data["quantiles"])
    return Spread(int(data["minimum"]), int(data["maximum"]), float(data["mean"]), float(data["std"]), points)
