"""Models whose layers differ in attention: head sizes and KV heads by kind (Gemma 4, MiMo-V2) or chunks (Llama 4).

Read from vLLM 0.33.0 model_executor/models/{gemma4,mimo_v2,llama4}.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from recommender.catalog.config_attention import compact
from recommender.catalog.config_decoder import Decoder, block_norms, embeddings, sizes
from recommender.catalog.config_fields import Fields
from recommender.catalog.config_layers import Heads, dense_mlp, grouped_query, routed_experts, router, vector
from recommender.catalog.models import AttentionKind, AttentionLayers, LayerIndices, RotaryCache, Tensor
from recommender.errors import Fault, NotModelledError

WINDOWED = ("Gemma4ForCausalLM", "MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM", "Llama4ForCausalLM")


def windowed(fields: Fields, architecture: str) -> Decoder:
    """The language side of one of these models."""
    if architecture.startswith("Gemma4"):
        return _gemma4(fields)
    return _llama4(fields) if architecture.startswith("Llama4") else _mimo(fields)


def _layers(kind: AttentionKind, at: Heads, indices: LayerIndices, window: int | None = None) -> AttentionLayers:
    return AttentionLayers(kind, len(indices), at.kv_heads, at.head_dim, at.v_head_dim, window, indices)


def _split(flags: list[bool]) -> tuple[LayerIndices, LayerIndices]:
    """(indices where true, indices where false)."""
    true = tuple(index for index, flag in enumerate(flags) if flag)
    false = tuple(index for index, flag in enumerate(flags) if not flag)
    return compact(true), compact(false)


def _gemma4(fields: Fields) -> Decoder:
    hidden, layers, vocabulary = sizes(fields)
    if fields.integer("num_kv_shared_layers", default=0, least=0):
        raise NotModelledError(Fault("layers that share a KV cache", file=fields.where, key="num_kv_shared_layers"))
    if fields.integer("hidden_size_per_layer_input", default=0, least=0):
        raise NotModelledError(Fault("per-layer embeddings", file=fields.where, key="hidden_size_per_layer_input"))
    heads, kv_heads = fields.integer("num_attention_heads"), fields.integer("num_key_value_heads")
    head_dim = fields.integer("head_dim")
    wide = fields.integer("global_head_dim", default=head_dim)
    local = Heads(hidden, heads, kv_heads, head_dim, head_dim)
    whole = Heads(hidden, heads, fields.integer("num_global_key_value_heads", default=kv_heads), wide, wide)
    types = fields.sequence("layer_types")
    if len(types) != layers:
        raise fields.fault(f"{len(types)} entries for {layers} layers", "layer_types", f"{layers} entries")
    unknown = sorted({str(kind) for kind in types} - {"sliding_attention", "full_attention"})
    if unknown:
        what = f"layer types {', '.join(unknown)} are not modelled here"
        raise NotModelledError(Fault(what, file=fields.where, key="layer_types"))
    sliding, full = _split([kind == "sliding_attention" for kind in types])
    experts = fields.integer("num_experts", default=0, least=0)
    longest = fields.integer("max_position_embeddings")
    tensors = [
        *embeddings(vocabulary, hidden, tied=fields.flag("tie_word_embeddings", default=True)),
        *_gemma4_attention(local, sliding),
        *_gemma4_attention(whole, full),
        *dense_mlp(hidden, fields.integer("intermediate_size"), range(layers)),
        *block_norms(hidden, layers, copies=7 if experts else 4),
        *_gemma4_experts(fields, hidden, layers, experts),
    ]
    return Decoder(
        hidden=hidden,
        layers=layers,
        vocabulary=vocabulary,
        heads=heads,
        kv_heads=kv_heads,
        intermediate=fields.integer("intermediate_size"),
        tied=fields.flag("tie_word_embeddings", default=True),
        tensors=tuple(tensors),
        attention=(
            _layers("sliding", local, sliding, fields.integer("sliding_window")),
            _layers("full", whole, full),
        ),
        rotary=(RotaryCache(longest, head_dim), RotaryCache(longest, wide)),
        rotary_dim=head_dim,
        experts=experts,
        experts_per_token=fields.integer("top_k_experts", default=8) if experts else 0,
        moe_intermediate=fields.integer("moe_intermediate_size", "expert_intermediate_size") if experts else 0,
        # a scalar of each layer, of each router, and the embedding's normaliser, 16 bit each
        other_buffer_bytes=2 * layers * (2 if experts else 1) + 2,
    )


def _gemma4_attention(at: Heads, layers: LayerIndices) -> Iterator[Tensor]:
    yield from grouped_query(at, layers, qkv_bias=False, o_bias=False)
    yield vector("norm", "self_attn.q_norm", at.head_dim, layers)
    yield vector("norm", "self_attn.k_norm", at.head_dim, layers)


def _gemma4_experts(fields: Fields, hidden: int, layers: int, experts: int) -> Iterator[Tensor]:
    if not experts:
        return
    every = range(layers)
    width = fields.integer("moe_intermediate_size", "expert_intermediate_size")
    yield from routed_experts(hidden, width, experts, every, prefix="moe")
    yield from router(hidden, experts, every, prefix="router")
    yield vector("router", "router.scale", hidden, every)
    yield vector("router", "router.per_expert_scale", experts, every)


def _mimo(fields: Fields) -> Decoder:
    hidden, layers, vocabulary = sizes(fields)
    heads, kv_heads = fields.integer("num_attention_heads"), fields.integer("num_key_value_heads")
    head_dim = fields.integer("head_dim")
    value_dim = fields.integer("v_head_dim", default=head_dim)
    whole = Heads(hidden, heads, kv_heads, head_dim, value_dim)
    narrow_dim = fields.integer("swa_head_dim")
    narrow = Heads(
        hidden,
        fields.integer("swa_num_attention_heads"),
        fields.integer("swa_num_key_value_heads"),
        narrow_dim,
        fields.integer("swa_v_head_dim", default=narrow_dim),
    )
    sliding, full = _split(_flags(fields, "hybrid_layer_pattern", layers))
    sparse, dense = _split(_flags(fields, "moe_layer_freq", layers))
    experts, width = fields.integer("n_routed_experts"), fields.integer("moe_intermediate_size")
    share = fields.share("partial_rotary_factor", default=1.0)
    longest = fields.integer("max_position_embeddings")
    tensors = [
        *embeddings(vocabulary, hidden, tied=fields.flag("tie_word_embeddings")),
        *_mimo_attention(fields, whole, full, "add_full_attention_sink_bias", default=False),
        *_mimo_attention(fields, narrow, sliding, "add_swa_attention_sink_bias", default=True),
        *dense_mlp(hidden, fields.integer("intermediate_size"), dense),
        *routed_experts(hidden, width, experts, sparse),
        *router(hidden, experts, sparse, element_bytes=4, correction_bytes=4),
        *block_norms(hidden, layers),
    ]
    return Decoder(
        hidden=hidden,
        layers=layers,
        vocabulary=vocabulary,
        heads=heads,
        kv_heads=kv_heads,
        intermediate=fields.integer("intermediate_size"),
        tied=fields.flag("tie_word_embeddings"),
        tensors=tuple(tensors),
        attention=(_layers("full", whole, full), _layers("sliding", narrow, sliding, fields.integer("sliding_window"))),
        rotary=(RotaryCache(longest, int(head_dim * share)), RotaryCache(longest, int(narrow_dim * share))),
        rotary_dim=int(head_dim * share),
        experts=experts,
        experts_per_token=fields.integer("num_experts_per_tok"),
        moe_intermediate=width,
    )


def _pattern(fields: Fields, key: str, layers: int) -> list[object]:
    found = fields.sequence(key)
    if len(found) < layers:
        raise fields.fault(f"{len(found)} entries for {layers} layers", key, f"{layers} entries")
    return found[:layers]


def _flags(fields: Fields, key: str, layers: int) -> list[bool]:
    """True or false (1 or 0) for each layer."""
    found = _pattern(fields, key, layers)
    if any(flag not in (0, 1) for flag in found):
        raise fields.fault("an entry that is neither 0 nor 1", key, "0 or 1 for each layer")
    return [bool(flag) for flag in found]


def _mimo_attention(fields: Fields, at: Heads, layers: LayerIndices, key: str, *, default: bool) -> Iterator[Tensor]:
    yield from grouped_query(at, layers, qkv_bias=fields.flag("attention_bias"), o_bias=False)
    if fields.flag(key, default=default):
        yield vector("attention", "self_attn.attention_sink_bias", at.heads, layers, split="outputs")


def _llama4(fields: Fields) -> Decoder:
    hidden, layers, vocabulary = sizes(fields)
    heads = fields.integer("num_attention_heads")
    head_dim = fields.integer("head_dim", default=hidden // heads)
    at = Heads(hidden, heads, fields.integer("num_key_value_heads", default=heads), head_dim, head_dim)
    rotated, global_layers = _split(_llama4_rotated(fields, layers))
    chunk = fields.optional("attention_chunk_size")
    sparse, dense = _split(_llama4_sparse(fields, layers))
    experts, width = fields.integer("num_local_experts"), fields.integer("intermediate_size")
    tensors = [
        *embeddings(vocabulary, hidden, tied=fields.flag("tie_word_embeddings")),
        *grouped_query(at, range(layers), qkv_bias=False, o_bias=False),
        *routed_experts(hidden, width, experts, sparse),
        *dense_mlp(hidden, width, sparse, group="shared_experts", prefix="mlp.shared_expert"),
        *router(hidden, experts, sparse),
        *dense_mlp(hidden, fields.integer("intermediate_size_mlp", default=width), dense),
        *block_norms(hidden, layers),
    ]
    return Decoder(
        hidden=hidden,
        layers=layers,
        vocabulary=vocabulary,
        heads=heads,
        kv_heads=at.kv_heads,
        intermediate=fields.integer("intermediate_size_mlp", default=width),
        tied=fields.flag("tie_word_embeddings"),
        tensors=tuple(tensor for tensor in tensors if len(tensor.layers) or not tensor.module),
        attention=tuple(
            group
            for group in (
                _layers("chunked" if chunk else "full", at, rotated, chunk),
                _layers("full", at, global_layers),
            )
            if group.layers
        ),
        rotary=(RotaryCache(fields.integer("max_position_embeddings"), head_dim),),
        rotary_dim=head_dim,
        experts=experts,
        experts_per_token=fields.integer("num_experts_per_tok", default=1),
        moe_intermediate=width,
    )


def _llama4_rotated(fields: Fields, layers: int) -> list[bool]:
    """Layers with rotary positions, which attend inside chunks; every fourth has neither, by default."""
    named = fields.sequence("no_rope_layers")
    if named:
        return _flags(fields, "no_rope_layers", layers)
    step = fields.integer("no_rope_layer_interval", default=4)
    return [(index + 1) % step != 0 for index in range(layers)]


def _llama4_sparse(fields: Fields, layers: int) -> list[bool]:
    named = fields.sequence("moe_layers")
    if named:
        if any(isinstance(index, bool) or not isinstance(index, int) for index in named):
            raise fields.fault("an entry that is no layer", "moe_layers", "whole numbers")
        return [index in set(named) for index in range(layers)]
    step = fields.integer("interleave_moe_layer_step", default=1)
    return [(index + 1) % step == 0 for index in range(layers)]
