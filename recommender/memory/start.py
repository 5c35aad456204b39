"""One start-up of a replica: what is asked, and what the engine makes of it."""

from __future__ import annotations

from dataclasses import dataclass

from recommender.memory.calibration import Correction
from recommender.memory.compatibility import Verdict, compatible
from recommender.memory.engine import EngineConstants, engine_constants
from recommender.memory.fit import Replica
from recommender.memory.startup import Budget, Limits, Physics, budget_of, limits_of, stages_of, usable_bytes
from recommender.memory.weights import stored_as


@dataclass(frozen=True, slots=True)
class Start:
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
        """What the engine may use of each card."""
        return usable_bytes(self.memory_bytes, self.utilization)

    @property
    def in_flight_tokens(self) -> int:
        """Tokens of all batches that run at once."""
        return self.constants.in_flight_tokens(self.limits.max_num_batched_tokens, self.replica.pp)


def start_of(replica: Replica) -> Start:
    """The start-up of a replica, its defaults filled in."""
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
    return Start(
        replica=replica,
        constants=constants,
        quantised=quantisation is not None,
        limits=limits_of(constants, replica.gpu, length, replica.max_num_seqs, replica.max_num_batched_tokens),
        memory_bytes=replica.gpu.memory_bytes or 0,
        utilization=replica.gpu_memory_utilization or constants.gpu_memory_utilization,
        verdict=verdict,
    )


def budget_at(start: Start) -> Budget:
    """The budget of the GPU that binds. Raises InputError where the replica cannot be split so, NotModelledError."""
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
        correction=correction_of(start),
    )
    return budget_of(
        stages_of(physics, start.constants),
        start.limits,
        start.usable_bytes,
        extra_reserve_bytes=start.verdict.reserve_bytes,
        kv_cache_memory_bytes=replica.kv_cache_memory_bytes,
    )


def correction_of(start: Start) -> Correction | None:
    """What the replica's calibration says of its like; None where it has none, or nothing for it."""
    replica = start.replica
    if replica.calibration is None:
        return None
    return replica.calibration.correction_for(start.constants, replica.gpu, replica.tp, replica.pp)
