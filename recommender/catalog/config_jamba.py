"""Jamba: Mamba-1 and attention layers, with mixtures in some of them.

Read from vLLM 0.33.0 model_executor/models/jamba.py and layers/mamba/mamba_mixer.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from recommender.catalog.config_attention import compact
from recommender.catalog.config_decoder import Decoder, block_norms, embeddings, sizes
from recommender.catalog.config_fields import Fields
from recommender.catalog.config_layers import Heads, dense_mlp, grouped_query, linear, routed_experts, router, vector
from recommender.catalog.config_mamba import full_layers
from recommender.catalog.models import AttentionLayers, LayerIndices, Split, StateTensor, Tensor

JAMBA = ("JambaForCausalLM",)


def jamba(fields: Fields, architecture: str) -> Decoder:
    """The language side of Jamba."""
    hidden, layers, vocabulary = sizes(fields)
    heads = fields.integer("num_attention_heads")
    at = Heads(hidden, heads, fields.integer("num_key_value_heads"), hidden // heads, hidden // heads)
    full = _periodic(layers, fields.integer("attn_layer_period"), fields.integer("attn_layer_offset", least=0))
    experts = fields.integer("num_experts", default=1)
    period, offset = fields.integer("expert_layer_period"), fields.integer("expert_layer_offset", least=0)
    sparse = _periodic(layers, period, offset) if experts > 1 else range(0)
    recurrent = compact(tuple(index for index in range(layers) if index not in set(full)))
    dense = compact(tuple(index for index in range(layers) if index not in set(sparse)))
    width, tied = fields.integer("intermediate_size"), fields.flag("tie_word_embeddings")
    inner = fields.integer("mamba_expand", default=2) * hidden
    kernel, state = fields.integer("mamba_d_conv", default=4), fields.integer("mamba_d_state", default=16)
    tensors = [
        *embeddings(vocabulary, hidden, tied=tied),
        *grouped_query(at, full, group="other"),
        *_mamba1_tensors(fields, hidden, inner, recurrent),
        *dense_mlp(hidden, width, dense),
        *(routed_experts(hidden, width, experts, sparse) if len(sparse) else ()),
        *(router(hidden, experts, sparse) if len(sparse) else ()),
        *block_norms(hidden, layers),
    ]
    return Decoder(
        hidden=hidden,
        layers=layers,
        vocabulary=vocabulary,
        heads=heads,
        kv_heads=at.kv_heads,
        intermediate=width,
        tied=tied,
        tensors=tuple(tensors),
        attention=(
            AttentionLayers(
                kind="linear",
                layers=len(recurrent),
                kv_heads=0,
                head_dim=0,
                v_head_dim=0,
                indices=recurrent,
                recurrence="mamba1",
                state=(
                    StateTensor("conv", inner * (kernel - 1), 0, 0, "auto"),
                    StateTensor("ssm", inner * state, 0, 0, "auto"),
                ),
            ),
            full_layers(at, full),
        ),
        rotary=(),
        rotary_dim=0,
        experts=experts if len(sparse) else 0,
        experts_per_token=fields.integer("num_experts_per_tok", default=2) if len(sparse) else 0,
        moe_intermediate=width if len(sparse) else 0,
    )


def _periodic(layers: int, period: int, offset: int) -> LayerIndices:
    return compact(tuple(index for index in range(layers) if index % period == offset))


def _mamba1_tensors(fields: Fields, hidden: int, inner: int, layers: LayerIndices) -> Iterator[Tensor]:
    """A Mamba-1 layer; the engine never quantises it."""
    kernel, state = fields.integer("mamba_d_conv", default=4), fields.integer("mamba_d_state", default=16)
    rank = fields.integer("mamba_dt_rank", default=-(-hidden // 16))
    bias, name = fields.flag("mamba_proj_bias"), "mamba"

    def part(what: str, outputs: int, inputs: int, split: Split, *, biased: bool = False) -> Iterator[Tensor]:
        module = f"{name}.{what}"
        return linear("mixer", module, module, outputs, inputs, layers, split=split, bias=biased, quantised=False)

    yield from part("in_proj", 2 * inner, hidden, "outputs", biased=bias)
    yield from part("conv1d", inner, kernel, "outputs", biased=fields.flag("mamba_conv_bias", default=True))
    yield from part("x_proj", rank + 2 * state, inner, "inputs")
    yield from part("dt_proj", inner, rank, "outputs", biased=True)
    for tensor in part("A", inner, state, "outputs"):
        yield replace(tensor, element_bytes=4)
    yield vector("mixer", f"{name}.D", inner, layers, split="outputs")
    yield from part("out_proj", hidden, inner, "inputs", biased=bias)
    yield vector("norm", f"{name}.dt_layernorm", rank, layers)
    yield vector("norm", f"{name}.b_layernorm", state, layers)
    yield vector("norm", f"{name}.c_layernorm", state, layers)
