"""Granite 4: Mamba-2 or attention layers, each with a mixture or a shared MLP.

Read from vLLM 0.33.0 model_executor/models/granitemoehybrid.py.
"""

from __future__ import annotations

from recommender.catalog.config_decoder import Decoder, block_norms, embeddings, sizes
from recommender.catalog.config_fields import Fields
from recommender.catalog.config_layers import Heads, dense_mlp, grouped_query, routed_experts, router
from recommender.catalog.config_mamba import Mamba2, full_layers, layers_of, mamba2_layers, mamba2_tensors
from recommender.catalog.models import RotaryCache
from recommender.errors import Fault, NotModelledError

GRANITE = ("GraniteMoeHybridForCausalLM",)


def granite(fields: Fields, architecture: str) -> Decoder:
    """The language side of Granite 4."""
    hidden, layers, vocabulary = sizes(fields)
    heads = fields.integer("num_attention_heads")
    at = Heads(hidden, heads, fields.integer("num_key_value_heads"), hidden // heads, hidden // heads)
    kinds = [str(kind) for kind in fields.sequence("layer_types", "layers_block_type")]
    if len(kinds) != layers or set(kinds) - {"mamba", "attention"}:
        raise fields.fault(f"{len(kinds)} layers of {sorted(set(kinds))}", "layer_types", "mamba or attention a layer")
    experts = fields.integer("num_local_experts", default=0, least=0)
    width = fields.integer("intermediate_size")
    shared, every = fields.integer("shared_intermediate_size", default=0, least=0), range(layers)
    tied, bias = fields.flag("tie_word_embeddings"), fields.flag("attention_bias")
    full, mamba_layers = layers_of(kinds, "attention"), layers_of(kinds, "mamba")
    recurrent = _recurrent(fields) if len(mamba_layers) else None
    state_dtype = fields.text("mamba_ssm_cache_dtype", default="auto")
    rotated = at.head_dim if _rotates(fields) else 0
    tensors = [
        *embeddings(vocabulary, hidden, tied=tied),
        *grouped_query(at, full, qkv_bias=bias, o_bias=bias),
        *(mamba2_tensors(recurrent, hidden, mamba_layers, prefix="mamba") if recurrent else ()),
        *(routed_experts(hidden, width, experts, every, prefix="block_sparse_moe") if experts else ()),
        *(router(hidden, experts, every, prefix="block_sparse_moe") if experts else ()),
        *(dense_mlp(hidden, shared, every, prefix="shared_mlp") if shared else ()),
        *block_norms(hidden, layers),
    ]
    return Decoder(
        hidden=hidden,
        layers=layers,
        vocabulary=vocabulary,
        heads=heads,
        kv_heads=at.kv_heads,
        intermediate=shared or width,
        tied=tied,
        tensors=tuple(tensors),
        attention=(
            *((mamba2_layers(recurrent, mamba_layers, state_dtype),) if recurrent else ()),
            full_layers(at, full),
        ),
        rotary=(RotaryCache(fields.integer("max_position_embeddings"), rotated),) if rotated else (),
        rotary_dim=rotated,
        experts=experts,
        experts_per_token=fields.integer("num_experts_per_tok", default=0, least=0),
        moe_intermediate=width if experts else 0,
        tp_divides=(("mamba_n_heads", recurrent.heads),) if recurrent else (),
    )


def _recurrent(fields: Fields) -> Mamba2:
    return Mamba2(
        heads=fields.integer("mamba_n_heads"),
        head_dim=fields.integer("mamba_d_head"),
        groups=fields.integer("mamba_n_groups", default=1),
        state=fields.integer("mamba_d_state"),
        kernel=fields.integer("mamba_d_conv", default=4),
        conv_bias=fields.flag("mamba_conv_bias", default=True),
        bias=fields.flag("mamba_proj_bias"),
    )


def _rotates(fields: Fields) -> bool:
    word = fields.text("position_embedding_type", default="nope")
    if word not in ("nope", "rope"):
        raise NotModelledError(Fault(f"positions {word!r}", file=fields.where, key="position_embedding_type"))
    return word == "rope"
