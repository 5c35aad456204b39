"""Request lengths as joint cells: how often, how long a prompt, how long an output. Fixed lengths are one cell."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """`weight` requests (any positive unit) with `input_tokens` of prompt and `output_tokens` generated (means)."""

    weight: float
    input_tokens: float
    output_tokens: float


@dataclass(frozen=True, slots=True)
class Lengths:
    """A request-length distribution.

    `total_only` marks a fixed total whose split into prompt and output was not given: sizing in the worst case needs no
    split, everything else refuses it. `maximum_tokens` is the longest request (prompt + output), exact where known.
    `totals` are exact (tokens, cumulative share) points of prompt + output where the source states them.
    """

    cells: tuple[Cell, ...]
    maximum_tokens: int
    total_only: bool = False
    totals: tuple[tuple[float, float], ...] = ()
    name: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()
