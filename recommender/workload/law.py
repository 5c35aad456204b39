"""The law of one request in flight: how many tokens it holds at a random engine step.

A request with prompt I and O outputs runs O steps and holds I + s - 1 tokens in step s (its last token's cache is never
written). Long outputs are in flight longer, so the law is biased towards them: f(x) is the weight of the requests with
I <= x < I + O, over the weight of all steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from recommender.errors import Fault, InputError
from recommender.workload.lengths import Lengths, bucket_edges

Float = NDArray[np.float64]
Int = NDArray[np.int64]

_PIECES = 4  # of each half of a bucket that max_model_len cuts: 8 points move the need by less than 0.1 % against 4


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """Shares by count: `pmf[k]` is the share of engine steps in which one request holds k blocks (or tokens)."""

    pmf: Float

    @property
    def top(self) -> int:
        """The most one request can hold."""
        return len(self.pmf) - 1

    @property
    def mean(self) -> float:
        """The mean held."""
        return float(self.pmf @ np.arange(len(self.pmf)))

    @property
    def variance(self) -> float:
        """The variance of what is held."""
        return float(self.pmf @ (np.arange(len(self.pmf)) - self.mean) ** 2)

    @property
    def skew(self) -> float:
        """The third standardised moment; 0 where nothing varies."""
        variance = self.variance
        third = float(self.pmf @ (np.arange(len(self.pmf)) - self.mean) ** 3)
        return third / variance**1.5 if variance > 0 else 0.0

    def charged(self, blocks: Int) -> Law:
        """The law of what is charged, where x tokens are charged `blocks[x]`."""
        shares: Float = np.bincount(blocks[: len(self.pmf)], self.pmf).astype(np.float64)
        return Law(shares)

    def in_blocks(self, block_size: int) -> Law:
        """The law in blocks of `block_size` tokens, the last one counted whole."""
        return self.charged(-(-np.arange(len(self.pmf)) // block_size))


@lru_cache(maxsize=16)
def token_law(lengths: Lengths, max_model_len: int | None = None) -> Law:
    """The law of tokens held: prompts that leave no room for an output are refused, outputs end at max_model_len."""
    held = steps_held(*accepted_cells(lengths, max_model_len))
    return Law(held / held.sum())


def accepted_cells(lengths: Lengths, max_model_len: int | None) -> tuple[Float, Int, Int]:
    """Weights, prompts and outputs in whole tokens, as an engine with max_model_len takes them. Raises InputError."""
    if lengths.total_only:
        what = "a fixed total does not say how much of it is prompt: only the worst case can be sized"
        raise InputError(Fault(what, expected="fixed: {input, output}"))
    limit = lengths.maximum_tokens if max_model_len is None else min(max_model_len, lengths.maximum_tokens)
    weight, prompt, output = _whole(*_split_cut_buckets(lengths, limit))
    kept = prompt <= limit - (lengths.asked_tokens or 1)
    if not kept.any():
        raise InputError(Fault(f"no request is shorter than max_model_len {limit:,}"))
    return weight[kept], prompt[kept], np.minimum(output[kept], limit - prompt[kept])


def steps_held(weight: Float, prompt: Int, output: Int) -> Float:
    """By tokens, the weight of the engine steps in which one of the requests holds so many."""
    ends = int((prompt + output).max(initial=1))
    steps = np.bincount(prompt, weight, ends + 1) - np.bincount(prompt + output, weight, ends + 1)
    return np.clip(np.cumsum(steps)[:ends], 0.0, None)


def _columns(lengths: Lengths) -> tuple[Float, Float, Float]:
    table = np.array([(cell.weight, cell.input_tokens, cell.output_tokens) for cell in lengths.cells])
    return table[:, 0], table[:, 1], table[:, 2]


def _split_cut_buckets(lengths: Lengths, limit: int) -> tuple[Float, Float, Float]:
    """Weight, prompt and output per cell; prompts of buckets that reach beyond `limit` are spread over the bucket."""
    weight, prompt, output = _columns(lengths)
    if not lengths.spread or limit >= lengths.maximum_tokens:
        return weight, prompt, output
    low, high = _bucket(prompt)
    cut = high + _bucket(output)[1] > limit
    parts = [(weight[~cut], prompt[~cut], output[~cut])]
    weight, prompt, output, low, high = weight[cut], prompt[cut], output[cut], low[cut], high[cut]
    mean = np.clip(prompt, low, high)
    below = np.divide(high - mean, high - low, out=np.ones_like(mean), where=high > low)
    for piece in (np.arange(_PIECES) + 0.5) / _PIECES:
        parts.append((weight * below / _PIECES, low + (mean - low) * piece, output))
        parts.append((weight * (1 - below) / _PIECES, mean + (high - mean) * piece, output))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))  # type: ignore[return-value]


def _bucket(mean: Float) -> tuple[Float, Float]:
    """The shortest and the longest length in the half-octave bucket of each mean."""
    edges = np.array([0, *bucket_edges()], dtype=np.float64)
    place = np.searchsorted(edges, mean - 0.5)
    return edges[place - 1] + 1, edges[place]


def _whole(weight: Float, prompt: Float, output: Float) -> tuple[Float, Int, Int]:
    """The same requests in whole tokens: a fraction becomes a mix of the two neighbours, so means stay as they are."""
    output = np.maximum(output, 1.0)
    for column in range(2):
        value = (prompt, output)[column]
        floor = np.floor(value)
        part = value - floor
        weight = np.concatenate([weight * (1 - part), weight * part])
        both = np.concatenate([floor, floor + 1])
        other = np.tile((output, prompt)[column], 2)
        prompt, output = (both, other) if column == 0 else (other, both)
    used = weight > 0
    return weight[used], prompt[used].astype(np.int64), output[used].astype(np.int64)
