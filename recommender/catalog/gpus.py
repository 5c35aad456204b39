"""What a GPU is, apart from how it is sold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """One accelerator as the catalog states it; None is unknown, never zero.

    `memory_bytes` is what the engine sees (the driver's total), `memory_bytes_marketing` the GB on the box x 1e9.
    FLOP/s are dense. `compute_capability` is (major, minor) on NVIDIA, None elsewhere; `target` names the others (gfx942).
    """

    name: str
    vendor: str
    architecture: str
    compute_capability: tuple[int, int] | None
    target: str | None
    memory_bytes_marketing: int
    memory_bytes: int | None
    memory_confidence: str
    memory_source: str
    bandwidth_bytes_per_s: int | None
    bf16_flops: int | None
    fp8_flops: int | None
    int8_ops: int | None
    fp4_flops: int | None
    supports_bf16: str  # yes | no | unknown, as in the facts
    supports_fp8_compute: str
    supports_fp8_kv: str
    link: str
    max_gpus_per_node: int | None
    tdp_watts: int | None
    multiprocessors: int | None
    spec_confidence: str
    spec_source: str
    engine: str  # vllm | none: whether vLLM runs on it at all
    notes: str

    @property
    def memory_verified(self) -> bool:
        """Whether the memory was read off a real card of this type."""
        return not self.memory_confidence.startswith("unverified")
