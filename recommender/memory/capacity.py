"""How many requests each candidate replica holds: the vectorised twin of `fit_replica`, for the search.

The two agree exactly (a property test holds them together): what `capacity` promises, `fit_replica` started with that
max_num_seqs confirms. All quantities are int64; nothing here is rounded twice.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Checkpoint, Model
from recommender.errors import Fault, InputError
from recommender.memory.fit import MEMORY_MODELS
from recommender.memory.kv import KvPool

if TYPE_CHECKING:
    from recommender.memory.calibration import Calibration

Int = NDArray[np.int64]

UNBOUNDED = 2**20
"""A concurrency no replica reaches: asks for a replica's whole capacity (budgets)."""


class Reason(IntEnum):
    """Why a candidate holds no request; FITS where it holds at least one. Those of speed are not memory's to say."""

    FITS = 0
    MEMORY_UNKNOWN = 1  # nobody stated what the engine sees of this card
    WEIGHTS = 2  # weights and reserve alone exceed the budget
    # Not one request of max_model_len fits. The engine refuses to start; before 0.29 it starts where only the null
    # block is missing, and such a request would wait for ever.
    MAX_MODEL_LEN = 3
    NOT_MODELLED = 4  # the cache or the weights of this (weights, kv dtype, tp) are refused by name
    UTILIZATION = 5  # the utilization asks for more than is free once the CUDA context is taken
    TOO_LONG = 6  # max_model_len is beyond the model's own: the engine refuses it
    TOO_SLOW = 7  # even one request by itself misses a limit on speed
    SPEED_UNKNOWN = 8  # speed is limited, and that of this card is not known
    LOADING = 9  # what stays fits, what is held while the weights are quantised does not


@dataclass(frozen=True, slots=True)
class Setting:
    """What all candidates of one question share. The index columns of `ReplicaColumns` point into its tuples."""

    model: Model
    gpus: tuple[Gpu, ...]
    weights: tuple[tuple[str, Checkpoint | None], ...]  # as in Replica.weights, Replica.checkpoint
    kv_dtypes: tuple[str, ...]
    engine: str = "vllm"
    engine_version: str = "0.33.0"
    gpu_memory_utilization: float | None = None
    enforce_eager: bool = False
    safe_side: bool = False  # plan on the lower end of `Fit.kv_cache_bytes_interval` instead of the middle
    calibration: Calibration | None = None


@dataclass(frozen=True, slots=True)
class ReplicaColumns:
    """One row per candidate. `max_num_batched_tokens` 0 is the engine's default for the card.

    `extra_reserve_bytes` is what compatibility asks to keep free per GPU (an attention backend's workspace).
    """

    gpu: Int
    tp: Int
    weights: Int
    kv_dtype: Int
    max_model_len: Int
    max_num_batched_tokens: Int
    extra_reserve_bytes: Int
    pp: Int
    ep: Int
    dp: Int

    def __len__(self) -> int:
        return len(self.gpu)

    def where(self, mask: Int) -> ReplicaColumns:
        """The rows that `mask` picks."""
        return ReplicaColumns(*(getattr(self, field.name)[mask] for field in fields(self)))


@dataclass(frozen=True, slots=True)
class Capacity:
    """One row per candidate, in the order asked.

    `sequences` is the largest max_num_seqs <= the limit at which that many requests fit (0: none, see `reason`);
    `kv_cache_bytes` is what the engine leaves per GPU for KV cache when started so (with max_num_seqs 1 where none
    fits; with `safe_side` the lower end of what is expected);
    `max_num_batched_tokens` is what the engine then uses.
    """

    sequences: Int
    kv_cache_bytes: Int
    max_num_batched_tokens: Int
    reason: Int

    def where(self, mask: Int) -> Capacity:
        """The rows that `mask` picks."""
        return Capacity(*(getattr(self, field.name)[mask] for field in fields(self)))


class Demand(Protocol):
    """KV blocks that so many requests at once need."""

    def blocks_needed(self, pool: KvPool, sequences: Int, max_model_len: Int, in_flight_tokens: Int) -> Int:
        """Blocks of `pool` per candidate; must not fall when `sequences` rises."""
        ...


@dataclass(frozen=True, slots=True)
class WorstCase:
    """Every request is as long as max_model_len."""

    def blocks_needed(self, pool: KvPool, sequences: Int, max_model_len: Int, in_flight_tokens: Int) -> Int:
        """`sequences` times the blocks the engine charges one request of max_model_len."""
        return sequences * pool.request_blocks(max_model_len, in_flight_tokens)


class MemoryModel(Protocol):
    """A memory model (an engine's own rules, or `article`): `memory_model(name, engine)` gives it."""

    def capacity(self, setting: Setting, columns: ReplicaColumns, limit: int, demand: Demand) -> Capacity:
        """How many requests, up to `limit`, each candidate holds."""
        ...


def memory_model(name: str, engine: str = "vllm") -> MemoryModel:
    """The memory model of that name, for an engine: `vllm` is the engine's own rules. Raises InputError."""
    if name == "vllm" and engine != "vllm":
        from recommender.memory.pool_capacity import PoolMemory

        return PoolMemory()
    if name == "vllm":
        from recommender.memory.vllm_capacity import VllmMemory

        return VllmMemory()
    if name == "article":
        from recommender.memory.article_capacity import ArticleMemory

        return ArticleMemory()
    raise InputError(Fault(f"memory model {name!r} is unknown", expected=" | ".join(MEMORY_MODELS)))
