"""A start-up of the engine, step by step: limits, budget, reserve and what is left for the KV cache of each stage."""

from __future__ import annotations

import math
from dataclasses import dataclass

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Checkpoint, Model
from recommender.memory.calibration import Correction, calibrated
from recommender.memory.engine import EngineConstants
from recommender.memory.kv import KvPool, kv_pool
from recommender.memory.loaded import after_load_bytes
from recommender.memory.reserve import Reserve, ReserveTerms, reserve_terms
from recommender.memory.shards import Split, stage_layers
from recommender.memory.weights import checkpoint_stages, stored_as


@dataclass(frozen=True, slots=True)
class Limits:
    """What the engine works with once its defaults are filled in and have cut one another."""

    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int


def limits_of(
    constants: EngineConstants, gpu: Gpu, max_model_len: int, seqs: int | None, batched_tokens: int | None
) -> Limits:
    """max_num_seqs is cut to max_num_batched_tokens, the default of that to max_num_seqs x max_model_len."""
    default_seqs, default_tokens = constants.scheduler_default(gpu, max_model_len)
    tokens = batched_tokens or default_tokens
    held = min(seqs or default_seqs, tokens)
    return Limits(max_model_len, held, batched_tokens or min(tokens, held * max_model_len))


def usable_bytes(memory_bytes: int, utilization: float) -> int:
    """What the engine may use of a card, with its own rounding (vLLM 0.33 v1/worker/utils.py)."""
    return math.ceil(memory_bytes * utilization)


def fits_while_loading(peak_bytes: int, gpu: Gpu, context_bytes: int) -> bool:
    """Whether a card has room for what quantising at load time holds at once, beside its context."""
    return peak_bytes <= (gpu.memory_bytes or 0) - context_bytes


@dataclass(frozen=True, slots=True)
class Physics:
    """A replica up to its limits: what does not depend on max_num_seqs, max_num_batched_tokens and max_model_len."""

    model: Model
    gpu: Gpu
    weights: str
    checkpoint: Checkpoint | None
    kv_dtype: str
    tp: int = 1
    pp: int = 1
    ep: int = 1
    enforce_eager: bool = False
    correction: Correction | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """One GPU of one pipeline stage, before the limits are known."""

    weights_bytes: int
    terms: ReserveTerms
    pool: KvPool


def stages_of(physics: Physics, constants: EngineConstants) -> tuple[Stage, ...]:
    """The stages of a replica. Raises InputError where it cannot be split so, NotModelledError where it is unknown."""
    parts = stage_weights(physics, constants), stage_terms(physics, constants), stage_pools(physics, constants)
    return tuple(Stage(*part) for part in zip(*parts, strict=True))


def stage_weights(physics: Physics, constants: EngineConstants) -> tuple[int, ...]:
    """Bytes of weights on one GPU of each stage, as the engine's load line counts them."""
    at = {"tp": physics.tp, "pp": physics.pp, "ep": physics.ep}
    stages = checkpoint_stages(physics.model, physics.weights, physics.checkpoint, **at)
    stored = stored_as(physics.model, physics.weights, physics.checkpoint)
    return tuple(
        stage.total_bytes + after_load_bytes(physics.model, stored, constants, physics.gpu, Split(**at), layers)
        for stage, layers in zip(stages, stage_layers(physics.model.layers, physics.pp), strict=True)
    )


def stage_terms(physics: Physics, constants: EngineConstants) -> tuple[ReserveTerms, ...]:
    """The reserve of one GPU of each stage."""
    quantised = stored_as(physics.model, physics.weights, physics.checkpoint) is not None
    return tuple(
        calibrated(
            reserve_terms(
                constants,
                physics.model,
                physics.gpu,
                tp=physics.tp,
                pp=physics.pp,
                ep=physics.ep,
                weights=physics.weights,
                quantised=quantised,
                enforce_eager=physics.enforce_eager,
                layers=len(layers),
                samples=number == physics.pp - 1,
            ),
            physics.correction,
        )
        for number, layers in enumerate(stage_layers(physics.model.layers, physics.pp))
    )


def stage_pools(physics: Physics, constants: EngineConstants) -> tuple[KvPool, ...]:
    """The KV pool of one GPU of each stage."""
    return tuple(
        kv_pool(
            physics.model,
            constants,
            physics.gpu,
            tp=physics.tp,
            kv_dtype=physics.kv_dtype,
            weights=physics.weights,
            stage=layers if physics.pp > 1 else None,
        )
        for layers in stage_layers(physics.model.layers, physics.pp)
    )


@dataclass(frozen=True, slots=True)
class Budget:
    """How one GPU's usable memory is spent. `stages` are those of the replica, `number` says which one this is of."""

    usable_bytes: int
    stages: tuple[Stage, ...]
    number: int
    reserve: Reserve
    extra_reserve_bytes: int
    available_bytes: int  # for the KV cache; negative where weights and reserve exceed the budget

    @property
    def stage(self) -> Stage:
        """The stage that binds."""
        return self.stages[self.number]

    @property
    def reserve_bytes(self) -> int:
        """Everything that is neither weights nor KV cache."""
        return self.reserve.total_bytes + self.extra_reserve_bytes

    @property
    def blocks(self) -> int:
        """KV blocks, the null block among them."""
        return self.stage.pool.blocks(self.available_bytes)


def budget_of(
    stages: tuple[Stage, ...],
    limits: Limits,
    usable: int,
    *,
    extra_reserve_bytes: int,
    kv_cache_memory_bytes: int | None,
) -> Budget:
    """The budget of the GPU that binds: the stage with the fewest blocks, of equal ones the last."""
    budgets = []
    for number, stage in enumerate(stages):
        reserve = stage.terms.at(limits.max_num_seqs, limits.max_num_batched_tokens)
        left = usable - stage.weights_bytes - reserve.total_bytes - extra_reserve_bytes
        available = left if kv_cache_memory_bytes is None else kv_cache_memory_bytes
        budgets.append(Budget(usable, stages, number, reserve, extra_reserve_bytes, available))
    return min(reversed(budgets), key=lambda budget: (budget.blocks, budget.available_bytes))
