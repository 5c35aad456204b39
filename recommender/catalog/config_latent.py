"""Models with multi-head latent attention (MLA), with or without a sparse indexer: DeepSeek, GLM-5, Kimi K2.

Read from vLLM 0.33.0 model_executor/models/deepseek_v2.py and models/deepseek_v32/.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from recommender.catalog.config_attention import compact
from recommender.catalog.config_decoder import Decoder, block_norms, embeddings, sizes
from recommender.catalog.config_fields import Fields
from recommender.catalog.config_layers import dense_mlp, linear, vector
from recommender.catalog.config_moe import Mixture, shared_and_routed
from recommender.catalog.models import AttentionLayers, LayerIndices, RotaryCache, Tensor
from recommender.errors import Fault, NotModelledError

LATENT = (
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "DeepseekV32ForCausalLM",
    "GlmMoeDsaForCausalLM",
    "Glm4MoeLiteForCausalLM",
)
_INDEXED = ("DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM")


@dataclass(frozen=True, slots=True)
class Latent:
    """The geometry of latent attention: queries of `heads`, keys and values rebuilt from one latent of `rank`."""

    hidden: int
    heads: int
    q_rank: int | None
    rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int


def latent(fields: Fields, architecture: str) -> Decoder:
    """The language side of a model whose every layer caches one latent."""
    hidden, layers, vocabulary = sizes(fields)
    at = latent_geometry(fields, hidden)
    mixed = _mixture(fields, architecture, hidden, layers)
    indexed = _indexed_layers(fields, layers) if architecture in _INDEXED else ()
    tied = fields.flag("tie_word_embeddings")
    tensors = [
        *embeddings(vocabulary, hidden, tied=tied),
        *latent_tensors(at, range(layers)),
        *_indexer(fields, at, compact(indexed)),
        *mixed.tensors,
        *dense_mlp(hidden, fields.integer("intermediate_size"), mixed.dense_layers),
        *block_norms(hidden, layers),
    ]
    return Decoder(
        hidden=hidden,
        layers=layers,
        vocabulary=vocabulary,
        heads=at.heads,
        kv_heads=1,
        intermediate=fields.integer("intermediate_size"),
        tied=tied,
        tensors=tuple(tensor for tensor in tensors if tensor.count),
        attention=(
            replace(
                latent_layers(at, range(layers)),
                indexer_head_dim=fields.integer("index_head_dim") if indexed else 0,
                indexer_layers=len(indexed),
            ),
        ),
        rotary=_rotary(fields, at, bool(indexed)),
        rotary_dim=at.rope_dim,
        experts=mixed.experts,
        experts_per_token=mixed.experts_per_token,
        moe_intermediate=mixed.intermediate,
    )


def latent_geometry(fields: Fields, hidden: int) -> Latent:
    """The latent's sizes as configs name them."""
    return Latent(
        hidden=hidden,
        heads=fields.integer("num_attention_heads"),
        q_rank=fields.optional("q_lora_rank"),
        rank=fields.integer("kv_lora_rank"),
        nope_dim=fields.integer("qk_nope_head_dim"),
        rope_dim=fields.integer("qk_rope_head_dim"),
        value_dim=fields.integer("v_head_dim"),
    )


def latent_layers(at: Latent, layers: LayerIndices) -> AttentionLayers:
    """What those layers cache: one latent and its rotated part, on every rank."""
    return AttentionLayers(
        kind="mla",
        layers=len(layers),
        kv_heads=1,
        head_dim=at.rank + at.rope_dim,
        v_head_dim=0,
        indices=layers,
        latent_rank=at.rank,
    )


