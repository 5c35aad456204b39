"""What tensor parallelism and quantised formats must divide: one refusal each, in the engine's own words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from recommender.catalog.models import Model, Quantisation, Tensor
from recommender.memory.exemptions import exempt_layers, schemes_of
from recommender.memory.shards import is_whole, vocabulary_rows
from recommender.memory.support import Version

_PADS_TILES = (0, 24)  # vLLM 0.24 zero-pads Marlin shapes instead of refusing them
_REFINES_BLOCKS = (0, 29)  # vLLM 0.29 refines the FP8 block grid of experts
_MARLIN_INPUTS = 128
_MARLIN_OUTPUTS = 64
_SMALLEST_REFINED = 32
_PACKED = ("awq", "gptq")


def refusal_of_tp(model: Model, tp: int, expert_parallel: bool = False) -> str | None:
    """Why the engine refuses this tensor-parallel size, or None."""
    if tp < 1:
        return f"tensor parallel size {tp} is not a positive number"
    if model.heads % tp:
        return f"Total number of attention heads ({model.heads}) must be divisible by tensor parallel size ({tp})."
    for group in model.attention:
        if group.kind in ("full", "sliding", "chunked") and group.kv_heads % tp and tp % group.kv_heads:
            return f"{group.kv_heads} KV heads cannot be split over {tp} GPUs: neither divides the other"
    for name, size in model.tp_divides:
        if size % tp:
            return f"{name} ({size}) is not divisible by {tp}"
    return next(_undivided(model, tp, expert_parallel), None)


def _undivided(model: Model, tp: int, expert_parallel: bool) -> Iterator[str]:
    for tensor in model.tensors:
        if (tensor.experts and expert_parallel) or is_whole(tensor, tp):
            continue
        if tensor.split == "vocabulary" and vocabulary_rows(tensor.outputs) % tp:
            yield f"the padded vocabulary ({vocabulary_rows(tensor.outputs)}) is not divisible by {tp}"
        size = {"outputs": tensor.outputs, "inputs": tensor.inputs}.get(tensor.split, tp)
        if size % tp:
            yield f"{size} is not divisible by {tp} ({tensor.name.removesuffix('.weight')})"


def refusal_of_shapes(
    model: Model, stored: Quantisation, tp: int, version: Version, expert_parallel: bool = False
) -> str | None:
    """Why the engine refuses the shapes a quantised checkpoint has on each GPU, or None."""
    kept = (tensor for tensor in model.tensors if tensor.quantised and not tensor.name.endswith(".bias"))
    tensors = [tensor for tensor in kept if len(exempt_layers(tensor, stored)) < len(tensor.layers)]
    for tensor, scheme in [(each, scheme) for each in tensors for scheme in schemes_of(each, each.layers, stored)]:
        form = scheme.of_experts if tensor.experts else scheme
        rule = _rule(form)
        if rule is None:
            continue
        size = 1 if tensor.experts and expert_parallel else tp
        module = [other for other in tensors if other.module == tensor.module]
        fused = sum(_local(other, size)[0] for other in module)
        reason = rule(Part(tensor, *_local(tensor, size), fused, size, tensor is module[-1]), form, version)
        if reason is not None:
            return reason
    return None


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor as one GPU holds it; `fused` are the outputs of the whole matrix it is fused into there.

    `last`: nothing is fused behind it (the engine lets that one end in part of a block where nothing is split).
    """

    tensor: Tensor
    outputs: int
    inputs: int
    fused: int
    tp: int
    last: bool

    @property
    def name(self) -> str:
        """The tensor's name without its suffix."""
        return self.tensor.name.removesuffix(".weight")


_Rule = Callable[[Part, Quantisation, Version], str | None]


def _rule(stored: Quantisation) -> _Rule | None:
    method, _, strategy = stored.method.partition(":")
    if method == "bitsandbytes":
        return _unsplit
    if method == "fp8_block" or strategy == "block":
        return _blocks
    if method in _PACKED or (method == "compressed-tensors" and (stored.dtype == "int4" or strategy == "packed")):
        return _packed
    return _sixteens if stored.dtype == "nvfp4" else None


