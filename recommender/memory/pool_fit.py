"""Whether one replica of SGLang or TensorRT-LLM starts, and what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from recommender.catalog.models import Model
from recommender.errors import Fault, InputError
from recommender.memory.compatibility import Verdict, compatible
from recommender.memory.divisibility import refusal_of_tp
from recommender.memory.fit import Fit, Replica, Totals
from recommender.memory.kv import KvPool
from recommender.memory.load_peak import HELD, held_while_loading
from recommender.memory.loaded_from import weights_source
from recommender.memory.pool_budget import PoolBudget, budget_of, load_peak_of, margins, refuse_layout, weights_of
from recommender.memory.pool_cache import pool_of, windowed
from recommender.memory.pool_engine import STATIC, PoolEngine, is_latent, pool_engine
from recommender.memory.refusal import no_loading
from recommender.memory.weights import stored_as


@dataclass(frozen=True, slots=True)
class _Start:
    """One start-up, its defaults filled in."""

    replica: Replica
    constants: PoolEngine
    verdict: Verdict
    max_model_len: int
    requests: int
    tokens: int
    share: float
    pool: KvPool
    budget: PoolBudget

    @property
    def pages(self) -> int:
        """Pages of the pool."""
        return self.pool.blocks(self.budget.available_bytes)

    @property
    def held_tokens(self) -> int:
        """Tokens of the pool, as the engine prints them."""
        return self.pages * self.pool.block_size


def fit_pool(replica: Replica) -> Fit:
    """What one replica holds as the engine would start it. Raises InputError, NotModelledError."""
    _check(replica)
    start = _start(replica)
    why = _refusal(start)
    budget, pool = start.budget, start.pool
    less, more = margins(
        start.constants,
        replica.model,
        replica.gpu,
        tp=replica.tp,
        weights=replica.weights,
        checkpoint=replica.checkpoint,
        share=start.share,
    )
    held = max(0, budget.available_bytes)
    expected = max(0, budget.available_bytes - less), max(0, budget.available_bytes + more)
    whole = pool.request_blocks(start.max_model_len, 0)
    return Fit(
        **replica.named,
        max_model_len=start.max_model_len,
        max_num_seqs=start.requests,
        max_num_batched_tokens=start.tokens,
        gpu_memory_utilization=start.share,
        engine_version=start.constants.version,
        memory_model=replica.engine,
        memory_bytes=budget.memory_bytes,
        usable_bytes=budget.memory_bytes - budget.kept_free_bytes,
        weights_bytes=budget.weights_bytes,
        activation_bytes=budget.activation_bytes,
        non_torch_bytes=budget.outside_bytes,
        cuda_graph_bytes=0,
        reserve_bytes=budget.reserve_bytes + start.verdict.reserve_bytes,
        kv_cache_bytes=held,
        kv_bytes_per_token=pool.kv_bytes_per_token,
        bytes_per_block=pool.bytes_per_block,
        block_size=pool.block_size,
        blocks=start.pages,
        request_blocks=whole,
        steady_request_blocks=whole,
        longest_max_model_len=_longest(start) if why is None else None,
        kv_cache_tokens=start.held_tokens,
        max_concurrency=start.pages / whole,
        starts=why is None,
        refusal=why,
        estimated_max_model_len=None if why is None else min(start.held_tokens, replica.model.max_model_len) or None,
        total=Totals(budget.weights_bytes * replica.tp, held * replica.tp, pool.kv_bytes_per_token * replica.tp),
        extrapolated=tuple(_gaps(start)),
        launch_arguments=_arguments(start),
        sources=_sources(start),
        warnings=tuple(_warnings(start, why)),
        kv_cache_bytes_interval=expected,
        borderline=min(pool.blocks(size) for size in expected) < whole <= max(pool.blocks(size) for size in expected),
    )


def _check(replica: Replica) -> None:
    """Options that the engine does not take. Raises InputError."""
    if replica.kv_cache_memory_bytes is not None:
        what = f"{replica.engine} takes a share of the memory instead"
        raise InputError(Fault(what, key="kv_cache_memory_bytes", expected="gpu_memory_utilization"))


def _start(replica: Replica) -> _Start:
    constants = pool_engine(replica.engine, replica.engine_version)
    refuse_layout(constants, pp=replica.pp, dp=replica.dp, ep=replica.ep)
    model, gpu, tp = replica.model, replica.gpu, replica.tp
    _refuse_size(model, tp)
    pool = pool_of(model, constants, gpu, tp=tp, kv_dtype=replica.kv_dtype, weights=replica.weights)
    verdict = compatible(
        model,
        gpu,
        tp=tp,
        weights=replica.weights,
        quantisation=stored_as(model, replica.weights, replica.checkpoint),
        kv_dtype=replica.kv_dtype,
        engine=replica.engine,
        engine_version=constants.version,
    )
    tokens = replica.max_num_batched_tokens or constants.step_tokens(gpu)
    share = replica.gpu_memory_utilization or constants.default_share(
        model, gpu, tp=tp, tokens=tokens, enforce_eager=replica.enforce_eager
    )
    held = weights_of(model, replica.weights, replica.checkpoint, tp)
    budget = budget_of(constants, model, gpu, tp=tp, weights_bytes=held, share=share, tokens=tokens)
    requests = replica.max_num_seqs or constants.default_requests
    most = constants.most_requests or requests
    length = replica.max_model_len or model.max_model_len
    return _Start(replica, constants, verdict, length, min(requests, most), tokens, share, pool, budget)


def _refuse_size(model: Model, tp: int) -> None:
    """Raises InputError where a model cannot be split over so many GPUs, with the nearest sizes that it can."""
    reason = refusal_of_tp(model, tp)
    if reason is None:
        return
    sizes = [size for size in range(1, model.heads + 1) if refusal_of_tp(model, size) is None]
    near = {max(size for size in sizes if size < tp), *sorted(size for size in sizes if size > tp)[:1]}
    expected = " or ".join(str(size) for size in sorted(near))
    raise InputError(Fault(reason.removesuffix("."), key="tp", expected=expected))


def _refusal(start: _Start) -> str | None:
    """Why the engine does not start; None where it does. A pool shorter than a request does not stop these engines."""
    if not start.verdict.ok:
        return start.verdict.reason
    longest = start.replica.model.max_model_len
    if start.max_model_len > longest:
        return (
            f"{start.max_model_len:,} tokens are more than the model's {longest:,}; {start.constants.shown} refuses it"
        )
    if (why := _no_loading(start)) is not None:
        return why
    if start.pages < 1:
        what = "the weights leave nothing of the share for the KV cache"
        return f"{what}: raise {SHARE_FLAGS[start.replica.engine]} above {start.share:g}, or use more GPUs"
    return None


def _no_loading(start: _Start) -> str | None:
    """Why the weights do not even load; None where they do."""
    constants, replica = start.constants, start.replica
    peak = load_peak_of(constants, replica.model, replica.weights, replica.checkpoint, replica.tp)
    free = constants.free_bytes(replica.gpu, replica.tp)
    if peak <= free:
        return None
    return no_loading(peak, free, HELD[held_while_loading(constants.engine, constants.version)])


SHARE_FLAGS = {"sglang": "--mem-fraction-static", "tensorrt-llm": "--kv_cache_free_gpu_memory_fraction"}


def _longest(start: _Start) -> int:
    """The longest length at which max_num_seqs requests fit at once."""
    return min(start.pages // start.requests * start.pool.block_size, start.replica.model.max_model_len)


def _arguments(start: _Start) -> tuple[str, ...]:
    flag = start.constants.sliding_flag
    return (*start.verdict.launch_arguments, *((flag,) if flag and windowed(start.replica.model) else ()))


def _gaps(start: _Start) -> Iterator[str]:
    """Why the constants do not quite cover this replica."""
    constants, replica = start.constants, start.replica
    if constants.extrapolated:
        yield constants.extrapolated
    if not constants.is_like_measured(replica.gpu, replica.tp):
        yield f"no start-up log of {constants.shown} on a {replica.gpu.architecture} card at tp {replica.tp} was read"
    if is_latent(replica.model):
        yield f"no start-up log of {constants.shown} with a latent (MLA) cache was read: copies of projections may add"
    if replica.weights == "mxfp4":
        yield f"what {constants.shown}'s kernels make of MXFP4 experts after loading was not read"


def _warnings(start: _Start, why: str | None) -> Iterator[str]:
    constants, replica = start.constants, start.replica
    yield constants.sources["evidence"]
    if not replica.gpu.memory_verified:
        yield f"memory of {replica.gpu.name} as seen by the engine is {replica.gpu.memory_confidence}"
    yield from start.verdict.notes
    if windowed(replica.model):
        yield f"layers that slide are allocated as full ones by {constants.shown} here, as planned"
    if replica.calibration is not None:
        yield "calibration not used: it has nothing for this engine"
    if replica.max_num_seqs is not None and replica.max_num_seqs > start.requests:
        yield f"max_num_seqs {replica.max_num_seqs} is cut to {start.requests}"
    if why is None and start.held_tokens < start.max_model_len:
        yield (
            f"the pool holds {start.held_tokens:,} tokens, fewer than one request of {start.max_model_len:,}: "
            "the engine starts, and takes no longer ones"
        )


def _sources(start: _Start) -> dict[str, str]:
    constants = start.constants
    given = start.replica.gpu_memory_utilization is not None
    found = {
        "memory": start.replica.gpu.memory_source,
        "weights": weights_source(start.replica.model, start.replica.weights, start.replica.checkpoint),
        "kv_cache": constants.sources["pool"],
        "utilization": "as given" if given else constants.sources["share"],
        "limits": constants.sources["defaults"],
        "non_torch": constants.sources["context" if constants.rule == STATIC else "outside"],
        "interval": constants.sources["uncertainty"],
        "compatibility": start.verdict.source,
    }
    return found if constants.rule == STATIC else {**found, "activation": constants.sources["activation"]}
