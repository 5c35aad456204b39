"""Dense models and mixtures with grouped-query attention: the families of config_families.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from recommender.catalog.config_attention import attention_groups, layer_kinds, refuse_foreign
from recommender.catalog.config_decoder import Decoder
from recommender.catalog.config_families import ALL_HEADS, FAMILIES, Family
from recommender.catalog.config_fields import Fields
from recommender.catalog.config_layers import Heads, dense_mlp, grouped_query, vector
from recommender.catalog.config_moe import Mixture, mixture
from recommender.catalog.config_rotary import rotary_caches, rotary_dim
from recommender.catalog.models import Tensor


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes every part of a decoder needs."""

    layers: int
    vocabulary: int
    heads: Heads
    tied: bool

    @property
    def every(self) -> range:
        """All layers."""
        return range(self.layers)


def grouped(fields: Fields, architecture: str) -> Decoder:
    """The language side of a model with grouped-query attention in every layer."""
    family = FAMILIES[architecture]
    refuse_foreign(fields, architecture)
    shape = _shape(fields, family, architecture)
    kinds = layer_kinds(fields, shape.layers, family)
    mixed = mixture(family.mixture, fields, shape.heads.hidden, shape.layers) if family.mixture else None
    return Decoder(
        hidden=shape.heads.hidden,
        layers=shape.layers,
        vocabulary=shape.vocabulary,
        heads=shape.heads.heads,
        kv_heads=shape.heads.kv_heads,
        intermediate=_intermediate(fields, family, shape.heads.hidden),
        tied=shape.tied,
        tensors=tuple(_tensors(fields, family, shape, mixed)),
        attention=attention_groups(fields, kinds, shape.heads, family),
        rotary=rotary_caches(fields, family, shape.heads.head_dim),
        rotary_dim=rotary_dim(fields, family, shape.heads.head_dim),
        experts=mixed.experts if mixed else 0,
        experts_per_token=mixed.experts_per_token if mixed else 0,
        moe_intermediate=mixed.intermediate if mixed else 0,
        other_buffer_bytes=family.embedding_scale_bytes,
    )


def _shape(fields: Fields, family: Family, architecture: str) -> Shape:
    hidden = fields.integer("hidden_size", "n_embd", "d_model", "model_dim")
    heads = fields.integer("num_attention_heads", "n_head", "n_heads")
    declared = fields.optional("head_dim", "attention_head_dim") if family.own_head_dim else None
    head_dim = declared or family.default_head_dim or hidden // heads
    if not head_dim:
        raise fields.fault(f"{heads} heads do not fit a hidden size of {hidden}", "num_attention_heads")
    return Shape(
        layers=fields.layers(),
        vocabulary=fields.integer("vocab_size", "padded_vocab_size"),
        heads=Heads(hidden, heads, _kv_heads(fields, heads, architecture), head_dim, head_dim),
        tied=fields.flag("tie_word_embeddings", default=family.tied),
    )


def _kv_heads(fields: Fields, heads: int, architecture: str) -> int:
    """As declared; where it is not, all heads for classes that then take them, else an error that names the key."""
    declared = fields.optional("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
    said = architecture in ALL_HEADS or fields.is_null("num_key_value_heads") or "multi_query" in fields
    if declared is None and not said:
        raise fields.missing("num_key_value_heads")
    kv_heads = declared or (1 if fields.flag("multi_query") else heads)
    if heads % kv_heads:
        raise fields.fault(f"{heads} heads cannot share {kv_heads} KV heads", "num_key_value_heads", "a divisor")
    return kv_heads


def _intermediate(fields: Fields, family: Family, hidden: int) -> int:
    default = family.default_intermediate * hidden if family.default_intermediate else None
    return fields.integer("intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim", "d_ff", default=default)


def _flag(fields: Fields, rule: bool | str) -> bool:
    """A family's rule for a bias: fixed, or a config key with its default (`key=true`)."""
    if isinstance(rule, bool):
        return rule
    key, _, default = rule.partition("=")
    return fields.flag(key, default=default == "true")


def _tensors(fields: Fields, family: Family, shape: Shape, mixed: Mixture | None) -> Iterator[Tensor]:
    hidden, every = shape.heads.hidden, shape.every
    yield from _embeddings(fields, family, shape)
    yield from grouped_query(
        shape.heads, every, qkv_bias=_flag(fields, family.qkv_bias), o_bias=_flag(fields, family.o_bias)
    )
    yield from _qk_norms(fields, family, shape)
    if family.sinks:
        yield vector("attention", "self_attn.sinks", shape.heads.heads, every, split="outputs")
    dense_layers = mixed.dense_layers if mixed else every
    if mixed:
        yield from mixed.tensors
    if len(dense_layers):
        yield from dense_mlp(
            hidden,
            _intermediate(fields, family, hidden),
            dense_layers,
            bias=_flag(fields, family.mlp_bias),
            gated=family.gated,
        )
    if family.block_norms:
        yield vector("norm", "layernorm", hidden, every, copies=family.block_norms * family.norm_vectors)
        yield vector("norm", "norm", hidden, range(0), copies=family.norm_vectors)


def _embeddings(fields: Fields, family: Family, shape: Shape) -> Iterator[Tensor]:
    hidden, outside = shape.heads.hidden, range(0)
    embedding = Tensor(
        "embed_tokens.weight", "embedding", shape.vocabulary, hidden, 1, "vocabulary", quantised=False, layers=outside
    )
    yield embedding
    if family.positions:
        positions = fields.integer("n_positions", "max_position_embeddings")
        yield Tensor("wpe.weight", "embedding", positions, hidden, 1, "none", quantised=False, layers=outside)
    if not shape.tied:
        yield replace(embedding, name="lm_head.weight", group="lm_head")
        if _flag(fields, family.head_bias):
            yield replace(embedding, name="lm_head.bias", group="lm_head", inputs=1)


def _qk_norms(fields: Fields, family: Family, shape: Shape) -> Iterator[Tensor]:
    kind = family.qk_norm
    if family.qk_norm_key is not None and not fields.flag(family.qk_norm_key):
        kind = "none"
    at, every = shape.heads, shape.every
    full_q, full_k = at.heads * at.head_dim, at.kv_heads * at.head_dim
    if kind == "head":
        yield vector("norm", "self_attn.q_norm", at.head_dim, every)
        yield vector("norm", "self_attn.k_norm", at.head_dim, every)
    elif kind == "full":
        yield vector("norm", "self_attn.q_norm", full_q, every)
        yield vector("norm", "self_attn.k_norm", full_k, every)
    elif kind in ("sharded", "per_head"):
        yield vector("norm", "self_attn.q_norm", full_q, every, split="outputs")
        yield vector("norm", "self_attn.k_norm", full_k, every, split="kv_heads", heads=at.kv_heads)
