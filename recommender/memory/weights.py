"""Bytes of weights that each GPU holds, and the ways a model's weights can be had in fewer bits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from recommender.catalog.models import Checkpoint, Model, Quantisation
from recommender.errors import InputError, NotModelledError
from recommender.memory.load_peak import HELD, held_while_loading
from recommender.memory.published import published
from recommender.memory.shards import Held, Split, held, stage_layers

PLAIN = ("bf16", "fp16")
BITS = {"bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "int4": 4, "nvfp4": 4, "mxfp4": 4}
SIZE_KINDS = ("index", "repository", "log", "stated", "computed", "unknown")  # most trusted first

# Engines that make FP8 of 16-bit weights as they load them.
ONLINE = {"vllm": "vLLM", "sglang": "SGLang"}
# What `--quantization fp8` makes of 16-bit weights: per-tensor FP8 linear layers (vLLM 0.33.0 quantization/online/).
ONLINE_FP8 = Quantisation("fp8", "fp8_online", 8, None, quantises_router=True)
# What llm-compressor's W4A16 and modelopt's NVFP4 recipes write by default: routers, head and embeddings in 16 bit.
TO_MAKE = {
    "fp8": Quantisation("fp8", "compressed-tensors:channel", 8, None),
    "int8": Quantisation("int8", "compressed-tensors:channel", 8, None),
    "int4": Quantisation("int4", "compressed-tensors:packed", 4, 128),
    "nvfp4": Quantisation("nvfp4", "modelopt", 4, 16, static_inputs=True),
}


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """What one GPU of a pipeline stage holds once the model is loaded, before any repacking."""

    stage: int
    groups: tuple[tuple[str, int], ...]  # parameter bytes by group, sorted by name
    buffer_bytes: int  # rotary tables and attention scales: not parameters, but counted by the engine's load line
    source: str = "computed from the config"

    @property
    def parameter_bytes(self) -> int:
        """Bytes of parameters."""
        return sum(size for _, size in self.groups)

    @property
    def total_bytes(self) -> int:
        """What the engine logs as the memory that loading took."""
        return self.parameter_bytes + self.buffer_bytes


@dataclass(frozen=True, slots=True)
class WeightChoice:
    """One way to run a model. `how`: native | checkpoint (published) | online (quantised at load) | to_make.

    `rung` is 0 for native weights, 1 for 8 bit, 2 for 4 bit.
    """

    weights: str
    rung: int
    how: str
    checkpoint: Checkpoint | None
    quantisation: Quantisation | None
    source: str
    launch_arguments: tuple[str, ...] = ()


def stage_bytes(
    model: Model, quantisation: Quantisation | None, *, tp: int = 1, pp: int = 1, ep: int = 1, stage: int = 0
) -> WeightBytes:
    """Weights of rank 0 of one pipeline stage, computed. `ep` is the size of the expert-parallel group."""
    return _weight_bytes(held(model, quantisation, Split(tp, pp, ep), stage), stage)


def rank_bytes(
    model: Model, quantisation: Quantisation | None, *, tp: int = 1, pp: int = 1, ep: int = 1
) -> WeightBytes:
    """Weights of the fullest GPU of a replica, computed: rank 0 of the stage that holds most."""
    return _fullest(stage_bytes(model, quantisation, tp=tp, pp=pp, ep=ep, stage=stage) for stage in range(pp))


def checkpoint_bytes(
    model: Model, weights: str, checkpoint: Checkpoint | None, *, tp: int = 1, pp: int = 1, ep: int = 1
) -> WeightBytes:
    """Weights of the fullest GPU of a replica that runs `weights`, as its checkpoint's files have them."""
    return _fullest(checkpoint_stages(model, weights, checkpoint, tp=tp, pp=pp, ep=ep))


def checkpoint_stages(
    model: Model, weights: str, checkpoint: Checkpoint | None, *, tp: int = 1, pp: int = 1, ep: int = 1
) -> tuple[WeightBytes, ...]:
    """Weights of one GPU of each pipeline stage, with the published bytes of its checkpoint where they are known: by
    parameter group from file headers, else the total, what it has beyond the computed one in its quantised tensors.
    """
    stored = stored_as(model, weights, checkpoint)
    known = published(model, stored, checkpoint)
    stages = (held(model, stored, Split(tp, pp, ep), stage) for stage in range(pp))
    return tuple(
        WeightBytes(stage, known.held(part), part.buffer_bytes, known.source) for stage, part in enumerate(stages)
    )


def plain_bytes(model: Model, weights: str) -> int:
    """Parameters times 2, 1 or 1/2 byte: the rule of thumb, without scales or parts left in 16 bit."""
    if weights not in BITS:
        raise InputError(f"{weights!r} is not a weight dtype: {', '.join(BITS)}")
    return model.parameters * BITS[weights] // 8


def stored_as(model: Model, weights: str, checkpoint: Checkpoint | None) -> Quantisation | None:
    """How the linear weights are stored: as the checkpoint says, as the model's own, else by the usual recipe."""
    published = checkpoint.quantisation if checkpoint is not None and checkpoint.weights == weights else None
    own = weights == model.native and model.quantisation is not None and _is_own(model, checkpoint)
    if published is not None and not own:
        return published
    if weights == model.native:
        return model.quantisation
    if weights in PLAIN:
        return None
    if weights == "fp8" and checkpoint is None and model.native in PLAIN:
        return ONLINE_FP8
    if weights not in TO_MAKE:
        raise NotModelledError(f"{weights} weights of {model.id} without a published checkpoint are not modelled")
    return TO_MAKE[weights]


