"""Bytes of one linear layer, or of one fused set of experts, in every stored format the engine loads.

What each format keeps beside the packed weights (scales, zero points, shape vectors) is read from the weight creation
of vLLM 0.33.0: model_executor/layers/quantization/{fp8,fbgemm_fp8,modelopt,auto_awq,auto_gptq,moe_wna16}.py and
compressed_tensors/; bitsandbytes.py, which later became a plugin, of 0.11. Repacking after the load is not in these
figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from recommender.catalog.models import Quantisation
from recommender.errors import NotModelledError
from recommender.units import ceil_div, round_up

_FLOAT32 = 4
_WORD_BITS = 32
_CODE_VALUES = 16
_SHAPE_VECTOR_BYTES = 2 * 8  # two int64: the shape before packing
_EXPERT_SHAPE_BYTES = 2 * 2 * 2  # two vectors of two 16-bit values an expert
_SMALLEST_GROUP = 32
_MXFP4_TILE = 64  # fused_moe/oracle/mxfp4.py: Triton kernels; Marlin and TensorRT-LLM kernels pad further
_MARLIN_HIDDEN = 128  # the fused kernels take hidden sizes that are multiples of it


@dataclass(frozen=True, slots=True)
class Matrix:
    """One rank's part of a fused matrix: `widths` are the outputs of what it fuses (q, k, v), `inputs` its inputs."""

    widths: tuple[int, ...]
    inputs: int
    dtype_bytes: int = 2

    @property
    def outputs(self) -> int:
        """Outputs of all parts together."""
        return sum(self.widths)

    @property
    def elements(self) -> int:
        """Weights in it."""
        return self.outputs * self.inputs


@dataclass(frozen=True, slots=True)
class Experts:
    """One routed expert on one rank: its gate and up projections (`first`), its down projection (`second`)."""

    first: Matrix
    second: Matrix
    biased: bool = False


