"""DeepSeek V4: one latent a token, compressed over 4 or 128 tokens in most layers, and hyper-connections.

Read from vLLM 0.33.0 models/deepseek_v4/{attention,compressor}.py and nvidia/model.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from recommender.catalog.config_attention import compact
from recommender.catalog.config_decoder import Decoder, embeddings, sizes
from recommender.catalog.config_fields import Fields
from recommender.catalog.config_layers import dense_mlp, linear, routed_experts, router, vector
from recommender.catalog.models import AttentionLayers, LayerIndices, RotaryCache, Tensor

COMPRESSED = ("DeepseekV4ForCausalLM",)
_INDEXED_RATIO = 4  # these layers pick latents by an index, and their compressors overlap
_LEAST_SINKS = 64  # the kernels take 64 or 128 heads on each GPU
_FLOAT32 = 4
_INT32 = 4
_MOST_EXPERTS = 2**16
_SCALES = 3  # of one hyper-connection: before, after and between


@dataclass(frozen=True, slots=True)
class Compressed:
    """The geometry of an attention layer and its index."""

    hidden: int
    heads: int
    head_dim: int
    q_rank: int
    out_rank: int
    out_groups: int
    index_heads: int
    index_dim: int


def compressed(fields: Fields, architecture: str) -> Decoder:
    """The language side of DeepSeek V4."""
    hidden, layers, vocabulary = sizes(fields)
    at = _geometry(fields, hidden)
    ratios = _ratios(fields, layers)
    intermediate, experts = fields.integer("moe_intermediate_size"), fields.integer("n_routed_experts")
    tied = fields.flag("tie_word_embeddings")
    tensors = [
        *embeddings(vocabulary, hidden, tied=tied),
        *_attention(at, range(layers)),
        *(tensor for ratio, found in ratios.items() if ratio for tensor in _compression(at, ratio, found)),
        *_feed_forward(fields, hidden, layers, vocabulary),
        *_hyper_connections(fields, hidden, layers),
        vector("norm", "layernorm", hidden, range(layers), copies=2),
        vector("norm", "norm", hidden, range(0)),
    ]
    return Decoder(
        hidden=hidden,
        layers=layers,
        vocabulary=vocabulary,
        heads=at.heads,
        kv_heads=1,
        intermediate=intermediate,
        tied=tied,
        tensors=tuple(tensor for tensor in tensors if tensor.count),
        attention=tuple(_layers(fields, at, ratio, found) for ratio, found in sorted(ratios.items())),
        rotary=_rotary(fields, ratios),
        rotary_dim=fields.integer("qk_rope_head_dim"),
        experts=experts,
        experts_per_token=fields.integer("num_experts_per_tok", most=_MOST_EXPERTS),
        moe_intermediate=intermediate,
        tp_divides=(("o_groups", at.out_groups),),
    )


def _geometry(fields: Fields, hidden: int) -> Compressed:
    return Compressed(
        hidden=hidden,
        heads=fields.integer("num_attention_heads"),
        head_dim=fields.integer("head_dim"),
        q_rank=fields.integer("q_lora_rank"),
        out_rank=fields.integer("o_lora_rank"),
        out_groups=fields.integer("o_groups"),
        index_heads=fields.integer("index_n_heads"),
        index_dim=fields.integer("index_head_dim"),
    )


def _ratios(fields: Fields, layers: int) -> dict[int, LayerIndices]:
    """The layers of each compression ratio; what the list says beyond the last layer is of the speculative one."""
    listed = fields.sequence("compress_ratios")[:layers]
    if len(listed) < layers:
        raise fields.fault(f"{len(listed)} ratios for {layers} layers", "compress_ratios", "one for each layer")
    if any(isinstance(ratio, bool) or not isinstance(ratio, int) or ratio < 0 for ratio in listed):
        raise fields.fault("a ratio that is not a whole number", "compress_ratios", "0, 4 or 128")
    return {
        ratio: compact(tuple(index for index, other in enumerate(listed) if other == ratio))
        for ratio in sorted(set(listed))
    }


def _layers(fields: Fields, at: Compressed, ratio: int, layers: LayerIndices) -> AttentionLayers:
    indexed = ratio == _INDEXED_RATIO
    return AttentionLayers(
        kind="compressed",
        layers=len(layers),
        kv_heads=1,
        head_dim=at.head_dim,
        v_head_dim=0,
        window=fields.integer("sliding_window"),
        indices=layers,
        indexer_head_dim=at.index_dim if indexed else 0,
        indexer_layers=len(layers) if indexed else 0,
        compress_ratio=ratio,
    )


def _attention(at: Compressed, layers: LayerIndices) -> Iterator[Tensor]:
    """Queries and the latent by one fused matrix, outputs through groups of low rank, a sink for each head."""
    group, name = "attention", "attn"
    down, queries = f"{name}.fused_wqa_wkv", at.heads * at.head_dim
    yield from linear(group, down, f"{name}.wq_a", at.q_rank, at.hidden, layers, split="none")
    yield from linear(group, down, f"{name}.wkv", at.head_dim, at.hidden, layers, split="none")
    yield from linear(group, f"{name}.wq_b", f"{name}.wq_b", queries, at.q_rank, layers, split="outputs")
    width = at.out_groups * at.out_rank
    per_group = queries // at.out_groups
    yield from linear(group, f"{name}.wo_a", f"{name}.wo_a", width, per_group, layers, split="outputs")
    yield from linear(group, f"{name}.wo_b", f"{name}.wo_b", at.hidden, width, layers, split="inputs")
    sinks = vector(group, f"{name}.attn_sink", at.heads, layers, split="outputs")
    yield replace(sinks, element_bytes=_FLOAT32, least=_LEAST_SINKS)
    yield vector("norm", f"{name}.q_norm", at.q_rank, layers)
    yield vector("norm", f"{name}.kv_norm", at.head_dim, layers)


def _compression(at: Compressed, ratio: int, layers: LayerIndices) -> Iterator[Tensor]:
    """The compressor of those layers and, where they have one, their index with a compressor of its own."""
    yield from _compressor(at, ratio, layers, "attention", "attn.compressor", at.head_dim)
    if ratio != _INDEXED_RATIO:
        return
    name = "attn.indexer"
    query, weights = f"{name}.wq_b", f"{name}.weights_proj"
    yield from linear("indexer", query, query, at.index_heads * at.index_dim, at.q_rank, layers, split="none")
    yield from linear("indexer", weights, weights, at.index_heads, at.hidden, layers, split="none", quantised=False)
    yield from _compressor(at, ratio, layers, "indexer", f"{name}.compressor", at.index_dim)


def _compressor(
    at: Compressed, ratio: int, layers: LayerIndices, group: str, name: str, head_dim: int
) -> Iterator[Tensor]:
    """Positions in float32; values and their scores by one matrix in 16 bit, twice as wide where they overlap."""
    width = head_dim * (2 if ratio == _INDEXED_RATIO else 1)
    positions = vector(group, f"{name}.ape", ratio * width, layers)
    yield replace(positions, element_bytes=_FLOAT32)
    fused = f"{name}.fused_wkv_wgate"
    yield from linear("router", fused, fused, 2 * width, at.hidden, layers, split="none", quantised=False)
    yield vector("norm", f"{name}.norm", head_dim, layers)


def _feed_forward(fields: Fields, hidden: int, layers: int, vocabulary: int) -> Iterator[Tensor]:
    """Routed and shared experts in every layer; the first layers pick experts by a table of tokens."""
    intermediate, experts = fields.integer("moe_intermediate_size"), fields.integer("n_routed_experts")
    hashed = min(fields.integer("num_hash_layers", default=0, least=0), layers)
    shared = fields.integer("n_shared_experts", default=0, least=0)
    yield from routed_experts(hidden, intermediate, experts, range(layers))
    yield from router(hidden, experts, range(layers))
    if hashed < layers:
        corrections = vector("router", "mlp.gate.e_score_correction_bias", experts, range(hashed, layers))
        yield replace(corrections, element_bytes=_FLOAT32)
    if hashed:
        per_token = fields.integer("num_experts_per_tok", most=_MOST_EXPERTS)
        table = vector("mlp", "mlp.gate.tid2eid", vocabulary * per_token, range(hashed))
        yield replace(table, element_bytes=_INT32)
    if shared:
        width = shared * intermediate
        yield from dense_mlp(hidden, width, range(layers), group="shared_experts", prefix="mlp.shared_experts")


def _hyper_connections(fields: Fields, hidden: int, layers: int) -> Iterator[Tensor]:
    """What mixes `hc_mult` residual streams before and after attention and MLP, and at the end, in float32."""
    streams = fields.integer("hc_mult", most=_MOST_EXPERTS)
    mixes = (2 + streams) * streams
    size = mixes * streams * hidden + mixes + _SCALES
    for group, name in (("attention", "hc_attn"), ("mlp", "hc_ffn")):
        yield replace(vector(group, name, size, range(layers)), element_bytes=_FLOAT32)
    head = vector("other", "hc_head", streams * streams * hidden + streams + 1, range(0))
    yield replace(head, element_bytes=_FLOAT32)


def _rotary(fields: Fields, ratios: dict[int, LayerIndices]) -> tuple[RotaryCache, ...]:
    """A table for the layers that compress and one for those that do not, in float32."""
    table = RotaryCache(fields.integer("max_position_embeddings"), fields.integer("qk_rope_head_dim"), _FLOAT32)
    return (table,) * len({ratio > 0 for ratio in ratios})
