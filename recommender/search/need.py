"""What a replica needs of a GPU for the requests it is given: its engine takes the same pool whatever they need."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recommender.memory.fit import Fit
from recommender.search.candidates import Row
from recommender.search.longest import blocks_of
from recommender.units import ceil_div

if TYPE_CHECKING:
    from recommender.search.plans import Question


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes of one GPU: KV cache that its requests need, and the least utilization (to 0.01) that leaves so much, on
    the side that the scenario plans on.
    """

    kv_cache_bytes: int
    least_utilization: float


def need_of(question: Question, memory: Fit, units: int, row: Row) -> Need | None:
    """The need of a replica that carries so many units; None where vLLM does not divide the memory, in pipeline stages,
    and where layers that keep a window or a state are sized statistically.
    """
    if memory.memory_model != "vllm" or memory.pp > 1 or not memory.starts:
        return None
    blocks = _blocks(question, memory, units, row)
    if blocks is None or memory.bytes_per_block is None:
        return None
    kv = blocks * memory.bytes_per_block
    less = memory.kv_cache_bytes - min(memory.kv_cache_bytes_interval or (memory.kv_cache_bytes,))
    kept = less if question.candidates.evaluation.safe_side else 0
    share = (memory.weights_bytes + memory.reserve_bytes + kept + kv) / memory.memory_bytes
    return Need(kv, min(math.ceil(100 * share) / 100, memory.gpu_memory_utilization))


def _blocks(question: Question, memory: Fit, units: int, row: Row) -> int | None:
    """KV blocks of one engine, the null block among them."""
    whole, size, null = memory.request_blocks, memory.block_size, 1
    if whole is None or size is None:
        return None
    if question.scenario.sizing == "worst_case":
        return memory.max_num_seqs * whole + null
    if whole != ceil_div(memory.max_model_len, size):
        return None
    limit = min(memory.max_model_len, question.scenario.workload.lengths.maximum_tokens)
    return max(whole, blocks_of(question, row, limit, size, ceil_div(units, row.layout.dp))) + null
