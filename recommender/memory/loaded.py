"""What the engine makes of a GPU's weights once they are loaded: copies and padding that no checkpoint holds.

The engine's "Model loading took" line counts them; parameters, as they are built before the files are read, do not have
them.
"""

from __future__ import annotations

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Model, Quantisation, Tensor
from recommender.memory.engine import EngineConstants
from recommender.memory.engine_rows import Mxfp4Kernel
from recommender.memory.exemptions import exempt_layers
from recommender.memory.shards import Split, shard
from recommender.units import ceil_div, round_up

_DTYPE_BYTES = 2
_LATENT_UP = "self_attn.kv_b_proj"
_BLOCK = 32  # values that share a scale
_TILE = 64  # what the intermediate size is padded to before the files are read, counted as parameters
_SHUFFLED = "GptOssForCausalLM"  # the class whose experts these kernels take; others choose theirs by other rules


def after_load_bytes(
    model: Model, stored: Quantisation | None, constants: EngineConstants, gpu: Gpu, split: Split, layers: range
) -> int:
    """Bytes one GPU of a stage with these layers holds beyond its parameters."""
    tables = _longer_tables(model, constants)
    if stored is None:
        return tables
    latent = sum(_copied(tensor, stored, split, layers) for tensor in model.tensors if tensor.module == _LATENT_UP)
    latent = latent if constants.latent_multiple else 0  # without a latent cache the projection is used as it is
    return tables + latent + _expert_bytes(model, stored.of_experts, constants, gpu, split, layers)


def _longer_tables(model: Model, constants: EngineConstants) -> int:
    """Rows of the rotary tables beyond those of the longest request."""
    beyond = constants.rotary_stretch.get(model.architecture, 1) - 1
    return beyond * sum(
        table.positions * table.dimension * (table.element_bytes or _DTYPE_BYTES) for table in model.rotary
    )


def _copied(tensor: Tensor, stored: Quantisation, split: Split, layers: range) -> int:
    """A 16-bit copy of a quantised projection up from the latent; 16-bit ones are used through views."""
    if not tensor.quantised or tensor.name.endswith(".bias"):
        return 0
    kept = set(exempt_layers(tensor, stored))
    here = sum(index in layers and index not in kept for index in tensor.layers)
    outputs, inputs, count = shard(tensor, split)
    return outputs * inputs * (count // len(tensor.layers)) * here * _DTYPE_BYTES


def _expert_bytes(
    model: Model, experts: Quantisation, constants: EngineConstants, gpu: Gpu, split: Split, layers: range
) -> int:
    kernel = constants.mxfp4_kernel(gpu)
    if kernel is None or experts.method != "mxfp4" or model.architecture != _SHUFFLED:
        return 0
    parts = [tensor for tensor in model.tensors if tensor.experts]
    biased = any(tensor.name.endswith(".bias") for tensor in parts)
    weights = [tensor for tensor in parts if not tensor.name.endswith(".bias")]
    here = sum(index in layers for index in weights[0].layers)
    held = ceil_div(weights[0].experts, split.ep) if split.ep > 1 else weights[0].experts
    *first, second = (shard(tensor, split) for tensor in weights)
    return _growth(first[0][0], second[0], len(first), biased, kernel) * held * here


def _growth(width: int, hidden: int, fused: int, biased: bool, kernel: Mxfp4Kernel) -> int:
    """How much one expert grows on one rank: its `fused` projections of `width` outputs each, and the one back."""
    before, after = round_up(width, _TILE), round_up(width, kernel.intermediate_multiple)
    padded = round_up(hidden, kernel.hidden_multiple)
    elements = (fused + 1) * (after * padded - before * hidden)
    grown = elements // 2 + elements // _BLOCK
    if kernel.scale_rows:  # swizzled scales, their rows padded, beside the scales as loaded or in their place
        first = round_up(fused * before, kernel.scale_rows) * (hidden // _BLOCK)
        grown += first + round_up(hidden, kernel.scale_rows) * (before // _BLOCK)
        grown -= 0 if kernel.scales_kept else (fused + 1) * before * hidden // _BLOCK
    if biased:
        grown += kernel.bias_bytes * (fused * after + padded) - _DTYPE_BYTES * (fused * before + hidden)
    return grown
