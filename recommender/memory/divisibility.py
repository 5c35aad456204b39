"""What tensor parallelism and quantised formats must divide: one refusal each, in the engine's own words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from recommender.catalog.models import Model, Quantisation, Tensor
from recommender.memory.exemptions import exempt_layers
from recommender.memory.shards import vocabulary_rows
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
        if tensor.experts and expert_parallel:
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
    rule = _rule(stored)
    if rule is None:
        return None
    for tensor in model.tensors:
        if not tensor.quantised or len(exempt_layers(tensor, stored)) == len(tensor.layers):
            continue
        whole = bool(tensor.experts and expert_parallel)
        reason = rule(tensor, stored, 1 if whole else tp, version)
        if reason is not None:
            return reason
    return None


_Rule = Callable[[Tensor, Quantisation, int, Version], str | None]


def _rule(stored: Quantisation) -> _Rule | None:
    method, _, strategy = stored.method.partition(":")
    if method == "fp8_block" or strategy == "block":
        return _blocks
    if method in _PACKED or (method == "compressed-tensors" and (stored.dtype == "int4" or strategy == "packed")):
        return _packed
    return _sixteens if stored.dtype == "nvfp4" else None


def _local(tensor: Tensor, tp: int) -> tuple[int, int]:
    """(outputs, inputs) of a tensor on one GPU."""
    if tensor.split == "kv_heads":
        return tensor.outputs // tensor.heads * max(1, tensor.heads // tp), tensor.inputs
    return (
        tensor.outputs // tp if tensor.split == "outputs" else tensor.outputs,
        tensor.inputs // tp if tensor.split == "inputs" else tensor.inputs,
    )


def _blocks(tensor: Tensor, stored: Quantisation, tp: int, version: Version) -> str | None:
    """FP8 blocks: the parts of fused and split matrices are whole blocks on each GPU."""
    size = stored.group_size or 128
    outputs, inputs = _local(tensor, tp)
    if tensor.experts:
        return _expert_blocks(outputs if tensor.split == "outputs" else inputs, tensor, size, version)
    fused = tensor.split in ("outputs", "kv_heads")
    if fused and outputs % size:
        return (
            f"Weight output_partition_size = {outputs} is not divisible by weight quantization block_n = {size} "
            f"({tensor.name.removesuffix('.weight')})."
        )
    if tp > 1 and tensor.split == "inputs" and inputs % size:
        return (
            f"Weight input_size_per_partition = {inputs} is not divisible by weight quantization block_k = {size} "
            f"({tensor.name.removesuffix('.weight')})."
        )
    return None


def _expert_blocks(width: int, tensor: Tensor, size: int, version: Version) -> str | None:
    """`width` is the expert's intermediate size on one GPU."""
    if width % size == 0:
        return None
    hidden = tensor.inputs if tensor.split == "outputs" else tensor.outputs
    if version >= _REFINES_BLOCKS and math.gcd(size, width, hidden) >= _SMALLEST_REFINED:
        return None
    return (
        f"The output_size of gate's and up's weight = {width} is not divisible by weight quantization block_n = "
        f"{size}: use expert parallelism or a smaller tensor parallel size."
    )


def _packed(tensor: Tensor, stored: Quantisation, tp: int, version: Version) -> str | None:
    """4- and 8-bit packed weights: whole scale groups on each GPU, and Marlin's tiles before the engine padded them."""
    outputs, inputs = _local(tensor, tp)
    name = tensor.name.removesuffix(".weight")
    group = stored.group_size if stored.group_size and stored.group_size > 0 else 0
    if version < _PADS_TILES and inputs % _MARLIN_INPUTS:
        return (
            f"Weight input_size_per_partition = {inputs} is not divisible by min_thread_k = {_MARLIN_INPUTS} ({name}). "
            f"Consider reducing tensor_parallel_size or running with --quantization {_plain_kernel(stored)}."
        )
    if version < _PADS_TILES and outputs % _MARLIN_OUTPUTS:
        return (
            f"Weight output_size_per_partition = {outputs} is not divisible by min_thread_n = {_MARLIN_OUTPUTS} "
            f"({name}). Consider reducing tensor_parallel_size or running with --quantization {_plain_kernel(stored)}."
        )
    if not group or inputs % group == 0:
        return None
    if tensor.experts and stored.method in _PACKED and math.gcd(group, inputs) >= _SMALLEST_REFINED:
        return None  # falls back to weight-only kernels with finer groups
    if tensor.experts:
        return (
            f"the MoE intermediate size per tensor-parallel partition ({inputs}) must be divisible by group_size "
            f"({group}). Scale groups would otherwise cross TP shard boundaries; use a compatible TP size or enable "
            "expert parallelism."
        )
    return f"Weight input_size_per_partition = {inputs} is not divisible by group_size = {group} ({name})."


def _plain_kernel(stored: Quantisation) -> str:
    return "awq" if stored.method.startswith("awq") else "gptq"


def _sixteens(tensor: Tensor, stored: Quantisation, tp: int, version: Version) -> str | None:
    """NVFP4: whole groups of inputs on each GPU."""
    _, inputs = _local(tensor, tp)
    if inputs % (stored.group_size or 16):
        name = tensor.name.removesuffix(".weight")
        return f"Unsupported model when input features size is not a multiple of 16: {inputs} on each GPU ({name})"
    return None
