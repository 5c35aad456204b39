"""MiniMax M3: grouped-query attention of which most layers pick blocks by an index, and mixtures with a shared expert.

Read from vLLM 0.33.0 models/minimax_m3/{nvidia/model,common/indexer}.py; no published start-up log to compare with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from recommender.catalog.config_attention import compact
from recommender.catalog.config_decoder import Decoder, block_norms, embeddings, sizes
from recommender.catalog.config_fields import Fields
from recommender.catalog.config_layers import (
    Heads,
    dense_mlp,
    grouped_query,
    linear,
    routed_experts,
    router,
    vector,
)
from recommender.catalog.config_rotary import partial_rotary_share
from recommender.catalog.models import AttentionLayers, LayerIndices, RotaryCache, Tensor
from recommender.errors import Fault, NotModelledError

MINIMAX = ("MiniMaxM3ForCausalLM", "MiniMaxM3SparseForCausalLM")


def minimax(fields: Fields, architecture: str) -> Decoder:
    """The language side of MiniMax M3."""
    hidden, layers, vocabulary = sizes(fields)
    head_dim = fields.integer("head_dim")
    at = Heads(hidden, fields.integer("num_attention_heads"), fields.integer("num_key_value_heads"), head_dim, head_dim)
    indexed, mixed = _indexed_layers(fields, layers), _listed(fields, "moe_layer_freq", layers, default=None)
    plain = compact(tuple(index for index in range(layers) if index not in set(indexed)))
    dense = compact(tuple(index for index in range(layers) if index not in set(mixed)))
    width, experts = fields.integer("intermediate_size"), fields.integer("num_local_experts")
    rotated = int(head_dim * partial_rotary_share(fields, default=1.0))
    tied = fields.flag("tie_word_embeddings")
    index_dim = fields.inner("sparse_attention_config").integer("sparse_index_dim") if len(indexed) else 0
    tensors = [
        *embeddings(vocabulary, hidden, tied=tied),
        *(grouped_query(at, plain) if len(plain) else ()),
        *(_indexed_attention(fields, at, indexed) if len(indexed) else ()),
        vector("norm", "self_attn.qk_norm", head_dim, range(layers), copies=2),
        *dense_mlp(hidden, fields.integer("dense_intermediate_size"), dense),
        *_mixture(fields, hidden, width, experts, mixed),
        *block_norms(hidden, layers),
    ]
    attention = AttentionLayers("full", len(plain), at.kv_heads, head_dim, head_dim, indices=plain)
    sparse = replace(
        attention,
        layers=len(indexed),
        indices=indexed,
        indexer_head_dim=index_dim,
        indexer_layers=len(indexed),
    )
    return Decoder(
        hidden=hidden,
        layers=layers,
        vocabulary=vocabulary,
        heads=at.heads,
        kv_heads=at.kv_heads,
        intermediate=fields.integer("dense_intermediate_size"),
        tied=tied,
        tensors=tuple(tensor for tensor in tensors if tensor.count and (len(tensor.layers) or not tensor.module)),
        attention=tuple(group for group in (attention, sparse) if group.layers),
        rotary=(RotaryCache(fields.integer("max_position_embeddings"), rotated),),
        rotary_dim=rotated,
        experts=experts,
        experts_per_token=fields.integer("num_experts_per_tok"),
        moe_intermediate=width,
    )


def _indexed_layers(fields: Fields, layers: int) -> LayerIndices:
    config = fields.inner("sparse_attention_config")
    if not config.values:
        raise fields.missing("sparse_attention_config")
    found = _listed(config, "sparse_attention_freq", layers, default=range(0))
    off = set(_listed(config, "sparse_disable_index_value", layers, default=found))
    if not set(found) <= off:
        raise NotModelledError(
            Fault("an index with values of its own", file=fields.where, key="sparse_disable_index_value")
        )
    return found


def _listed(fields: Fields, key: str, layers: int, default: LayerIndices | None) -> LayerIndices:
    """The layers for which a list of numbers is not 0."""
    listed = fields.sequence(key)
    if not listed and default is None:
        raise fields.missing(key)
    if not listed:
        return default or range(0)
    if len(listed) < layers:
        raise fields.fault(f"{len(listed)} entries for {layers} layers", key, f"{layers} entries")
    if any(not isinstance(value, int) for value in listed):
        raise fields.fault("an entry that is not a number", key, "whole numbers")
    return compact(tuple(index for index, value in enumerate(listed[:layers]) if value))


def _indexed_attention(fields: Fields, at: Heads, layers: LayerIndices) -> Iterator[Tensor]:
    """q, k, v and the index's q (split like KV heads) and k (whole) as one fused matrix."""
    config = fields.inner("sparse_attention_config")
    heads, width = config.integer("sparse_num_index_heads"), config.integer("sparse_index_dim")
    *fused, out = grouped_query(at, layers)
    yield from fused
    qkv, name = "self_attn.qkv_proj", "self_attn.index"
    yield from linear(
        "attention", qkv, f"{name}_q_proj", heads * width, at.hidden, layers, split="kv_heads", heads=heads
    )
    yield from linear("attention", qkv, f"{name}_k_proj", width, at.hidden, layers, split="none")
    yield out
    yield vector("norm", f"{name}_norm", width, layers, copies=2)


def _mixture(fields: Fields, hidden: int, width: int, experts: int, layers: LayerIndices) -> Iterator[Tensor]:
    shared = fields.integer("n_shared_experts", default=0, least=0)
    correction = 4 if fields.flag("use_routing_bias") else None
    yield from routed_experts(hidden, width, experts, layers)
    yield from router(hidden, experts, layers, element_bytes=4, correction_bytes=correction)
    if shared:
        yield from dense_mlp(hidden, shared * width, layers, group="shared_experts", prefix="mlp.shared_experts")