def linear_bytes(stored: Quantisation, at: Matrix) -> int:
    """Bytes of a linear layer's weight with everything its format stores beside it."""
    scheme = _scheme(stored)
    if scheme == "tensor":
        return at.elements + _FLOAT32 * len(at.widths) * (2 if stored.static_inputs else 1)
    if scheme == "block":
        return at.elements + stored.scale_bytes * _blocks(at, _group(stored))
    if scheme == "channel":
        bound = _FLOAT32 if stored.method == "fbgemm_fp8" else 0  # the upper bound of its inputs' scales
        return at.elements + _FLOAT32 * at.outputs + _channel_inputs(stored, at) + bound
    if scheme == "nvfp4":
        scales = 2 if stored.static_inputs else 1
        return at.outputs * (at.inputs // 2 + at.inputs // _group(stored)) + scales * _FLOAT32 * len(at.widths)
    if scheme == "bitsandbytes":
        return _bitsandbytes_bytes(stored, at)
    if scheme == "packed":
        shape = _SHAPE_VECTOR_BYTES if _is_compressed(stored) else 0
        return _packed_bytes(_with_zeros(stored), at, _group_of(stored, at.inputs)) + shape
    raise _unknown(stored)


def _bitsandbytes_bytes(stored: Quantisation, at: Matrix) -> int:
    """Packed weights; for each fused part 32-bit scales of its blocks and the table of the 16 values, or one of each
    output. Nested scales are unfolded as they are loaded (vLLM bitsandbytes_loader.py, _dequantize_dq).
    """
    if stored.bits == 8:
        return at.elements + _FLOAT32 * at.outputs
    blocks = sum(ceil_div(width * at.inputs, _group(stored)) for width in at.widths)
    return at.elements // 2 + _FLOAT32 * (blocks + _CODE_VALUES * len(at.widths))


def expert_bytes(stored: Quantisation, at: Experts) -> int:
    """Bytes of one routed expert: weights, biases and everything its format stores beside them."""
    scheme = _scheme(stored)
    if scheme == "mxfp4":
        at = _padded(at)
    biases = at.first.dtype_bytes * (at.first.outputs + at.second.outputs) if at.biased else 0
    return _expert_weight_bytes(stored, scheme, at) + biases


def _padded(at: Experts) -> Experts:
    """An expert as MXFP4 kernels take it: its intermediate size padded to whole tiles on each rank."""
    widths = tuple(round_up(width, _MXFP4_TILE) for width in at.first.widths)
    return replace(
        at,
        first=replace(at.first, widths=widths),
        second=replace(at.second, inputs=round_up(at.second.inputs, _MXFP4_TILE)),
    )


def _expert_weight_bytes(stored: Quantisation, scheme: str, at: Experts) -> int:
    first, second = at.first, at.second
    elements = first.elements + second.elements
    if scheme == "tensor":
        return elements + _FLOAT32 * (len(first.widths) + 1 + (2 if stored.static_inputs else 0))
    if scheme == "block":
        size = _refined(_group(stored), at)
        parts = [Matrix((width,), first.inputs) for width in first.widths]
        return elements + _FLOAT32 * sum(_blocks(part, size) for part in (*parts, second))
    if scheme == "channel":
        static = 2 if stored.static_inputs else 0
        return elements + _FLOAT32 * (first.outputs + second.outputs + static)
    if scheme == "packed":
        return _packed_expert_bytes(stored, at)
    scales = sum(part.outputs * (part.inputs // _group(stored)) for part in (first, second))
    if scheme == "nvfp4":
        return elements // 2 + scales + 2 * _FLOAT32 * (len(first.widths) + 1)
    if scheme == "mxfp4":
        return elements // 2 + scales
    raise _unknown(stored)


def cache_scale_bytes(stored: Quantisation, *, latent: bool) -> int:
    """Bytes of KV-cache scale parameters that each attention layer of a quantised model has."""
    if stored.method == "modelopt":
        return 4 * 2  # q, k, v and softmax scales, 16 bit
    if latent:
        return 0
    if _is_compressed(stored):
        return 3 * _FLOAT32 + 3 * 2  # q, k, v scales in float32, zero points in 16 bit
    return 4 * 2 if stored.method in ("fp8", "fp8_block") else 0


def _scheme(stored: Quantisation) -> str:
    """tensor, block, channel, nvfp4 or packed: which layout a method stores."""
    method, _, strategy = stored.method.partition(":")
    if stored.dtype in ("nvfp4", "mxfp4"):
        return stored.dtype
    if method in ("awq", "gptq", "awq_marlin", "gptq_marlin"):
        return "packed"
    if method == "bitsandbytes":
        return method
    if method in ("fp8", "fp8_online", "modelopt") and stored.dtype == "fp8":
        return "tensor"
    if method == "fp8_block":
        return "block"
    if method == "fbgemm_fp8":
        return "channel"
    if method == "compressed-tensors" and (stored.dtype == "int4" or strategy == "packed"):
        return "packed"
    if method == "compressed-tensors" and stored.dtype in ("fp8", "int8"):
        return strategy or "channel"
    raise _unknown(stored)


def _unknown(stored: Quantisation) -> NotModelledError:
    return NotModelledError(f"weights stored as {stored.dtype} by {stored.method} are not modelled")


def _is_compressed(stored: Quantisation) -> bool:
    return stored.method.startswith("compressed-tensors")


def _group(stored: Quantisation) -> int:
    if not stored.group_size or stored.group_size < 1:
        raise NotModelledError(f"{stored.method} without a group or block size is not modelled")
    return stored.group_size


def _group_of(stored: Quantisation, inputs: int) -> int:
    """The inputs that share one scale; all of them where the format is per channel."""
    return stored.group_size if stored.group_size and stored.group_size > 0 else max(1, inputs)


def _blocks(at: Matrix, size: int) -> int:
    return ceil_div(at.outputs, size) * ceil_div(at.inputs, size)


def _channel_inputs(stored: Quantisation, at: Matrix) -> int:
    if not stored.static_inputs:
        return 0
    return _FLOAT32 * (len(at.widths) if stored.dtype == "fp8" else 1)


def _refined(size: int, at: Experts) -> int:
    """The block size of a rank's experts: finer where the checkpoint's blocks would cross ranks (since 0.29)."""
    width, hidden = at.second.inputs, at.first.inputs
    if width % size == 0:
        return size
    finer = math.gcd(size, width, hidden)
    return finer if finer >= _SMALLEST_GROUP else size


def _packed_bytes(stored: Quantisation, at: Matrix, group: int) -> int:
    """Packed words, 16-bit scales and, where stored, packed zero points."""
    groups = at.inputs // group
    if stored.method.startswith("awq"):
        words = at.inputs * (at.outputs * stored.bits // _WORD_BITS)
    else:
        words = at.outputs * ceil_div(at.inputs * stored.bits, _WORD_BITS)
    zeros = groups * ceil_div(at.outputs * stored.bits, _WORD_BITS) if stored.zero_points else 0
    return 4 * words + at.dtype_bytes * groups * at.outputs + 4 * zeros


def _packed_expert_bytes(stored: Quantisation, at: Experts) -> int:
    first, second = at.first, at.second
    if _is_compressed(stored):
        return _packed_pair(stored, at, _group_of(stored, first.inputs)) + _EXPERT_SHAPE_BYTES
    group = _group_of(stored, first.inputs)
    if second.inputs % group == 0 and first.inputs % max(group, _MARLIN_HIDDEN) == 0:
        unasked = stored.method.startswith("gptq") and not at.biased  # zeros where the model has no biases
        biases = first.dtype_bytes * (first.outputs + second.outputs) if unasked else 0
        return _packed_pair(_with_zeros(stored), at, group) + biases
    while (second.inputs % group or first.inputs % group) and group > _SMALLEST_GROUP:
        group //= 2  # the engine falls back to its weight-only kernels with finer groups
    # ... and keep no zero points of GPTQ's symmetric format
    return _packed_pair(replace(stored, zero_points=stored.method.startswith("awq")), at, group)


def _with_zeros(stored: Quantisation) -> Quantisation:
    """AWQ and GPTQ files always hold zero points, compressed-tensors only where the scheme is asymmetric."""
    return stored if _is_compressed(stored) else replace(stored, zero_points=True)


def _packed_pair(stored: Quantisation, at: Experts, group: int) -> int:
    wide = min(group, max(1, at.second.inputs))  # per channel: one group over all inputs
    return _packed_bytes(stored, at.first, group) + _packed_bytes(stored, at.second, wide)
