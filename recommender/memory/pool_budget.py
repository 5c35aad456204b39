"""How SGLang and TensorRT-LLM divide one GPU's memory: by a share of what was free before loading, or is left after."""

from __future__ import annotations

from dataclasses import dataclass

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Checkpoint, Model
from recommender.errors import Fault, NotModelledError
from recommender.memory.pool_engine import STATIC, PoolEngine, is_latent
from recommender.memory.shards import Split, shard
from recommender.memory.uncertainty import weights_margin_bytes
from recommender.memory.weights import checkpoint_bytes, load_peak_bytes

_LATENT_UP = "self_attn.kv_b_proj"
SWIZZLED_PERMILLE = 60
"""What kernels may make of MXFP4 experts after loading: as much as any of vLLM's does with gpt-oss."""


@dataclass(frozen=True, slots=True)
class PoolBudget:
    """Bytes of one GPU. `kept_free_bytes` is what the share leaves: SGLang's activations and graphs run in it."""

    memory_bytes: int
    weights_bytes: int
    activation_bytes: int
    outside_bytes: int
    kept_free_bytes: int

    @property
    def reserve_bytes(self) -> int:
        """What is neither weights, cache, nor left free."""
        return self.activation_bytes + self.outside_bytes

    @property
    def available_bytes(self) -> int:
        """For the KV cache; negative where the weights exceed the share."""
        return self.memory_bytes - self.kept_free_bytes - self.weights_bytes - self.reserve_bytes


def budget_of(
    constants: PoolEngine, model: Model, gpu: Gpu, *, tp: int, weights_bytes: int, share: float, tokens: int
) -> PoolBudget:
    """The budget of one GPU of `tp`, started with this share and so many tokens a step."""
    memory = gpu.memory_bytes or 0
    free = constants.free_bytes(gpu, tp)
    if constants.rule == STATIC:
        return PoolBudget(memory, weights_bytes, 0, memory - free, free - int(free * share))
    activation, outside = constants.activation_bytes(model, tp, tokens), constants.outside_bytes(tp)
    left = memory - weights_bytes - activation - outside
    return PoolBudget(memory, weights_bytes, activation, outside, left - int(left * share))


def weights_of(model: Model, weights: str, checkpoint: Checkpoint | None, tp: int) -> int:
    """Bytes of weights on one GPU of `tp`, sharded as vLLM does it: the engines' layers are split alike."""
    return checkpoint_bytes(model, weights, checkpoint, tp=tp).total_bytes


def load_peak_of(constants: PoolEngine, model: Model, weights: str, checkpoint: Checkpoint | None, tp: int) -> int:
    """The most weight bytes one GPU of `tp` holds while they are quantised at load time; 0 where none are."""
    engine, version = constants.engine, constants.version
    return load_peak_bytes(model, weights, checkpoint, engine=engine, engine_version=version, tp=tp)


def margins(
    constants: PoolEngine, model: Model, gpu: Gpu, *, tp: int, weights: str, checkpoint: Checkpoint | None, share: float
) -> tuple[int, int]:
    """(how much less, how much more) KV cache there may be than expected, 80 % of the time."""
    held = weights_of(model, weights, checkpoint, tp)
    heavier, lighter = weights_margin_bytes(model, held, weights, checkpoint)
    heavier += _latent_copies(model, tp) if is_latent(model) else 0
    heavier += held * SWIZZLED_PERMILLE // 1000 if weights == "mxfp4" else 0
    reserve = constants.margin_bytes(gpu, tp)
    less, more = reserve + heavier, reserve + lighter
    return (less, more) if constants.rule == STATIC else (int(less * share), int(more * share))


def _latent_copies(model: Model, tp: int) -> int:
    """16-bit copies of the projections up from the latent, which the engines may keep beside them."""
    ups = (tensor for tensor in model.tensors if tensor.module == _LATENT_UP and not tensor.name.endswith(".bias"))
    return sum(2 * outputs * inputs * count for outputs, inputs, count in (shard(each, Split(tp)) for each in ups))


def refuse_layout(constants: PoolEngine, *, pp: int, dp: int, ep: int) -> None:
    """Raises NotModelledError for what is not modelled of these engines: stages, and attention or experts spread."""
    asked = (
        ("pp", pp, "pipeline stages are"),
        ("dp", dp, "data-parallel attention is"),
        ("ep", ep, "spread experts are"),
    )
    faults = [
        Fault(f"{value}: {what} not modelled for {constants.name} yet: tensor parallel only", key=key, expected="1")
        for key, value, what in asked
        if value > 1
    ]
    if faults:
        raise NotModelledError(faults)
