"""Which parameter group a stored tensor belongs to, by its name, and what the engine loads of it.

Names are those of published checkpoints, transformers' and older ones alike (`model.layers.3.mlp.experts.7.up_proj`,
`transformer.h.0.attn.c_attn`, `backbone.layers.5.mixer.in_proj`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from recommender.catalog.safetensors import StoredTensor

LAYER = re.compile(r"(?:^|\.)(?:layers?|h|blocks?)\.(\d{1,5})\.")
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
_DRAFT = re.compile(r"(?:^|[._])(?:mtp|nextn|eagle|medusa|draft)")
_SPEECH_OUTPUT = re.compile(r"^(?:talker|token2wav|code2wav)\.")
_BUFFER = re.compile(r"(?:inv_freq|masked_bias|position_ids|g_idx|num_batches_tracked|rotary_emb\.(?:cos|sin)\w*)$")
_CAUSAL_MASK = re.compile(r"\battn(?:\.attention)?\.bias$")
_SCALE = re.compile(r"(?:scales?|scale_inv|scale_2|zeros?|zero_point|absmax|quant_map)$")
_FLOATS = ("F64", "F32", "F16", "BF16")
_LOADED_BYTES = 2
_COPY, _MTP, _OUTSIDE, _MASKS = (
    "a copy of the tied output matrix",
    "MTP or draft layers (speculative decoding only)",
    "speech output",
    "buffers the engine makes itself",
)

# The first that matches decides: what holds the word (a whole part, or the beginning of one) stands before what it is.
_GROUPS = (
    ("vision", r"(?:visual|vision|vit|image|img|audio|multi_modal|mm_|sam_model|vpm|resampler|mlp1\.|patch_merger)"),
    ("indexer", r"indexer\b"),
    ("shared_experts", r"(?:shared_expert|shared_mlp)(?!_gate)"),
    ("router", r"(?:router|gate|e_score|expert_bias|shared_expert_gate)(?:$|\.|_correction)"),
    ("experts", r"(?:experts|(?:input|output)_linear)\b"),
    ("norm", r"(?:\w*norm\w*|ln_\w+)\.(?:weight|bias|scale)$"),
    ("lm_head", r"(?:lm_head|embed_out|output_layer|output)\.\w+$"),
    ("embedding", r"(?:\w*embed\w*|wte|wpe|embd)\b"),
    ("mixer", r"(?:linear_attn|mamba\w*|ssm\w*|delta_net)\b"),
    ("mixer", r"mixer\.(?:in_proj|out_proj|conv1d|A_log|A|D|dt_\w+|x_proj|norm)\b"),
    ("mlp", r"mixer\.(?:up|down|gate)_proj\b"),
    ("attention", r"(?:\w*attn\w*|\w*attention\w*|mixer|wq|wk|wv|wo|q_proj|k_proj|v_proj|o_proj|qkv\w*)\b"),
    ("mlp", r"(?:mlp|\w*feed_forward|ffn|fc\d|c_fc|gate_proj|up_proj|down_proj|gate_up_proj|w[123]|dense\w*)\b"),
    ("mlp", r"block_sparse_moe\b"),
)
_PATTERNS = tuple((group, re.compile(rf"(?:^|\.){pattern}")) for group, pattern in _GROUPS)


@dataclass(frozen=True, slots=True)
class LoadedBytes:
    """What the engine loads of a model's tensors: 16 bit for each unquantised element, all else as it is stored."""

    groups: tuple[tuple[str, int], ...]  # sorted by group
    left_out: tuple[tuple[str, int], ...]  # (why, stored bytes), sorted
    stored_bytes: int  # of all tensors, those left out among them


def loaded_bytes(tensors: Iterable[StoredTensor], *, layers: int, tied: bool) -> LoadedBytes:
    """The bytes of `tensors` by parameter group, without what a plain start of the engine does not load."""
    groups: dict[str, int] = {}
    left_out: dict[str, int] = {}
    stored = 0
    for tensor in tensors:
        stored += tensor.size_bytes
        why = left_out_because(tensor, layers=layers, tied=tied)
        if why is not None:
            left_out[why] = left_out.get(why, 0) + tensor.size_bytes
            continue
        group = group_of(tensor.name)
        groups[group] = groups.get(group, 0) + engine_bytes(tensor)
    return LoadedBytes(tuple(sorted(groups.items())), tuple(sorted(left_out.items())), stored)


def left_out_because(tensor: StoredTensor, *, layers: int, tied: bool) -> str | None:
    """Why the engine does not load a tensor by default; None where it does."""
    name = tensor.name
    if _SPEECH_OUTPUT.search(name):
        return _OUTSIDE
    if group_of(name) == "vision":
        return None
    if _DRAFT.search(name) or (layer_of(name) or 0) >= layers:
        return _MTP
    if _BUFFER.search(name) or (_CAUSAL_MASK.search(name) and len(tensor.shape) > 1):
        return _MASKS
    return _COPY if tied and group_of(name) == "lm_head" else None


def group_of(name: str) -> str:
    """The parameter group of a tensor: a word of `Tensor.group`."""
    return _group(_NUMBER.sub("0", name))


@lru_cache(maxsize=4096)
def _group(name: str) -> str:
    return next((group for group, pattern in _PATTERNS if pattern.search(name)), "other")


def layer_of(name: str) -> int | None:
    """The decoder layer a tensor is in."""
    found = LAYER.search(name)
    return int(found[1]) if found else None


def is_plain(tensor: StoredTensor) -> bool:
    """Whether it is an unquantised weight, which the engine holds in its own 16-bit dtype."""
    return tensor.dtype in _FLOATS and not _SCALE.search(tensor.name)


def engine_bytes(tensor: StoredTensor) -> int:
    """Bytes of a tensor once it is loaded."""
    return tensor.elements * _LOADED_BYTES if is_plain(tensor) else tensor.size_bytes
