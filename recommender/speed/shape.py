"""What one step of a model reads and computes, as the numbers serving speed depends on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from recommender.catalog.models import AttentionLayers, Model, Quantisation, Tensor
from recommender.errors import NotModelledError
from recommender.memory.exemptions import exempt_layers
from recommender.memory.weights import rank_bytes
from recommender.speed.families import model_family

SPARSE_TOKENS = 2048
"""Tokens that sparse latent attention reads at most, whatever the context (index_topk of DeepSeek-V3.2 and GLM-5)."""
_FLOPS_PER_ELEMENT = 2  # a multiplication and an addition
_GROWING = ("full", "sliding", "chunked", "mla", "linear")


@dataclass(frozen=True, slots=True)
class Shape:
    """One model with its weights in one format, as a whole: what GPUs share out is in `work`.

    `dense` is everything that each token passes through (attention projections, dense and shared feed-forward parts,
    the head); `low` are its elements in the weights' dtype, `plain` those kept in 16 bit. KV figures are elements of
    one token over all layers of a kind; `*_attention_flops` are those of one query on one token of context.
    """

    model: str
    family: str
    weights: str
    kv_bytes_per_element: int
    layers: int
    hidden_size: int
    dense_bytes: int
    dense_low_elements: int
    dense_plain_elements: int
    low_attention: bool  # whether the attention projections are stored (and their inputs quantised) in low precision
    moe_layers: int
    shared_layers: int  # those of them that have experts every token passes through
    experts: int
    experts_per_token: int
    expert_bytes: int  # one expert of one layer
    expert_elements: int
    kv_heads: int
    full_elements: int
    full_attention_flops: int
    window_elements: int
    window_attention_flops: int
    window_tokens: int
    latent_layers: int
    latent_elements: int
    latent_decode_flops: int
    latent_prefill_flops: int
    sparse_layers: int
    index_bytes: int  # of one token's index keys, all layers
    linear_layers: int
    state_bytes: int  # of one request, all linear layers


@lru_cache(maxsize=512)
def shape_of(model: Model, weights: str, stored: Quantisation | None, kv_dtype: str) -> Shape:
    """The shape of a model whose linear weights are `stored` so. Raises NotModelledError for other attention kinds."""
    for group in model.attention:
        if group.kind not in _GROWING:
            raise NotModelledError(f"serving speed of {group.kind} attention ({model.id}) is not modelled")
    read = dict(rank_bytes(model, stored).groups)
    experts = [tensor for tensor in model.tensors if tensor.experts]
    moe_layers = len({layer for tensor in experts for layer in tensor.layers})
    copies = moe_layers * model.experts
    dense = list(_dense(model))
    low = sum(_low_elements(tensor, stored) for tensor in dense)
    attention = [tensor for tensor in dense if tensor.group in ("attention", "mixer")]
    full, window, latent, linear = (
        _of(model, *kinds) for kinds in (("full",), ("sliding", "chunked"), ("mla",), ("linear",))
    )
    return Shape(
        model=model.id,
        family=model_family(model),
        weights=weights,
        kv_bytes_per_element=_kv_bytes(model, stored, kv_dtype),
        layers=model.layers,
        hidden_size=model.hidden_size,
        dense_bytes=sum(size for group, size in read.items() if group in _dense_groups(model)),
        dense_low_elements=low,
        dense_plain_elements=sum(_elements(tensor) for tensor in dense) - low,
        low_attention=any(_low_elements(tensor, stored) for tensor in attention),
        moe_layers=moe_layers,
        shared_layers=len({layer for t in model.tensors if t.group == "shared_experts" for layer in t.layers}),
        experts=model.experts if copies else 0,
        experts_per_token=model.experts_per_token if copies else 0,
        expert_bytes=read.get("experts", 0) // copies if copies else 0,
        expert_elements=sum(_elements(tensor) for tensor in experts) // copies if copies else 0,
        kv_heads=max((group.kv_heads for group in (*full, *window)), default=1),
        full_elements=sum(group.layers * _elements_per_token(group) for group in full),
        full_attention_flops=sum(_attention_flops(model, group) for group in full),
        window_elements=sum(group.layers * _elements_per_token(group) for group in window),
        window_attention_flops=sum(_attention_flops(model, group) for group in window),
        window_tokens=max((group.window or 0 for group in window), default=0),
        latent_layers=sum(group.layers for group in latent),
        latent_elements=sum(group.layers * group.head_dim for group in latent),
        latent_decode_flops=sum(
            2 * model.heads * ((group.latent_rank or 0) + group.head_dim) * group.layers for group in latent
        ),
        latent_prefill_flops=sum(2 * model.heads * _expanded_dims(model) * group.layers for group in latent),
        sparse_layers=sum(group.indexer_layers for group in latent),
        index_bytes=sum(group.indexer_layers * group.indexer_head_dim for group in latent),
        linear_layers=sum(group.layers for group in linear),
        state_bytes=sum(group.layers * _state_bytes(group) for group in linear),
    )


def _of(model: Model, *kinds: str) -> list[AttentionLayers]:
    return [group for group in model.attention if group.kind in kinds]


def _dense_groups(model: Model) -> frozenset[str]:
    """Parameter groups read once a step whatever the tokens; a tied embedding is read as the head."""
    groups = {"attention", "mixer", "mlp", "shared_experts", "indexer", "router", "norm", "lm_head", "other"}
    return frozenset(groups | {"embedding"} if model.tied_embeddings else groups)


def _dense(model: Model) -> Iterator[Tensor]:
    groups = _dense_groups(model)
    return (tensor for tensor in model.tensors if tensor.group in groups and not tensor.experts and tensor.inputs > 1)


def _elements(tensor: Tensor) -> int:
    return tensor.parameters if tensor.inputs > 1 else 0


def _low_elements(tensor: Tensor, stored: Quantisation | None) -> int:
    """Elements of a tensor that are kept in the low-precision dtype."""
    if stored is None or not tensor.quantised or tensor.inputs <= 1:
        return 0
    layers = len(tensor.layers)
    kept = len(exempt_layers(tensor, stored)) if layers else 0
    return tensor.parameters * (layers - kept) // layers if layers else tensor.parameters


def _kv_bytes(model: Model, stored: Quantisation | None, kv_dtype: str) -> int:
    """Bytes of one cached element: `auto` follows what the checkpoint declares (NVIDIA's FP4 ones declare FP8)."""
    declared = model.kv_declared == "fp8" or (stored is not None and stored.dtype == "nvfp4")
    return 1 if kv_dtype.startswith("fp8") or (kv_dtype == "auto" and declared) else 2


def _elements_per_token(group: AttentionLayers) -> int:
    return group.kv_heads * (group.head_dim + group.v_head_dim)


def _attention_flops(model: Model, group: AttentionLayers) -> int:
    """FLOPs of one query on one token of context in all layers of a group."""
    return _FLOPS_PER_ELEMENT * model.heads * (group.head_dim + group.v_head_dim) * (group.layers + group.reused_layers)


def _expanded_dims(model: Model) -> int:
    """Query-key plus value dimension of one head where prefill expands the latent."""
    outputs = {tensor.name.split(".")[1]: tensor.outputs for tensor in model.tensors if "_proj.weight" in tensor.name}
    inputs = {tensor.name.split(".")[1]: tensor.inputs for tensor in model.tensors if "_proj.weight" in tensor.name}
    query = outputs.get("q_b_proj") or outputs.get("q_proj")
    if query is None or "o_proj" not in inputs:
        raise NotModelledError(f"latent attention of {model.id} without q and o projections is not modelled")
    return (query + inputs["o_proj"]) // model.heads


def _state_bytes(group: AttentionLayers) -> int:
    """Recurrent state of one request in one layer."""
    return sum(tensor.elements(1) * (4 if tensor.dtype == "float32" else 2) for tensor in group.state)
