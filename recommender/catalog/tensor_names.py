"""Which parameter group a stored tensor belongs to, by its name, and what the engine loads of it.

Names are those of published checkpoints, transformers' and older ones alike (`model.layers.3.mlp.experts.7.up_proj`,
`transformer.h.0.attn.c_attn`, `backbone.layers.5.mixer.in_proj`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from recommender.catalog.safetensors import StoredTensor

_LAYER = re.compile(r"(?:^|\.)(?:layers?|h|blocks?)\.(\d{1,5})\.")
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
    packed: tuple[tuple[str, int], ...]  # (dtype, bytes) of what is quantised among it, sorted
    left_out: tuple[tuple[str, int], ...]  # (why, stored bytes), sorted
    stored_bytes: int  # of all tensors, those left out among them


def loaded_bytes(tensors: Iterable[StoredTensor], *, layers: int, tied: bool) -> LoadedBytes:
    """The bytes of `tensors` by parameter group, without what a plain start of the engine does not load."""
    groups: Counter[str] = Counter()
    packed: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    stored = 0
    for tensor in tensors:
        stored += tensor.size_bytes
        why = left_out_because(tensor, layers=layers, tied=tied)
        if why is not None:
            left_out[why] += tensor.size_bytes
            continue
        groups[group_of(tensor.name)] += engine_bytes(tensor)
        if not is_plain(tensor):
            packed[tensor.dtype] += tensor.size_bytes
    return LoadedBytes(_sorted(groups), _sorted(packed), _sorted(left_out), stored)


def _sorted(sizes: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(sizes.items()))


def left_out_because(tensor: StoredTensor, *, layers: int, tied: bool) -> str | None:
    """Why the engine does not load a tensor by default; None where it does."""
    group, why = _kind(_NUMBER.sub("0", tensor.name))
    if group == "vision" or why == _OUTSIDE:
        return why
    if why is None and (layer_of(tensor.name) or 0) >= layers:
        return _MTP
    if why == _MASKS and len(tensor.shape) == 1 and tensor.name.endswith(".bias"):
        return None  # GPT-2's bias of one dimension is a parameter, its mask of four is not
    return _COPY if why is None and tied and group == "lm_head" else why


def group_of(name: str) -> str:
    """The parameter group of a tensor: a word of `Tensor.group`."""
    return _kind(_NUMBER.sub("0", name))[0]


@lru_cache(maxsize=4096)
def _kind(name: str) -> tuple[str, str | None]:
    """(group, why it is not loaded) by a name without its numbers: layers and experts differ in nothing else."""
    group = next((group for group, pattern in _PATTERNS if pattern.search(name)), "other")
    if _SPEECH_OUTPUT.search(name):
        return group, _OUTSIDE
    if group == "vision":
        return group, None
    if _DRAFT.search(name):
        return group, _MTP
    return group, _MASKS if _BUFFER.search(name) or _CAUSAL_MASK.search(name) else None


def layer_of(name: str) -> int | None:
    """The decoder layer a tensor is in."""
    found = _LAYER.search(name)
    return int(found[1]) if found else None


def is_plain(tensor: StoredTensor) -> bool:
    """Whether it is an unquantised weight, which the engine holds in its own 16-bit dtype."""
    return tensor.dtype in _FLOATS and not _SCALE.search(tensor.name)


def engine_bytes(tensor: StoredTensor) -> int:
    """Bytes of a tensor once it is loaded."""
    return tensor.elements * _LOADED_BYTES if is_plain(tensor) else tensor.size_bytes
