"""Configurations whose speed is asked for, as columns: one row each, whatever their number."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from recommender.speed.hardware import Hardware
from recommender.speed.shape import Shape

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Candidates:
    """One row per configuration; `shape`, `gpu` and `engine` point into the tuples.

    `concurrency` is the number of requests in flight over all `replicas`; `sequences` the most that one replica runs at
    once (its memory, or max_num_seqs): the rest queue. `prompt_tokens` and `output_tokens` are means. `years` is the
    date of the engine's version, in years after the constants' reference date. `batched_tokens` is the most tokens of a
    step (max_num_batched_tokens), which prompts are cut by.
    """

    shapes: tuple[Shape, ...]
    gpus: tuple[Hardware, ...]
    engines: tuple[str, ...]
    shape: Int
    gpu: Int
    engine: Int
    tp: Int
    pp: Int
    ep: Int
    dp: Int
    replicas: Int
    prompt_tokens: Float
    output_tokens: Float
    concurrency: Float
    sequences: Float
    years: Float
    batched_tokens: Float

    def __len__(self) -> int:
        return len(self.shape)

    def where(self, mask: Bool | Int) -> Candidates:
        """The rows that `mask` picks."""
        columns = {name: getattr(self, name)[mask] for name in _COLUMNS}
        return replace(self, **columns)

    def at(self, concurrency: Float) -> Candidates:
        """The same rows with so many requests in flight."""
        return replace(self, concurrency=concurrency)

    def of_shape(self, name: str) -> Float:
        """A number of each row's shape."""
        return np.array([getattr(shape, name) for shape in self.shapes], dtype=np.float64)[self.shape]

    def of_gpu(self, name: str) -> Float:
        """A number of each row's GPU."""
        return np.array([getattr(gpu, name) for gpu in self.gpus], dtype=np.float64)[self.gpu]


_COLUMNS = tuple(field.name for field in fields(Candidates) if field.name not in ("shapes", "gpus", "engines"))
