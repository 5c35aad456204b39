"""A log in a few kilobytes: quantiles, joint cells, arrivals, and what was dropped. Written as a cell file."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from recommender.workload.cellfile import HALF_OCTAVES, arrivals_from, is_spread, lengths_from_cell_file
from recommender.workload.lengths import Arrivals, Lengths, total_quantile

SHARES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999)
TOTAL_SHARES = (
    *(percent / 100 for percent in range(1, 99)),
    *(per_mille / 1000 for per_mille in range(981, 1000)),
    0.9995,
    0.9999,
)
"""Points of prompt + output, dense where max_model_len is chosen; between them the cells are read."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Tokens of one side of the requests. `quantiles` are exact (share, tokens) points."""

    minimum: int
    maximum: int
    mean: float
    std: float
    quantiles: tuple[tuple[float, int], ...]

    def quantile(self, share: float) -> int:
        """The tokens at a listed share. Raises KeyError for another."""
        return dict(self.quantiles)[share]


@dataclass(frozen=True, slots=True)
class LengthsSummary:
    """What a log says about request lengths.

    `rows` are all rows read, `requests` those that count, `dropped` the others by reason. `latency` holds means in
    seconds (request_s, ttft_s, tpot_s) and `peak_concurrency` the most requests at once, where the log says when
    requests ended. `timestamps` says what the times were taken as.
    """

    name: str
    rows: int
    requests: int
    dropped: tuple[tuple[str, int], ...]
    input: Spread
    output: Spread
    total: Spread
    pearson: float | None
    arrivals: Arrivals | None
    latency: tuple[tuple[str, float], ...]
    peak_concurrency: int | None
    timestamps: str
    columns: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    cells: tuple[tuple[float, float, float], ...]
    spread: bool = True

    def lengths(self) -> Lengths:
        """The distribution that a plan is sized from."""
        return lengths_from_cell_file(self.document())

    def document(self) -> dict[str, Any]:
        """The cell file: the layout of the catalog's traces, and how the log was read."""
        return {
            "name": self.name,
            "source": self.name,
            "licence": "",
            "kind": "log",
            "partial": None,
            "notes": "; ".join(self.notes),
            "requests": self.requests,
            "requests_behind": None,
            "input_tokens": _spread_document(self.input),
            "output_tokens": _spread_document(self.output),
            "total_tokens": _spread_document(self.total),
            "correlation": {} if self.pearson is None else {"pearson": self.pearson},
            "arrivals": _arrivals_document(self.arrivals),
            "diurnal": None,
            "log": {
                "rows": self.rows,
                "dropped": dict(self.dropped),
                "columns": dict(self.columns),
                "timestamps": self.timestamps,
                "latency": dict(self.latency),
                "peak_concurrency": self.peak_concurrency,
                "notes": list(self.notes),
            },
            "bucketing": HALF_OCTAVES if self.spread else "none: a cell holds requests of one length",
            "cell_fields": ["requests", "mean_input_tokens", "mean_output_tokens"],
            "cells": [list(cell) for cell in self.cells],
        }

    @classmethod
    def of_lengths(cls, lengths: Lengths) -> LengthsSummary:
        """The summary of a distribution that is no log (a shipped trace, a server's histograms), by its cells.

        Prompt and output are those of the cells' means; the totals are exact where the source states them.
        """
        cells = tuple((cell.weight, cell.input_tokens, cell.output_tokens) for cell in lengths.cells)
        requests = round(sum(cell[0] for cell in cells))
        totals = _spread_of([(weight, prompt + output) for weight, prompt, output in cells], SHARES)
        stated = tuple((share, total_quantile(lengths, share)) for share in SHARES)
        return cls(
            name=lengths.name,
            rows=requests,
            requests=requests,
            dropped=(),
            input=_spread_of([(weight, prompt) for weight, prompt, _ in cells], SHARES),
            output=_spread_of([(weight, output) for weight, _, output in cells], SHARES),
            total=replace(totals, maximum=lengths.maximum_tokens, quantiles=stated),
            pearson=None,
            arrivals=lengths.arrivals,
            latency=(),
            peak_concurrency=None,
            timestamps="no timestamps" if lengths.arrivals is None else "as stated",
            columns=(),
            notes=lengths.notes,
            cells=cells,
            spread=lengths.spread,
        )

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> LengthsSummary:
        """The summary that a cell file written by `document` holds. Raises KeyError, TypeError or ValueError."""
        log = document["log"]
        return cls(
            name=document["name"],
            rows=log["rows"],
            requests=document["requests"],
            dropped=tuple(log["dropped"].items()),
            input=_spread(document["input_tokens"]),
            output=_spread(document["output_tokens"]),
            total=_spread(document["total_tokens"]),
            pearson=document["correlation"].get("pearson"),
            arrivals=arrivals_from(document),
            latency=tuple(log["latency"].items()),
            peak_concurrency=log["peak_concurrency"],
            timestamps=log["timestamps"],
            columns=tuple(log["columns"].items()),
            notes=tuple(log["notes"]),
            cells=tuple((count, tokens_in, tokens_out) for count, tokens_in, tokens_out in document["cells"]),
            spread=is_spread(document),
        )


def written(document: Mapping[str, Any]) -> str:
    """The text of a cell file: a key a line, cells packed."""
    plain = {key: value for key, value in document.items() if key != "cells"}
    head = json.dumps(plain, indent=1, ensure_ascii=False).removesuffix("\n}")
    head = re.sub(r"\[\s+([\d.]+),\s+([\d.]+)\s+\]", r"[\1, \2]", head)
    rows = [json.dumps(cell) for cell in document["cells"]]
    packed = ",\n".join("  " + ", ".join(rows[place : place + 8]) for place in range(0, len(rows), 8))
    return f'{head},\n "cells": [\n{packed}\n ]\n}}\n'


def _spread_of(weighted: list[tuple[float, float]], shares: tuple[float, ...]) -> Spread:
    """Mean, deviation and quantiles of weighted lengths."""
    weighted.sort(key=lambda pair: pair[1])
    whole = sum(weight for weight, _ in weighted)
    mean = sum(weight * tokens for weight, tokens in weighted) / whole
    variance = sum(weight * (tokens - mean) ** 2 for weight, tokens in weighted) / whole
    reached = list(accumulate(weight for weight, _ in weighted))
    last = len(weighted) - 1
    places = [min(bisect_left(reached, share * whole * (1 - 1e-12)), last) for share in shares]
    points = tuple((share, round(weighted[place][1])) for share, place in zip(shares, places, strict=True))
    return Spread(round(weighted[0][1]), round(weighted[-1][1]), round(mean, 2), round(math.sqrt(variance), 2), points)


def _spread_document(spread: Spread) -> dict[str, Any]:
    return {
        "minimum": spread.minimum,
        "maximum": spread.maximum,
        "mean": spread.mean,
        "std": spread.std,
        "quantiles": [list(point) for point in spread.quantiles],
    }


def _spread(document: Mapping[str, Any]) -> Spread:
    points = tuple((float(share), int(tokens)) for share, tokens in document["quantiles"])
    return Spread(document["minimum"], document["maximum"], document["mean"], document["std"], points)


def _arrivals_document(arrivals: Arrivals | None) -> dict[str, Any] | None:
    if arrivals is None:
        return None
    peaks = {f"peak_to_mean_{window}s": ratio for window, ratio in arrivals.peak_to_mean}
    hourly = {"hourly": list(arrivals.hourly)} if arrivals.hourly else {}
    return {"duration_s": arrivals.duration_s, "rate_per_s": arrivals.rate_per_s, **peaks, **hourly}