def _unsplit(part: Part, stored: Quantisation, version: Version) -> str | None:
    """The scales of a bitsandbytes checkpoint cannot be split over GPUs (vLLM bitsandbytes_loader.py)."""
    if part.tp == 1:
        return None
    return (
        "Prequant BitsAndBytes models with tensor parallelism is not supported. Please try with pipeline parallelism."
    )


def _local(tensor: Tensor, tp: int) -> tuple[int, int]:
    """(outputs, inputs) of a tensor on one GPU."""
    if tensor.split == "kv_heads":
        return tensor.outputs // tensor.heads * max(1, tensor.heads // tp), tensor.inputs
    return (
        tensor.outputs // tp if tensor.split == "outputs" else tensor.outputs,
        tensor.inputs // tp if tensor.split == "inputs" else tensor.inputs,
    )


def _blocks(part: Part, stored: Quantisation, version: Version) -> str | None:
    """FP8 blocks: the parts of fused and split matrices are whole blocks on each GPU."""
    size = stored.group_size or 128
    if part.tensor.experts:
        return _expert_blocks(part, size, version)
    checked = part.tensor.split in ("outputs", "kv_heads") and not (part.tp == 1 and part.last)
    if checked and part.outputs % size:
        return (
            f"Weight output_partition_size = {part.outputs} is not divisible by weight quantization "
            f"block_n = {size} ({part.name})."
        )
    if part.tp > 1 and part.tensor.split == "inputs" and part.inputs % size:
        return (
            f"Weight input_size_per_partition = {part.inputs} is not divisible by weight quantization "
            f"block_k = {size} ({part.name})."
        )
    return None


def _expert_blocks(part: Part, size: int, version: Version) -> str | None:
    """Experts of part of a block: refused, or refined to a finer grid by newer engines."""
    first = part.tensor.split == "outputs"
    width, hidden = (part.outputs, part.inputs) if first else (part.inputs, part.outputs)
    if width % size == 0:
        return None
    if version >= _REFINES_BLOCKS and math.gcd(size, width, hidden) >= _SMALLEST_REFINED:
        return None
    return (
        f"The output_size of gate's and up's weight = {width} is not divisible by weight quantization block_n = "
        f"{size}: use expert parallelism or a smaller tensor parallel size."
    )


def _packed(part: Part, stored: Quantisation, version: Version) -> str | None:
    """4- and 8-bit packed weights: whole scale groups on each GPU, and Marlin's tiles before the engine padded them."""
    if version < _PADS_TILES and (reason := _tiles(part, stored)) is not None:
        return reason
    group = stored.group_size if stored.group_size and stored.group_size > 0 else 0
    if not group or part.inputs % group == 0:
        return None
    if not part.tensor.experts:
        return (
            f"Weight input_size_per_partition = {part.inputs} is not divisible by group_size = {group} ({part.name})."
        )
    if stored.method in _PACKED and math.gcd(group, part.inputs) >= _SMALLEST_REFINED:
        return None  # falls back to weight-only kernels with finer groups
    return (
        f"the MoE intermediate size per tensor-parallel partition ({part.inputs}) must be divisible by group_size "
        f"({group}). Scale groups would otherwise cross TP shard boundaries; use a compatible TP size or enable "
        "expert parallelism."
    )


def _tiles(part: Part, stored: Quantisation) -> str | None:
    """Marlin's tiles, in the words of the engines that did not pad."""
    advice = (
        "Consider reducing tensor_parallel_size or running with --quantization "
        f"{'awq' if stored.method.startswith('awq') else 'gptq'}."
    )
    if part.inputs % _MARLIN_INPUTS:
        return (
            f"Weight input_size_per_partition = {part.inputs} is not divisible by min_thread_k = {_MARLIN_INPUTS} "
            f"({part.name}). {advice}"
        )
    if part.fused % _MARLIN_OUTPUTS:
        return (
            f"Weight output_size_per_partition = {part.fused} is not divisible by min_thread_n = {_MARLIN_OUTPUTS} "
            f"({part.name}). {advice}"
        )
    return None


def _sixteens(part: Part, stored: Quantisation, version: Version) -> str | None:
    """NVFP4: whole groups of inputs on each GPU."""
    if part.inputs % (stored.group_size or 16):
        return (
            f"Unsupported model when input features size is not a multiple of 16: {part.inputs} on each GPU "
            f"({part.name})"
        )
    return None
