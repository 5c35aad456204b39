"""The `vllm` memory model of one replica: the driver's bytes, the engine's rules, measured reserves."""

from __future__ import annotations

from recommender.errors import InputError
from recommender.memory.decision import load_peak_at, refusal_at
from recommender.memory.fit import Fit, Replica, Totals
from recommender.memory.kv import KvPool, KvSize, kv_size
from recommender.memory.load_peak import held_while_loading
from recommender.memory.loaded_from import weights_source
from recommender.memory.remarks import idle_block, warnings_of, while_loading
from recommender.memory.reserve import extrapolated
from recommender.memory.start import Start, budget_at, correction_of, start_of
from recommender.memory.startup import Budget
from recommender.memory.uncertainty import reserve_margin_bytes, weights_margin_bytes


def fit_vllm(replica: Replica) -> Fit:
    """What one replica holds as the engine would start it. Raises InputError, NotModelledError."""
    start = start_of(replica)
    try:
        budget = budget_at(start)
    except InputError:
        if start.verdict.ok:
            raise
        return _fit(start, None, None, start.verdict.reason, None)
    size = _size(start, budget)
    why, estimated = refusal_at(start, budget, size)
    return _fit(start, budget, size, why, estimated)


def _size(start: Start, budget: Budget) -> KvSize:
    return kv_size(
        budget.stage.pool,
        start.constants,
        start.constants.generation(start.replica.gpu),
        budget.blocks,
        start.limits.max_model_len,
        start.in_flight_tokens,
    )


def _fit(start: Start, budget: Budget | None, size: KvSize | None, why: str | None, estimated: int | None) -> Fit:
    """The answer. Without a budget (a shape that cannot be split over these GPUs) the replica holds nothing."""
    replica, limits = start.replica, start.limits
    pool = budget.stage.pool if budget else None
    outside = _extrapolated(start)
    expected = _interval(start, budget, outside) if budget else None
    kv_bytes = max(0, budget.available_bytes) if budget else 0
    weights_bytes = budget.stage.weights_bytes if budget else 0
    per_token = pool.kv_bytes_per_token if pool else 0
    return Fit(
        **replica.named,
        max_model_len=limits.max_model_len,
        max_num_seqs=limits.max_num_seqs,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        gpu_memory_utilization=start.utilization,
        engine_version=start.constants.version,
        memory_model="vllm",
        memory_bytes=start.memory_bytes,
        usable_bytes=start.usable_bytes,
        weights_bytes=weights_bytes,
        activation_bytes=budget.reserve.activation_bytes if budget else 0,
        non_torch_bytes=budget.reserve.non_torch_bytes if budget else 0,
        cuda_graph_bytes=budget.reserve.cuda_graph_bytes if budget else 0,
        reserve_bytes=budget.reserve_bytes if budget else 0,
        kv_cache_bytes=kv_bytes,
        kv_bytes_per_token=per_token,
        bytes_per_block=pool.bytes_per_block if pool else None,
        block_size=pool.block_size if pool else None,
        blocks=size.blocks if size else None,
        request_blocks=pool.request_blocks(limits.max_model_len, start.in_flight_tokens) if pool else None,
        steady_request_blocks=pool.steady_blocks(limits.max_model_len) if pool else None,
        longest_max_model_len=_longest(start, size, pool) if size and pool and why is None else None,
        kv_cache_tokens=size.tokens if size else 0,
        max_concurrency=size.max_concurrency if size else 0.0,
        starts=why is None,
        refusal=why,
        estimated_max_model_len=estimated,
        total=_totals(start, budget) if budget else Totals(0, 0, 0),
        extrapolated=outside,
        launch_arguments=start.verdict.launch_arguments,
        sources=_sources(start),
        warnings=_warnings(start, budget, why),
        kv_cache_bytes_interval=expected,
        borderline=bool(budget and expected and _borderline(start, budget, expected)),
    )


def _totals(start: Start, budget: Budget) -> Totals:
    """All GPUs together. A token lives on every rank of every stage of one data-parallel rank, not on the others.

    A stage that does not bind forms as many blocks as the one that does.
    """
    tp, dp = start.replica.tp, start.replica.dp
    binding = budget.stage
    others = [stage for number, stage in enumerate(budget.stages) if number != budget.number]
    cache = max(0, budget.available_bytes) + sum(budget.blocks * stage.pool.bytes_per_block for stage in others)
    stages = (binding, *others)
    return Totals(
        weights_bytes=sum(stage.weights_bytes for stage in stages) * tp * dp,
        kv_cache_bytes=cache * tp * dp,
        kv_bytes_per_token=sum(stage.pool.kv_bytes_per_token for stage in stages) * tp,
    )


def _longest(start: Start, size: KvSize, pool: KvPool) -> int:
    """The longest length at which max_num_seqs requests fit at once, max_num_batched_tokens as it is."""
    usable = size.blocks - start.constants.null_blocks(start.replica.gpu)
    share = max(0, usable) // start.limits.max_num_seqs
    return pool.longest_request(share, start.in_flight_tokens, start.replica.model.longest(start.constants.number))


def _interval(start: Start, budget: Budget, outside: tuple[str, ...]) -> tuple[int, int]:
    """The least and the most KV bytes to expect, 80 % of the time."""
    replica, available = start.replica, budget.available_bytes
    if replica.kv_cache_memory_bytes is not None:
        return available, available
    reserve = reserve_margin_bytes(start.constants, replica.model, tp=replica.tp, pp=replica.pp, extrapolated=outside)
    more, less = weights_margin_bytes(replica.model, budget.stage.weights_bytes, replica.weights, replica.checkpoint)
    return max(0, available - reserve - more), max(0, available + reserve + less)


def _borderline(start: Start, budget: Budget, expected: tuple[int, int]) -> bool:
    """Whether one request of max_model_len fits at one end of the interval and not at the other."""
    pool = budget.stage.pool
    needed = pool.request_blocks(start.limits.max_model_len, start.in_flight_tokens)
    needed += int(start.constants.null_block_checked)
    low, high = (pool.blocks(size) >= needed for size in expected)
    return low != high


def _extrapolated(start: Start) -> tuple[str, ...]:
    at = start.replica
    return extrapolated(start.constants, at.model, at.gpu, tp=at.tp, pp=at.pp, ep=at.ep, weights=at.weights)


def _sources(start: Start) -> dict[str, str]:
    replica, constants = start.replica, start.constants
    sampler = constants.samplers[constants.runner(replica.model, start.quantised)]
    return {
        "memory": replica.gpu.memory_source,
        "weights": weights_source(replica.model, replica.weights, replica.checkpoint),
        "activation": sampler.source,
        "non_torch": constants.non_torch.source,
        "cuda_graph": constants.graphs.source if constants.graphs_charged else "not charged by this version",
        "limits": constants.sources["scheduler"],
        "utilization": constants.sources["gpu_memory_utilization"],
        "compatibility": start.verdict.source,
    }


def _warnings(start: Start, budget: Budget | None, why: str | None) -> tuple[str, ...]:
    found = warnings_of(start.replica, start.constants, start.limits, correction_of(start))
    if budget is None or why is not None:
        return found
    if peak := load_peak_at(start):
        found = (*found, while_loading(peak, held_while_loading(start.replica.engine, start.constants.version)))
    pool, blocks, length = budget.stage.pool, budget.blocks, start.limits.max_model_len
    usable = blocks - start.constants.null_blocks(start.replica.gpu)
    if pool.request_blocks(length, start.in_flight_tokens) <= usable:
        return found
    return (*found, idle_block(pool, blocks, length, start.in_flight_tokens))
