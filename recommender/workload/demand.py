"""KV blocks that the requests in flight need, for the search: the statistical counterpart of the worst case."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from recommender.workload.inflight import sum_of
from recommender.workload.law import Int, token_law
from recommender.workload.lengths import Lengths
from recommender.workload.prefix import SharedPrefix
from recommender.workload.sums import Sum

if TYPE_CHECKING:
    from recommender.memory.kv import KvPool


@dataclass(frozen=True, slots=True)
class Statistical:
    """The blocks that requests of these lengths exceed in at most `epsilon` of the engine steps.

    Groups of layers whose cache is capped (sliding windows, states) are charged what a request keeps in them; what is
    in flight between steps is shared by all requests and therefore charged once. One request of max_model_len must fit
    too, and no demand exceeds the worst case. A shared prefix counts where all layers keep the whole cache.

    With `arriving` the number in flight is random: an engine of so many sequences has at most so many at that risk.
    """

    lengths: Lengths
    epsilon: Decimal = Decimal("0.01")
    shared_prefix: SharedPrefix | None = None
    arriving: bool = False

    def blocks_needed(self, pool: KvPool, sequences: Int, max_model_len: Int, in_flight_tokens: Int) -> Int:
        """Blocks of `pool` per candidate; rises with `sequences`."""
        sequences, max_model_len, in_flight_tokens = np.broadcast_arrays(sequences, max_model_len, in_flight_tokens)
        needs = np.zeros(sequences.shape, dtype=np.int64)
        for limit, in_flight in sorted(set(zip(max_model_len.flat, in_flight_tokens.flat, strict=True))):
            rows = (max_model_len == limit) & (in_flight_tokens == in_flight)
            needs[rows] = self._needs(pool, sequences[rows], int(limit), int(in_flight))
        return needs

    def _needs(self, pool: KvPool, sequences: Int, limit: int, in_flight: int) -> Int:
        shortest, risk = min(limit, self.lengths.maximum_tokens), float(self.epsilon)
        kept = _kept(pool, self.lengths, shortest)
        whole = pool.request_blocks(limit, in_flight)
        in_flight_blocks = whole - pool.request_blocks(limit, 1)
        sums = _sums(self.lengths, shortest, risk, kept)
        need = np.minimum(sums.quantiles(sequences, poisson=self.arriving) + in_flight_blocks, sequences * whole)
        if self.shared_prefix is not None and kept == _full(len(kept) // 8, pool.block_size):
            beside = sum_of(self.lengths, shortest, pool.block_size, risk, self.shared_prefix)
            need = np.minimum(
                need, self.shared_prefix.blocks(pool.block_size) + beside.quantiles(sequences, poisson=self.arriving)
            )
        return np.where(sequences > 0, np.maximum(need, whole), 0)


@lru_cache(maxsize=256)
def _kept(pool: KvPool, lengths: Lengths, max_model_len: int) -> bytes:
    """The blocks that a request keeps at each number of tokens it may hold, as the bytes of an int64 array."""
    tokens = np.arange(len(token_law(lengths, max_model_len).pmf), dtype=np.int64)
    return np.ascontiguousarray(pool.request_blocks(tokens, np.ones_like(tokens)), dtype=np.int64).tobytes()


def _full(count: int, block_size: int) -> bytes:
    """The same where all layers keep the whole cache."""
    return (-(-np.arange(count, dtype=np.int64) // block_size)).tobytes()


@lru_cache(maxsize=64)
def _sums(lengths: Lengths, max_model_len: int, risk: float, kept: bytes) -> Sum:
    """Sums of the blocks kept; pools that charge alike share them."""
    return Sum(token_law(lengths, max_model_len).charged(np.frombuffer(kept, dtype=np.int64)), risk)
