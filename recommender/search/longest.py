"""The longest max-model-len at which a replica still holds its requests."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from recommender.memory.fit import Fit
from recommender.search.candidates import Row
from recommender.search.load import Arriving
from recommender.units import ceil_div
from recommender.workload.inflight import sum_of

if TYPE_CHECKING:
    from recommender.search.plans import Question


def longest_of(question: Question, memory: Fit, units: int, row: Row) -> int | None:
    """Tokens, max_num_batched_tokens as it is; None where layers that keep a window or a state are sized statistically.

    In the worst case the replica's own figure. Else one such request must fit, and what requests in flight hold: that
    stops growing at the longest request there is.
    """
    scenario = question.scenario
    if scenario.sizing == "worst_case":
        return memory.longest_max_model_len
    kept = int(memory.engine == "vllm")  # the block that vLLM never hands out
    size, usable = memory.block_size, (memory.blocks or 0) - kept
    if size is None or memory.request_blocks != ceil_div(memory.max_model_len, size):
        return None
    longest = min(question.longest, usable * size)

    def need(max_model_len: int) -> int:
        limit = min(max_model_len, scenario.workload.lengths.maximum_tokens)
        return blocks_of(question, row, limit, size, ceil_div(units, row.layout.dp))

    if need(longest) <= usable:
        return longest
    blocks = range(memory.max_model_len // size, longest // size + 1)
    return size * (blocks.start - 1 + bisect_right(blocks, usable, key=lambda count: need(count * size))) or None


def blocks_of(question: Question, row: Row, limit: int, size: int, units: int) -> int:
    """Blocks of one engine that carries so many units."""
    scenario, load = question.scenario, question.candidates.load_on(row)
    risk, prefix = float(scenario.epsilon), scenario.workload.shared_prefix
    sums = [sum_of(scenario.workload.lengths, limit, size, risk)]
    sums += [sum_of(scenario.workload.lengths, limit, size, risk, prefix)] if prefix else []
    needs = [
        each.poisson_quantile(load.mean_in_flight(units)) if isinstance(load, Arriving) else each.quantile(units)
        for each in sums
    ]
    return min(needs[0], *(prefix.blocks(size) + need for need in needs[1:])) if prefix else needs[0]
