"""Whether the engine starts a replica, by its own checks in their order, and in its own words where it does not."""

from __future__ import annotations

from dataclasses import replace

from recommender.memory import refusal
from recommender.memory.kv import KvPool, KvSize
from recommender.memory.load_peak import HELD, held_while_loading
from recommender.memory.start import Start, budget_at, start_of
from recommender.memory.startup import Budget, fits_while_loading
from recommender.memory.weights import load_peak_bytes


def refusal_at(start: Start, budget: Budget, size: KvSize) -> tuple[str | None, int | None]:
    """(why the engine refuses to start, the longest length it would start with), (None, None) where it starts."""
    replica, limits = start.replica, start.limits
    if not start.verdict.ok:
        return start.verdict.reason, None
    longest = replica.model.longest(start.constants.number)
    if limits.max_model_len > longest:
        return refusal.too_long(start.constants, limits.max_model_len, longest), None
    if (why := _no_option(start) or _no_loading(start) or _no_memory(start, budget)) is not None:
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


def _no_option(start: Start) -> str | None:
    """Why the version does not take an option that was given."""
    if start.replica.kv_cache_memory_bytes is None or start.constants.kv_cache_memory_option:
        return None
    return refusal.no_option(start.constants, "--kv-cache-memory-bytes")


def _estimated(start: Start, pool: KvPool, blocks: int) -> int | None:
    """The longest length that starts, as V1 works it out. V0 works none out; there max_num_batched_tokens follows the
    length, so a shorter one is tried until it starts.
    """
    found = pool.longest_request(blocks, start.in_flight_tokens, start.limits.max_model_len)
    if start.constants.generation(start.replica.gpu) != "V0":
        return found or None
    while found:
        again = start_of(replace(start.replica, max_model_len=found))
        budget = budget_at(again)
        shorter = budget.stage.pool.longest_request(budget.blocks, again.in_flight_tokens, found)
        if shorter == found:
            return found
        found = shorter
    return None


def _no_loading(start: Start) -> str | None:
    """Why the weights do not even load; None where they do, or need no more than what stays."""
    replica, constants = start.replica, start.constants
    peak = load_peak_at(start)
    context = constants.context_bytes(replica.gpu, replica.tp)
    if fits_while_loading(peak, replica.gpu, context):
        return None
    held = HELD[held_while_loading(replica.engine, constants.version)]
    return refusal.no_loading(peak, start.memory_bytes - context, held)


def load_peak_at(start: Start) -> int:
    """The most weight bytes a GPU holds while they are quantised at load time; 0 where none are."""
    replica = start.replica
    return load_peak_bytes(
        replica.model,
        replica.weights,
        replica.checkpoint,
        engine=replica.engine,
        engine_version=start.constants.version,
        tp=replica.tp,
        pp=replica.pp,
        ep=replica.ep,
    )


def _no_memory(start: Start, budget: Budget) -> str | None:
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


def _is_empty(start: Start, budget: Budget) -> bool:
    """Whether the pool has no block at all; V1 compares bytes, less the null block where its check knows of that."""
    if start.constants.generation(start.replica.gpu) == "V0":
        return budget.blocks < 1
    return budget.available_bytes <= int(start.constants.null_block_checked) * budget.stage.pool.bytes_per_block
