"""What a fit says beside its figures: what is not certain about it, and what the engine does unexpectedly."""

from __future__ import annotations

from collections.abc import Iterator

from recommender.memory.calibration import Correction
from recommender.memory.engine import EngineConstants
from recommender.memory.fit import Replica
from recommender.memory.kv import KvPool
from recommender.memory.load_peak import HELD
from recommender.memory.model_classes import doubt_of_class
from recommender.memory.startup import Limits
from recommender.units import GIB


def warnings_of(
    replica: Replica, constants: EngineConstants, limits: Limits, correction: Correction | None
) -> tuple[str, ...]:
    """The warnings of a replica, whatever becomes of it."""
    return tuple(_of_replica(replica, constants, limits, correction))


def idle_block(pool: KvPool, blocks: int, max_model_len: int, in_flight_tokens: int) -> str:
    """A request of full length needs the null block too: the engine starts, and never gets to run it."""
    longest = pool.longest_request(blocks - 1, in_flight_tokens, max_model_len)
    return (
        f"one request of {max_model_len:,} tokens needs every block of the pool, and one is never handed out: the "
        f"engine starts, and such a request waits for ever; {longest:,} tokens are the most that run"
    )


def while_loading(peak_bytes: int, held: str) -> str:
    """What quantising at load time takes for a moment; `held` as load_peak.HELD has it."""
    return (
        f"16-bit weights are quantised as they load, with {HELD[held]} on the GPU: "
        f"up to {peak_bytes / GIB:.1f} GiB of weights for a moment"
    )


def _of_replica(
    replica: Replica, constants: EngineConstants, limits: Limits, correction: Correction | None
) -> Iterator[str]:
    gpu, model, checkpoint = replica.gpu, replica.model, replica.checkpoint
    if not gpu.memory_verified:
        yield f"memory of {gpu.name} as seen by the engine is {gpu.memory_confidence}"
    if (doubt := doubt_of_class(model.architecture)) is not None:
        yield doubt
    if replica.kv_dtype == "auto" and model.kv_declared == "fp8":
        declared = checkpoint.id if checkpoint is not None and checkpoint.id else model.id
        yield f"the KV cache is FP8: {declared} declares it, and auto follows"
    if replica.max_num_seqs is not None and replica.max_num_seqs > limits.max_num_seqs:
        yield f"max_num_seqs {replica.max_num_seqs} is cut to max_num_batched_tokens {limits.max_num_batched_tokens}"
    if replica.calibration is not None:
        yield _calibration(replica, constants, correction)


def _calibration(replica: Replica, constants: EngineConstants, correction: Correction | None) -> str:
    if correction is not None:
        return f"calibration applied: measured on {correction.measured_on or 'a set-up its file does not name'}"
    stages = f", pp {replica.pp}" if replica.pp > 1 else ""
    asked = f"{constants.engine} {constants.version}, {replica.gpu.architecture}, tp {replica.tp}{stages}"
    return f"calibration not used: it has nothing for {asked}"