def _is_own(model: Model, checkpoint: Checkpoint | None) -> bool:
    """Whether the model's config says more of a checkpoint than the table of checkpoints: it is the model's own, or
    of a kind that only this model's config describes.
    """
    stored = model.quantisation
    return checkpoint is None or checkpoint.id == model.id or (stored is not None and stored.experts is not None)


def weight_choices(
    model: Model, checkpoints: Iterable[Checkpoint], engine_version: str, engine: str = "vllm"
) -> tuple[WeightChoice, ...]:
    """Native weights first, then fewer bits: published checkpoints, else FP8 at load time, else one to be made."""
    published = _best_of_each(model, checkpoints)
    choices = [_native(model, published)]
    if BITS[model.native] == 4:
        return tuple(choices)
    fewer = (found for found in published if BITS[found.weights] < BITS[model.native])
    choices += [_published(model, checkpoint) for checkpoint in fewer]
    words = {choice.weights for choice in choices}
    if model.native in PLAIN and "fp8" not in words and engine in ONLINE:
        choices.append(_online(engine_version, engine))
    choices += [_to_make(word) for word in ("int4", "nvfp4") if word not in words]
    return tuple(sorted(choices, key=_order))


def served_with(model: Model, choice: WeightChoice) -> Model:
    """The model as these weights serve it: the KV dtype that `auto` means is what their repository declares."""
    declared = choice.checkpoint.kv_declared if choice.checkpoint is not None else None
    if declared is None and choice.how == "native":
        declared = model.kv_declared
    return model if declared == model.kv_declared else replace(model, kv_declared=declared)


def load_peak_bytes(
    model: Model,
    weights: str,
    checkpoint: Checkpoint | None,
    *,
    engine: str,
    engine_version: str,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
) -> int:
    """The most weight bytes one GPU of a replica holds while they are quantised at load time; 0 where none are.

    Raises InputError where the model cannot be split so.
    """
    if engine not in ONLINE or stored_as(model, weights, checkpoint) is not ONLINE_FP8:
        return 0
    held_then = held_while_loading(engine, engine_version)
    peaks = []
    for stage, layers in enumerate(stage_layers(model.layers, pp)):
        plain = stage_bytes(model, None, tp=tp, pp=pp, ep=ep, stage=stage).total_bytes
        shrunk = stage_bytes(model, ONLINE_FP8, tp=tp, pp=pp, ep=ep, stage=stage).total_bytes
        layer = plain // max(1, len(layers))
        peaks.append({"all": plain, "both": plain + (plain - shrunk), "layer": shrunk + layer}[held_then])
    return max(peaks)


def _weight_bytes(part: Held, stage: int) -> WeightBytes:
    groups = dict(part.plain)
    for group, size in part.stored:
        groups[group] = groups.get(group, 0) + size
    return WeightBytes(stage, tuple(sorted(groups.items())), part.buffer_bytes)


def _fullest(stages: Iterable[WeightBytes]) -> WeightBytes:
    return max(stages, key=lambda part: (part.total_bytes, -part.stage))


def _best_of_each(model: Model, checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
    """One published checkpoint for each way of storing: the model's own, then the most trusted size, then the name."""
    best: dict[tuple[str, str], Checkpoint] = {}
    for checkpoint in checkpoints:
        if checkpoint.id is None or checkpoint.model.casefold() != model.id.casefold():
            continue
        method = checkpoint.quantisation.method if checkpoint.quantisation else ""
        key = (checkpoint.weights, method)
        if key not in best or _rank(model, checkpoint) < _rank(model, best[key]):
            best[key] = checkpoint
    return [best[key] for key in sorted(best)]


def _rank(model: Model, checkpoint: Checkpoint) -> tuple[bool, int, str]:
    return checkpoint.id != model.id, _trust(checkpoint), checkpoint.id or ""


def _trust(checkpoint: Checkpoint) -> int:
    return SIZE_KINDS.index(checkpoint.size_kind) if checkpoint.size_kind in SIZE_KINDS else len(SIZE_KINDS)


def _native(model: Model, published: Iterable[Checkpoint]) -> WeightChoice:
    own = sorted((found for found in published if found.weights == model.native), key=partial(_rank, model))
    checkpoint = own[0] if own else None
    source = checkpoint.source if checkpoint else model.source
    return WeightChoice(model.native, 0, "native", checkpoint, model.quantisation, source)


def _published(model: Model, checkpoint: Checkpoint) -> WeightChoice:
    stored = stored_as(model, checkpoint.weights, checkpoint)
    return WeightChoice(
        checkpoint.weights, _rung(checkpoint.weights), "checkpoint", checkpoint, stored, checkpoint.source
    )


def _online(engine_version: str, engine: str) -> WeightChoice:
    peak = HELD[held_while_loading(engine, engine_version)]
    source = f"{ONLINE[engine]} --quantization fp8: 16-bit weights are quantised at load time, {peak} on the GPU"
    return WeightChoice("fp8", 1, "online", None, ONLINE_FP8, source, ("--quantization", "fp8"))


def _to_make(weights: str) -> WeightChoice:
    recipe = {"int4": "W4A16, groups of 128 (llm-compressor)", "nvfp4": "NVFP4, groups of 16 (modelopt)"}[weights]
    return WeightChoice(weights, 2, "to_make", None, TO_MAKE[weights], f"computed; no checkpoint known: {recipe}")


def _rung(weights: str) -> int:
    return 1 if BITS[weights] == 8 else 2


def _order(choice: WeightChoice) -> tuple[int, str, str]:
    return choice.rung, choice.weights, (choice.checkpoint.id or "") if choice.checkpoint else ""
