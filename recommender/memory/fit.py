"""Whether one replica starts, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Checkpoint, Model


@dataclass(frozen=True, slots=True)
class Replica:
    """One engine process group as it would be started. None means the engine's own default for that card and version."""

    model: Model
    gpu: Gpu
    weights: str
    checkpoint: Checkpoint | None
    kv_dtype: str = "auto"
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory_bytes: int | None = None
    enforce_eager: bool = False
    engine: str = "vllm"
    engine_version: str | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """Weights, KV cache and bytes per token of the whole replica (all its GPUs)."""

    weights_bytes: int
    kv_cache_bytes: int
    kv_bytes_per_token: int


@dataclass(frozen=True, slots=True)
class Fit:
    """What a replica holds. Bytes are per GPU and integers; None is unknown (the refusal says why)."""

    model: str
    gpu: str
    tp: int
    pp: int
    dp: int
    ep: int
    weights: str
    checkpoint: str | None
    kv_dtype: str
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    gpu_memory_utilization: float
    engine: str
    engine_version: str
    memory_model: str
    memory_bytes: int
    usable_bytes: int
    weights_bytes: int
    activation_bytes: int
    non_torch_bytes: int
    cuda_graph_bytes: int
    reserve_bytes: int
    kv_cache_bytes: int
    kv_bytes_per_token: int
    bytes_per_block: int | None
    block_size: int | None
    blocks: int | None
    kv_cache_tokens: int
    max_concurrency: float
    starts: bool
    refusal: str | None
    estimated_max_model_len: int | None
    total: Totals
    extrapolated: tuple[str, ...]  # why the constants do not quite cover this replica
    launch_arguments: tuple[str, ...]  # flags compatibility asks for, e.g. an attention backend
    sources: dict[str, str]
    warnings: tuple[str, ...]
