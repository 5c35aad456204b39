"""The `vllm` memory model of one replica: the driver's bytes, the engine's rules, measured reserves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from recommender.errors import InputError
from recommender.memory import refusal
from recommender.memory.calibration import Correction
from recommender.memory.compatibility import Verdict, compatible
from recommender.memory.engine import EngineConstants, engine_constants
from recommender.memory.fit import Fit, Replica, Totals
from recommender.memory.kv import KvPool, KvSize, kv_size
from recommender.memory.published import published
from recommender.memory.remarks import idle_block, warnings_of
from recommender.memory.reserve import extrapolated
from recommender.memory.startup import (
    Budget,
    Limits,
    Physics,
    budget_of,
    limits_of,
    stages_of,
    usable_bytes,
)
from recommender.memory.uncertainty import reserve_margin_bytes, weights_margin_bytes
from recommender.memory.weights import stored_as


@dataclass(frozen=True, slots=True)
class _Start:
    """One start-up: what is asked, and what the engine makes of it."""

    replica: Replica
    constants: EngineConstants
    quantised: bool
    limits: Limits
    memory_bytes: int
    utilization: float
    verdict: Verdict

    @property
    def usable_bytes(self) -> int:
        return usable_bytes(self.memory_bytes, self.utilization)

    @property
    def in_flight_tokens(self) -> int:
        return self.constants.in_flight_tokens(self.limits.max_num_batched_tokens, self.replica.pp)


def fit_vllm(replica: Replica) -> Fit:
    """What one replica holds as the engine would start it. Raises InputError, NotModelledError."""
    start = _start(replica)
    try:
        budget = _budget(start)
    except InputError:
        if start.verdict.ok:
            raise
        return _fit(start, None, None, start.verdict.reason, None)
    size = _size(start, budget)
    why, estimated = _refusal(start, budget, size)
    return _fit(start, budget, size, why, estimated)


def _start(replica: Replica) -> _Start:
    constants = engine_constants(replica.engine, replica.engine_version)
    quantisation = stored_as(replica.model, replica.weights, replica.checkpoint)
    length = replica.max_model_len or replica.model.unasked_len(constants.number)
    verdict = compatible(
        replica.model,
        replica.gpu,
        tp=replica.tp,
        weights=replica.weights,
        quantisation=quantisation,
        kv_dtype=replica.kv_dtype,
        engine=replica.engine,
        engine_version=constants.version,
        expert_parallel=replica.ep > 1,
    )
    return _Start(
        replica=replica,
        constants=constants,
        quantised=quantisation is not None,
        limits=limits_of(constants, replica.gpu, length, replica.max_num_seqs, replica.max_num_batched_tokens),
        memory_bytes=replica.gpu.memory_bytes or 0,
        utilization=replica.gpu_memory_utilization or constants.gpu_memory_utilization,
        verdict=verdict,
    )


def _budget(start: _Start) -> Budget:
    replica = start.replica
    physics = Physics(
        model=replica.model,
        gpu=replica.gpu,
        weights=replica.weights,
        checkpoint=replica.checkpoint,
        kv_dtype=replica.kv_dtype,
        tp=replica.tp,
        pp=replica.pp,
        ep=replica.ep,
        enforce_eager=replica.enforce_eager,
        correction=_correction(start),
    )
    return budget_of(
        stages_of(physics, start.constants),
        start.limits,
        start.usable_bytes,
        extra_reserve_bytes=start.verdict.reserve_bytes,
        kv_cache_memory_bytes=replica.kv_cache_memory_bytes,
    )


def _correction(start: _Start) -> Correction | None:
    replica = start.replica
    if replica.calibration is None:
        return None
    return replica.calibration.correction_for(start.constants, replica.gpu, replica.tp, replica.pp)


def _size(start: _Start, budget: Budget) -> KvSize:
    return kv_size(
        budget.stage.pool,
        start.constants,
        start.constants.generation(start.replica.gpu),
        budget.blocks,
        start.limits.max_model_len,
        start.in_flight_tokens,
    )


def _refusal(start: _Start, budget: Budget, size: KvSize) -> tuple[str | None, int | None]:
    """(why the engine refuses to start, the longest length it would start with), (None, None) where it starts."""
    replica, limits = start.replica, start.limits
    if not start.verdict.ok:
        return start.verdict.reason, None
    longest = replica.model.longest(start.constants.number)
    if limits.max_model_len > longest:
        return refusal.too_long(start.constants, limits.max_model_len, longest), None
    if (why := _no_option(start) or _no_memory(start, budget)) is not None:
        return why, None
    pool = budget.stage.pool
    null = int(start.constants.null_block_checked)
    needed = pool.request_blocks(limits.max_model_len, start.in_flight_tokens)
    if needed <= size.blocks - null:
        return None, None
    estimated = _estimated(start, pool, size.blocks - null)
    why = refusal.no_request(
        start.constants.generation(replica.gpu),
        limits.max_model_len,
        needed * pool.bytes_per_block,
        budget.available_bytes - null * pool.bytes_per_block,
        size.tokens,
        estimated if start.constants.estimate_printed else None,
    )
    return why, estimated


def _no_option(start: _Start) -> str | None:
    """Why the version does not take an option that was given."""
    if start.replica.kv_cache_memory_bytes is None or start.constants.kv_cache_memory_option:
        return None
    return refusal.no_option(start.constants, "--kv-cache-memory-bytes")


def _estimated(start: _Start, pool: KvPool, blocks: int) -> int | None:
    """The longest length that starts, as V1 works it out. V0 works none out; there max_num_batched_tokens follows the
    length, so a shorter one is tried until it starts.
    """
    found = pool.longest_request(blocks, start.in_flight_tokens, start.limits.max_model_len)
    if start.constants.generation(start.replica.gpu) != "V0":
        return found or None
    while found:
        again = _start(replace(start.replica, max_model_len=found))
        budget = _budget(again)
        shorter = budget.stage.pool.longest_request(budget.blocks, again.in_flight_tokens, found)
        if shorter == found:
            return found
        found = shorter
    return None


def _no_memory(start: _Start, budget: Budget) -> str | None:
    """Why there is no pool at all; None where there is one."""
    weights, reserve = budget.stage.weights_bytes, budget.reserve_bytes
    context = start.constants.context_bytes(start.replica.gpu, start.replica.tp)
    if start.replica.kv_cache_memory_bytes is not None:
        needed = weights + reserve + budget.available_bytes + context
        if needed > start.memory_bytes:
            return refusal.no_room(needed, start.memory_bytes)
    elif start.memory_bytes - start.usable_bytes < context:
        free = start.memory_bytes - context
        return refusal.no_margin(free, start.memory_bytes, start.utilization, start.usable_bytes)
    if _is_empty(start, budget):
        return refusal.no_blocks(weights, reserve, start.usable_bytes)
    return None


def _is_empty(start: _Start, budget: Budget) -> bool:
    """Whether the pool has no block at all; V1 compares bytes, less the null block where its check knows of that."""
    if start.constants.generation(start.replica.gpu) == "V0":
        return budget.blocks < 1
    return budget.available_bytes <= int(start.constants.null_block_checked) * budget.stage.pool.bytes_per_block


def _fit(start: _Start, budget: Budget | None, size: KvSize | None, why: str | None, estimated: int | None) -> Fit:
    """The answer. Without a budget (a shape that cannot be split over these GPUs) the replica holds nothing."""
    replica, limits = start.replica, start.limits
    pool = budget.stage.pool if budget else None
    outside = _extrapolated(start)
    expected = _interval(start, budget, outside) if budget else None
    kv_bytes = max(0, budget.available_bytes) if budget else 0
    weights_bytes = budget.stage.weights_bytes if budget else 0
    per_token = pool.kv_bytes_per_token if pool else 0
    return Fit(
        model=replica.model.id,
        gpu=replica.gpu.name,
        tp=replica.tp,
        pp=replica.pp,
        dp=replica.dp,
        ep=replica.ep,
        weights=replica.weights,
        checkpoint=replica.checkpoint.id if replica.checkpoint else None,
        kv_dtype=replica.kv_dtype,
        max_model_len=limits.max_model_len,
        max_num_seqs=limits.max_num_seqs,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        gpu_memory_utilization=start.utilization,
        engine=replica.engine,
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


def _totals(start: _Start, budget: Budget) -> Totals:
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


def _longest(start: _Start, size: KvSize, pool: KvPool) -> int:
    """The longest length at which max_num_seqs requests fit at once, max_num_batched_tokens as it is."""
    usable = size.blocks - start.constants.null_blocks(start.replica.gpu)
    share = max(0, usable) // start.limits.max_num_seqs
    return pool.longest_request(share, start.in_flight_tokens, start.replica.model.longest(start.constants.number))


def _interval(start: _Start, budget: Budget, outside: tuple[str, ...]) -> tuple[int, int]:
    """The least and the most KV bytes to expect, 80 % of the time."""
    replica, available = start.replica, budget.available_bytes
    if replica.kv_cache_memory_bytes is not None:
        return available, available
    reserve = reserve_margin_bytes(start.constants, replica.model, tp=replica.tp, pp=replica.pp, extrapolated=outside)
    more, less = weights_margin_bytes(replica.model, budget.stage.weights_bytes, replica.weights, replica.checkpoint)
    return max(0, available - reserve - more), max(0, available + reserve + less)


def _borderline(start: _Start, budget: Budget, expected: tuple[int, int]) -> bool:
    """Whether one request of max_model_len fits at one end of the interval and not at the other."""
    pool = budget.stage.pool
    needed = pool.request_blocks(start.limits.max_model_len, start.in_flight_tokens)
    needed += int(start.constants.null_block_checked)
    low, high = (pool.blocks(size) >= needed for size in expected)
    return low != high


def _extrapolated(start: _Start) -> tuple[str, ...]:
    at = start.replica
    return extrapolated(start.constants, at.model, at.gpu, tp=at.tp, pp=at.pp, ep=at.ep, weights=at.weights)


def _sources(start: _Start) -> dict[str, str]:
    replica, constants = start.replica, start.constants
    sampler = constants.samplers[constants.runner(replica.model, start.quantised)]
    return {
        "memory": replica.gpu.memory_source,
        "weights": _weights_source(replica),
        "activation": sampler.source,
        "non_torch": constants.non_torch.source,
        "cuda_graph": constants.graphs.source if constants.graphs_charged else "not charged by this version",
        "limits": constants.sources["scheduler"],
        "utilization": constants.sources["gpu_memory_utilization"],
        "compatibility": start.verdict.source,
    }


def _weights_source(replica: Replica) -> str:
    """Where the weights' bytes come from, and whether the files' own size agrees with the config."""
    checkpoint = replica.checkpoint
    if checkpoint is None:
        return replica.model.source
    said = published(replica.model, stored_as(replica.model, replica.weights, checkpoint), checkpoint).source
    return said if checkpoint.source in said else f"{said}; {checkpoint.source}"


def _warnings(start: _Start, budget: Budget | None, why: str | None) -> tuple[str, ...]:
    found = warnings_of(start.replica, start.constants, start.limits, _correction(start))
    if budget is None or why is not None:
        return found
    pool, blocks, length = budget.stage.pool, budget.blocks, start.limits.max_model_len
    usable = blocks - start.constants.null_blocks(start.replica.gpu)
    if pool.request_blocks(length, start.in_flight_tokens) <= usable:
        return found
    return (*found, idle_block(pool, blocks, length, start.in_flight_tokens))
