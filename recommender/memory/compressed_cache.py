"""What DeepSeek V4 layers keep: recent latents, compressed latents, a compressed index and compressor states.

Read from vLLM 0.33.0 models/deepseek_v4/ and v1/kv_cache_interface.py; the cache is fp8 whatever was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from recommender.catalog.models import AttentionLayers, Model
from recommender.errors import NotModelledError
from recommender.memory.cache_pages import CachePage, LayerCaches
from recommender.memory.engine import EngineConstants
from recommender.units import ceil_div, round_up

ALIGNMENT_BYTES = 576
"""Pages are padded to a multiple of this."""
COMPRESSED_BLOCK_TOKENS = 256
RECENT_BLOCK_TOKENS = 64
OVERLAPPING_RATIO = 4
"""Layers that compress so many tokens overlap: each latent sees twice as many, and its state holds both halves."""
STATE_BLOCK_TOKENS = {4: 4, 128: 8}
SCALED_VALUES = 64
"""fp8 values that share one scale byte; the scale bytes of a latent are padded to 8."""
INDEX_SCALED_VALUES = 128


def compressed_caches(model: Model, constants: EngineConstants) -> tuple[LayerCaches, ...]:
    """The caches of all layers, the compressed ones first. Raises NotModelledError for another mix of kinds."""
    if any(layers.kind != "compressed" for layers in model.attention):
        raise NotModelledError(f"{model.id}: compressed attention beside another kind is not modelled")
    found: list[LayerCaches] = []
    for layers in model.attention:
        if layers.compress_ratio:
            found += _compressed(model, layers)
    recent = round_up(RECENT_BLOCK_TOKENS * _latent_bytes(model, model.attention[0]), ALIGNMENT_BYTES)
    indices = tuple(sorted(index for layers in model.attention for index in layers.indices))
    window = model.attention[0].window or 0
    page = CachePage("sliding", RECENT_BLOCK_TOKENS, recent, window=window, latent=True)
    return (*found, LayerCaches(page, len(indices), indices))


def _compressed(model: Model, layers: AttentionLayers) -> Iterator[LayerCaches]:
    ratio = layers.compress_ratio
    if ratio not in STATE_BLOCK_TOKENS:
        raise NotModelledError(f"{model.id}: attention that compresses {ratio} tokens is not modelled")
    indices = tuple(layers.indices)
    kept = COMPRESSED_BLOCK_TOKENS // ratio
    sizes = [(kept * _latent_bytes(model, layers), layers.head_dim)]
    if layers.indexer_head_dim:
        scales = 4 * ceil_div(layers.indexer_head_dim, INDEX_SCALED_VALUES)
        sizes.append((kept * (layers.indexer_head_dim + scales), layers.indexer_head_dim))
    seen = 2 if ratio == OVERLAPPING_RATIO else 1
    block = STATE_BLOCK_TOKENS[ratio]
    for size, width in sizes:
        page = CachePage("full", COMPRESSED_BLOCK_TOKENS, round_up(size, ALIGNMENT_BYTES), latent=True)
        yield LayerCaches(page, layers.layers, indices)
        # A value and a score in float32 for each element that a compressor has yet to fold in.
        state = round_up(block * width * seen * 2 * 4, ALIGNMENT_BYTES)
        yield LayerCaches(CachePage("sliding", block, state, window=seen * ratio, latent=True), layers.layers, indices)


def _latent_bytes(model: Model, layers: AttentionLayers) -> int:
    """fp8 values, 16-bit rotary values, and the padded scales of one latent."""
    plain = layers.head_dim - model.rotary_dim
    return plain + 2 * model.rotary_dim + round_up(ceil_div(plain, SCALED_VALUES), 8)
