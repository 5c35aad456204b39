"""Falcon (7B, 40B, 180B), by its own key names.

Read from vLLM 0.33.0 model_executor/models/falcon.py.
"""

from __future__ import annotations

from recommender.catalog.config_decoder import Decoder, embeddings
from recommender.catalog.config_fields import Fields
from recommender.catalog.config_layers import Heads, dense_mlp, grouped_query, vector
from recommender.catalog.models import AttentionLayers, RotaryCache
from recommender.errors import Fault, NotModelledError

FALCON = ("FalconForCausalLM",)
_SEQUENCE_LENGTH = 2048  # of the checkpoints that do not say it


def falcon(fields: Fields, architecture: str) -> Decoder:
    """The language side of a Falcon model; norms count to the block they stand in."""
    if fields.flag("alibi"):
        raise NotModelledError(Fault(f"{architecture} with ALiBi", file=fields.where, key="alibi"))
    hidden, layers = fields.integer("hidden_size"), fields.layers()
    heads = fields.integer("num_attention_heads", "n_head")
    head_dim, every = hidden // heads, range(layers)
    new = fields.flag("new_decoder_architecture")
    grouped = fields.integer("num_kv_heads", "n_head_kv", default=heads) if new else heads
    kv_heads = 1 if fields.flag("multi_query") and not new else grouped
    at = Heads(hidden, heads, kv_heads, head_dim, head_dim)
    bias, two = fields.flag("bias"), new and fields.integer("num_ln_in_parallel_attn", default=2) == 2
    parallel = new or fields.flag("parallel_attn", default=True)
    tied = fields.flag("tie_word_embeddings", default=True)
    wide = fields.integer("ffn_hidden_size", default=4 * hidden)
    tensors = [
        *embeddings(fields.integer("vocab_size"), hidden, tied=tied),
        *grouped_query(at, every, qkv_bias=bias, o_bias=bias),
        *dense_mlp(hidden, wide, every, bias=bias, gated=False),
        vector("attention" if two else "norm", "ln_attn", hidden, every, copies=2),
        vector("other", "ln_f", hidden, range(0), copies=2),
    ]
    if two or not parallel:
        tensors.append(vector("mlp" if two else "norm", "ln_mlp", hidden, every, copies=2))
    return Decoder(
        hidden=hidden,
        layers=layers,
        vocabulary=fields.integer("vocab_size"),
        heads=heads,
        kv_heads=kv_heads,
        intermediate=wide,
        tied=tied,
        tensors=tuple(tensors),
        attention=(AttentionLayers("full", layers, kv_heads, head_dim, head_dim, indices=every),),
        rotary=(RotaryCache(fields.integer("max_position_embeddings", default=_SEQUENCE_LENGTH), head_dim),),
        rotary_dim=head_dim,
    )
