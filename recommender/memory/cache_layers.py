"""What one layer keeps in the KV cache: its page (one block of tokens) in bytes, by attention kind."""

from __future__ import annotations

from dataclasses import dataclass

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import AttentionLayers, Model
from recommender.errors import InputError, NotModelledError
from recommender.memory.cache_pages import CachePage, LayerCaches
from recommender.memory.compressed_cache import compressed_caches
from recommender.memory.engine import EngineConstants
from recommender.units import ceil_div

BLOCK_SIZE = 16
"""Tokens per block unless the attention backend asks for another (vLLM 0.33 config/cache.py)."""
INDEX_SCALE_TOKENS = 128
"""Values of an index cache that share one float32 scale (vLLM DeepSeek V3.2 indexer)."""
SPARSE_FP8_BYTES = 656
"""fp8_ds_mla: 512 fp8 values, 16 bytes of scales, 64 rotary values in 16 bit, per token and layer."""
DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True, slots=True)
class CacheDtype:
    """What the engine stores per element: one byte under fp8, else the model's own dtype."""

    name: str  # auto | fp8
    element_bytes: int
    model_element_bytes: int


def cache_dtype(model: Model, constants: EngineConstants, kv_dtype: str, weights: str) -> CacheDtype:
    """The dtype that `kv_dtype` means for this model. Raises InputError."""
    if kv_dtype not in ("auto", "fp8"):
        raise InputError(f"KV dtype {kv_dtype!r} is not modelled (modelled: auto, fp8)")
    model_bytes = 4 if weights == "fp32" else 2
    declared = kv_dtype == "auto" and model.kv_declared == "fp8"
    fp8 = (kv_dtype == "fp8" or declared) and model.architecture not in constants.kv_dtype_ignored
    return CacheDtype("fp8" if fp8 else "auto", 1 if fp8 else model_bytes, model_bytes)


def layer_caches(
    model: Model, constants: EngineConstants, gpu: Gpu, tp: int, dtype: CacheDtype
) -> tuple[LayerCaches, ...]:
    """The caches of every layer of one tensor-parallel rank. Raises NotModelledError naming the attention kind."""
    if not any(layers.layers for layers in model.attention):
        raise NotModelledError(f"{model.id} has no attention layer: models without a KV cache are not modelled")
    block = block_size(model, constants, gpu, tp, dtype)
    if any(layers.kind == "compressed" for layers in model.attention):
        return compressed_caches(model, constants)
    caches: list[LayerCaches] = []
    for layers in model.attention:
        if not layers.layers:
            continue
        page = _page(model, constants, layers, tp, dtype, block)
        caches.append(LayerCaches(page, layers.layers, tuple(layers.indices)))
        if layers.indexer_layers:
            index = CachePage("full", block, block * index_bytes_per_token(layers), latent=layers.kind == "mla")
            caches.append(LayerCaches(index, layers.indexer_layers, tuple(layers.indices)[: layers.indexer_layers]))
    return tuple(caches)


def _page(
    model: Model, constants: EngineConstants, layers: AttentionLayers, tp: int, dtype: CacheDtype, block: int
) -> CachePage:
    if layers.kind == "linear":
        states = constants.states_per_request(model, layers.recurrence)
        return CachePage("state", block, state_bytes(layers, tp, dtype), states=states)
    size = block * token_bytes(constants, layers, tp, dtype)
    if layers.kind in ("full", "mla", "measured"):
        return CachePage("full", block, size, latent=layers.kind == "mla")
    if layers.kind in ("sliding", "chunked") and layers.window:
        return CachePage("sliding" if layers.kind == "sliding" else "chunked", block, size, window=layers.window)
    raise NotModelledError(f"the KV cache of {layers.kind} attention ({model.id}) is not modelled yet")


def token_bytes(constants: EngineConstants, layers: AttentionLayers, tp: int, dtype: CacheDtype) -> int:
    """Bytes of one token in one layer on one rank; KV heads are replicated once tp exceeds them."""
    if layers.kind == "measured":
        if dtype.name == "fp8":
            raise NotModelledError("measured KV bytes a token hold for the KV dtype they were measured with, auto here")
        return layers.measured_bytes
    if layers.kind == "mla":
        if not constants.latent_multiple:
            raise NotModelledError(f"{constants.engine} {constants.version} has no latent (MLA) cache")
        if layers.indexer_head_dim and dtype.name == "fp8":
            return SPARSE_FP8_BYTES
        width = layers.head_dim + layers.v_head_dim
        return ceil_div(width, constants.latent_multiple) * constants.latent_multiple * dtype.element_bytes
    heads = max(1, layers.kv_heads // tp)
    return heads * (layers.head_dim + layers.v_head_dim) * dtype.element_bytes


def index_bytes_per_token(layers: AttentionLayers) -> int:
    """Bytes of one token in the index cache of one layer: 16 bit beside ordinary attention, beside a latent fp8 values
    and a float32 scale per 128 of them.
    """
    if layers.kind == "full":
        return 2 * layers.indexer_head_dim
    return layers.indexer_head_dim + 4 * ceil_div(layers.indexer_head_dim, INDEX_SCALE_TOKENS)


def state_bytes(layers: AttentionLayers, tp: int, dtype: CacheDtype) -> int:
    """Bytes one request keeps in one recurrent layer on one rank."""
    unknown = sorted({tensor.dtype for tensor in layers.state} - {"auto", *DTYPE_BYTES})
    if unknown:
        known = ", ".join(("auto", *sorted(DTYPE_BYTES)))
        raise NotModelledError(f"recurrent states in {unknown[0]!r} are not modelled (modelled: {known})")
    return sum(
        tensor.elements(tp) * (dtype.model_element_bytes if tensor.dtype == "auto" else DTYPE_BYTES[tensor.dtype])
        for tensor in layers.state
    )


def block_size(model: Model, constants: EngineConstants, gpu: Gpu, tp: int, dtype: CacheDtype) -> int:
    """Tokens per block: the attention backend's own, raised until one attention page holds a recurrent state."""
    unit = _backend_block_size(model, gpu, dtype)
    recurrent = [layers for layers in model.attention if layers.kind == "linear" and layers.layers]
    growing = [layers for layers in model.attention if layers.kind in ("full", "mla") and layers.layers]
    if not recurrent:
        return unit
    if not growing:
        raise NotModelledError(f"{model.id} has no attention layer that grows: recurrent models alone are not modelled")
    unit = max(unit, constants.recurrent_block_multiple(recurrent[0].recurrence))
    per_token = min(token_bytes(constants, layers, tp, dtype) for layers in growing)
    largest = max(state_bytes(layers, tp, dtype) for layers in recurrent)
    return unit * ceil_div(largest, unit * per_token)


def _backend_block_size(model: Model, gpu: Gpu, dtype: CacheDtype) -> int:
    """The block size of the attention backend the engine picks on this card (vLLM 0.33 platforms/cuda.py)."""
    kinds = {layers.kind for layers in model.attention}
    if any(layers.indexer_head_dim for layers in model.attention):
        return 64 if "mla" in kinds else 128  # sparse MLA; MiniMax M3 picks blocks of 128
    capability = gpu.compute_capability or (0, 0)
    if "mla" in kinds and ((capability[0] == 9 and dtype.name == "fp8") or capability[0] == 10):
        return 64  # FLASHMLA on Hopper, FLASHINFER_MLA on Blackwell
    if model.architecture.startswith("Gemma4") and dtype.name == "fp8":
        return 64
    return BLOCK_SIZE