def latent_tensors(at: Latent, layers: LayerIndices, *, gate: bool = False) -> Iterator[Tensor]:
    """Down-projections whole on every rank, up-projections and output by head; `gate` adds an output gate."""
    group, query = "attention", at.heads * (at.nope_dim + at.rope_dim)
    down = at.rank + at.rope_dim
    if at.q_rank is None:
        yield from linear(group, "self_attn.q_proj", "self_attn.q_proj", query, at.hidden, layers, split="outputs")
        module = "self_attn.kv_a_proj_with_mqa"
    else:
        module = "self_attn.fused_qkv_a_proj"
        yield from linear(group, module, "self_attn.q_a_proj", at.q_rank, at.hidden, layers, split="none")
    yield from linear(group, module, "self_attn.kv_a_proj_with_mqa", down, at.hidden, layers, split="none")
    if gate:
        yield from linear(
            group, "self_attn.g_proj", "self_attn.g_proj", at.heads * at.value_dim, at.hidden, layers, split="outputs"
        )
    if at.q_rank is not None:
        yield from linear(group, "self_attn.q_b_proj", "self_attn.q_b_proj", query, at.q_rank, layers, split="outputs")
        yield vector("norm", "self_attn.q_a_layernorm", at.q_rank, layers)
    width = at.heads * (at.nope_dim + at.value_dim)
    yield from linear(group, "self_attn.kv_b_proj", "self_attn.kv_b_proj", width, at.rank, layers, split="outputs")
    yield vector("norm", "self_attn.kv_a_layernorm", at.rank, layers)
    out = at.heads * at.value_dim
    yield from linear(group, "self_attn.o_proj", "self_attn.o_proj", at.hidden, out, layers, split="inputs")


def _indexed_layers(fields: Fields, layers: int) -> tuple[int, ...]:
    """The layers that keep an index of their own; the others read the one before (IndexCache)."""
    types = fields.sequence("indexer_types")
    if types:
        if len(types) < layers or any(kind not in ("full", "shared") for kind in types):
            raise fields.fault("not one of two words for each layer", "indexer_types", "full or shared")
        return tuple(index for index, kind in enumerate(types[:layers]) if kind == "full")
    pattern = fields.raw("index_topk_pattern")
    if pattern is not None:
        return tuple(index for index, sign in enumerate(str(pattern[1])[:layers]) if sign != "S")
    step = fields.integer("index_topk_freq", default=1)
    offset = fields.integer("index_skip_topk_offset", default=2, least=0)
    return tuple(index for index in range(layers) if max(index - offset + 1, 0) % step == 0)


def _indexer(fields: Fields, at: Latent, layers: LayerIndices) -> Iterator[Tensor]:
    """The index of the layers that have one: whole on every rank, its K norm in float32."""
    if not len(layers):
        return
    if at.q_rank is None:
        raise NotModelledError(Fault("an indexer without q_lora_rank", file=fields.where, key="q_lora_rank"))
    heads, head_dim = fields.integer("index_n_heads"), fields.integer("index_head_dim")
    name = "self_attn.indexer"
    query = linear("indexer", f"{name}.wq_b", f"{name}.wq_b", heads * head_dim, at.q_rank, layers, split="none")
    keys = linear(
        "indexer",
        f"{name}.wk_weights_proj",
        f"{name}.wk_weights_proj",
        head_dim + heads,
        at.hidden,
        layers,
        split="none",
        quantised=False,
    )
    yield from query
    yield from keys
    yield replace(vector("norm", f"{name}.k_norm", head_dim, layers, copies=2), element_bytes=4)


def _mixture(fields: Fields, architecture: str, hidden: int, layers: int) -> Mixture:
    """Routed and shared experts; the correction bias only where the router uses one."""
    default = "greedy" if architecture == "DeepseekV2ForCausalLM" else "noaux_tc"
    corrected = fields.text("topk_method", default=default) == "noaux_tc"
    router_bytes = 4 if architecture == "Glm4MoeLiteForCausalLM" else None
    return shared_and_routed(
        fields, hidden, layers, router_bytes=router_bytes, correction_bytes=4 if corrected else None
    )


def _rotary(fields: Fields, at: Latent, indexed: bool) -> tuple[RotaryCache, ...]:
    """One table, and a second one where the indexer rotates halves instead of pairs."""
    table = RotaryCache(fields.integer("max_position_embeddings"), at.rope_dim)
    return (table, table) if indexed and not fields.flag("indexer_rope_interleave") else (table,)
