"""The KV pool of an engine whose layers all keep every token: bytes of a page, and what is not modelled so."""

from __future__ import annotations

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import AttentionLayers, Model
from recommender.errors import InputError, NotModelledError
from recommender.memory.cache_pages import CachePage, LayerCaches
from recommender.memory.kv import CacheGroup, KvPool
from recommender.memory.pool_engine import PoolEngine

_WINDOWED = ("sliding", "chunked")
_NAMES = {
    "linear": "recurrent layers",
    "compressed": "layers with a compressed cache",
    "sliding": "sliding-window layers",
    "chunked": "chunked layers",
}


def pool_of(model: Model, constants: PoolEngine, gpu: Gpu, *, tp: int, kv_dtype: str, weights: str) -> KvPool:
    """The pool of one tensor-parallel rank. Raises NotModelledError naming what is not modelled for this engine."""
    refuse_layers(model, constants)
    tokens = constants.tokens_of_page(gpu)
    element = _element_bytes(model, kv_dtype, weights)
    parts = [
        LayerCaches(
            CachePage(
                "full", tokens, tokens * _token_bytes(layers, tp, kv_dtype, element), latent=layers.kind == "mla"
            ),
            layers.layers,
            tuple(layers.indices),
        )
        for layers in model.attention
        if layers.layers
    ]
    group = CacheGroup(parts[0].page, tuple(parts))
    per_page = group.block_bytes()
    return KvPool(per_page, tokens, (group,), per_page // tokens)


def refuse_layers(model: Model, constants: PoolEngine) -> None:
    """Raises NotModelledError where a layer's cache is not modelled for this engine."""
    kept = [layers for layers in model.attention if layers.layers]
    if not kept:
        raise NotModelledError(f"{model.id} has no attention layer: models without a KV cache are not modelled")
    for layers in kept:
        if layers.kind in ("linear", "compressed") or (layers.kind in _WINDOWED and not constants.sliding_as_full):
            raise NotModelledError(f"{_NAMES[layers.kind]} are not modelled for {constants.name} yet ({model.id})")
        if layers.indexer_layers:
            raise NotModelledError(f"an index cache is not modelled for {constants.name} yet ({model.id})")
    if windowed(model) and len({(each.kv_heads, each.head_dim, each.v_head_dim) for each in kept}) > 1:
        what = "sliding-window layers of another shape than the full ones"
        raise NotModelledError(f"{what} are not modelled for {constants.name} yet ({model.id})")


def windowed(model: Model) -> bool:
    """Whether some layers of the model slide or are chunked."""
    return any(layers.kind in _WINDOWED and layers.layers for layers in model.attention)


def _element_bytes(model: Model, kv_dtype: str, weights: str) -> int:
    if kv_dtype not in ("auto", "fp8"):
        raise InputError(f"KV dtype {kv_dtype!r} is not modelled (modelled: auto, fp8)")
    if kv_dtype == "fp8" or model.kv_declared == "fp8":
        return 1
    return 4 if weights == "fp32" else 2


def _token_bytes(layers: AttentionLayers, tp: int, kv_dtype: str, element: int) -> int:
    """Bytes of one token in one layer on one rank: a latent is kept whole on each, KV heads at least one."""
    if layers.kind == "measured":
        if kv_dtype == "fp8":
            raise NotModelledError("measured KV bytes a token hold for the KV dtype they were measured with, auto here")
        return layers.measured_bytes
    width = layers.head_dim + layers.v_head_dim
    return (width if layers.kind == "mla" else max(1, layers.kv_heads // tp) * width) * element
