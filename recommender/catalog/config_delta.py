"""Hybrids of attention and gated delta-rule layers: Qwen3-Next, Qwen3.5 (GDN).

Read from vLLM 0.33.0 model_executor/models/{qwen3_next,qwen3_5}.py and layers/mamba/gdn/qwen_gdn_linear_attn.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from recommender.catalog.config_attention import compact
from recommender.catalog.config_decoder import Decoder, block_norms, embeddings, sizes
from recommender.catalog.config_fields import Fields
from recommender.catalog.config_layers import Heads, dense_mlp, grouped_query, linear, vector
from recommender.catalog.config_moe import Mixture, mixture
from recommender.catalog.config_rotary import partial_rotary_share
from recommender.catalog.models import AttentionLayers, LayerIndices, RotaryCache, StateTensor, Tensor
from recommender.errors import Fault, NotModelledError

DELTA = ("Qwen3NextForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM")
_EVERY_FOURTH = 4


@dataclass(frozen=True, slots=True)
class Delta:
    """The geometry of a gated delta-rule layer."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int

    @property
    def keys(self) -> int:
        """Width of all keys together."""
        return self.key_heads * self.key_dim

    @property
    def values(self) -> int:
        """Width of all values together."""
        return self.value_heads * self.value_dim

    @property
    def convolved(self) -> int:
        """Channels of the short convolution: queries, keys and values."""
        return 2 * self.keys + self.values


def delta(fields: Fields, architecture: str) -> Decoder:
    """The language side of a Qwen hybrid."""
    hidden, layers, vocabulary = sizes(fields)
    heads, head_dim = fields.integer("num_attention_heads"), fields.integer("head_dim")
    at = Heads(hidden, heads, fields.integer("num_key_value_heads"), head_dim, head_dim)
    full, linear_layers = layers_of(fields, layers)
    geometry = _geometry(fields)
    tied = fields.flag("tie_word_embeddings")
    mixed = mixture("qwen2_moe", fields, hidden, layers) if "num_experts" in fields else None
    share = partial_rotary_share(fields, default=0.25)
    tensors = [
        *embeddings(vocabulary, hidden, tied=tied),
        *grouped_query(at, full, qkv_bias=fields.flag("qkv_bias"), gate=fields.flag("attn_output_gate", default=True)),
        vector("norm", "self_attn.q_norm", head_dim, full),
        vector("norm", "self_attn.k_norm", head_dim, full),
        *_delta_tensors(geometry, hidden, linear_layers, fused=architecture == "Qwen3NextForCausalLM"),
        *_feed_forward(fields, mixed, hidden, layers),
        *block_norms(hidden, layers),
    ]
    return Decoder(
        hidden=hidden,
        layers=layers,
        vocabulary=vocabulary,
        heads=heads,
        kv_heads=at.kv_heads,
        intermediate=fields.integer("intermediate_size", "moe_intermediate_size"),
        tied=tied,
        tensors=tuple(tensors),
        attention=(
            _recurrent(geometry, linear_layers, fields.text("mamba_ssm_dtype", default="auto")),
            AttentionLayers("full", len(full), at.kv_heads, head_dim, head_dim, indices=full),
        ),
        rotary=(RotaryCache(fields.integer("max_position_embeddings"), int(head_dim * share)),),
        rotary_dim=int(head_dim * share),
        experts=mixed.experts if mixed else 0,
        experts_per_token=mixed.experts_per_token if mixed else 0,
        moe_intermediate=mixed.intermediate if mixed else 0,
        tp_divides=(("linear_num_key_heads", geometry.key_heads), ("linear_num_value_heads", geometry.value_heads)),
    )


def layers_of(fields: Fields, layers: int) -> tuple[LayerIndices, LayerIndices]:
    """(full attention layers, linear layers), by list or by interval."""
    types = fields.sequence("layer_types")
    if types:
        unknown = sorted({str(kind) for kind in types} - {"full_attention", "linear_attention"})
        if unknown:
            raise NotModelledError(
                Fault(f"layer types {', '.join(unknown)} are not modelled here", file=fields.where, key="layer_types")
            )
        if len(types) < layers:
            raise fields.fault(f"{len(types)} entries for {layers} layers", "layer_types", f"{layers} entries")
        full = tuple(index for index in range(layers) if types[index] == "full_attention")
    else:
        step = fields.integer("full_attention_interval", default=_EVERY_FOURTH)
        full = tuple(index for index in range(layers) if (index + 1) % step == 0)
    rest = tuple(index for index in range(layers) if index not in set(full))
    return compact(full), compact(rest)


def _geometry(fields: Fields) -> Delta:
    return Delta(
        key_heads=fields.integer("linear_num_key_heads"),
        value_heads=fields.integer("linear_num_value_heads"),
        key_dim=fields.integer("linear_key_head_dim"),
        value_dim=fields.integer("linear_value_head_dim"),
        kernel=fields.integer("linear_conv_kernel_dim", default=4),
    )


def _delta_tensors(at: Delta, hidden: int, layers: LayerIndices, *, fused: bool) -> Iterator[Tensor]:
    """Projections by head; `fused` checkpoints hold q, k, v and z as one matrix, and b and a as another."""
    group, prefix = "attention", "linear_attn"
    projected = {"qkvz": 2 * at.keys + 2 * at.values} if fused else {"qkv": at.convolved, "z": at.values}
    for part, width in projected.items():
        yield from linear(
            group, f"{prefix}.in_proj_qkvz", f"{prefix}.in_proj_{part}", width, hidden, layers, split="outputs"
        )
    for part in ("ba",) if fused else ("b", "a"):
        width = at.value_heads * (2 if fused else 1)
        name = f"{prefix}.in_proj_{part}"
        yield from linear(group, f"{prefix}.in_proj_ba", name, width, hidden, layers, split="outputs")
    name = f"{prefix}.conv1d"
    yield from linear(group, name, name, at.convolved, at.kernel, layers, split="outputs", quantised=False)
    yield vector(group, f"{prefix}.dt_bias", at.value_heads, layers, split="outputs")
    yield replace(vector(group, f"{prefix}.A_log", at.value_heads, layers, split="outputs"), element_bytes=4)
    yield vector("norm", f"{prefix}.norm", at.value_dim, layers)
    name = f"{prefix}.out_proj"
    yield from linear(group, name, name, hidden, at.values, layers, split="inputs")


def _feed_forward(fields: Fields, mixed: Mixture | None, hidden: int, layers: int) -> Iterator[Tensor]:
    dense: LayerIndices = range(layers)
    if mixed:
        yield from mixed.tensors
        dense = mixed.dense_layers
    if len(dense):
        yield from dense_mlp(hidden, fields.integer("intermediate_size"), dense)


def _recurrent(at: Delta, layers: LayerIndices, dtype: str) -> AttentionLayers:
    state = at.value_heads * at.value_dim * at.key_dim
    return AttentionLayers(
        kind="linear",
        layers=len(layers),
        kv_heads=0,
        head_dim=0,
        v_head_dim=0,
        indices=layers,
        recurrence="gdn",
        state=(
            StateTensor("conv", at.convolved * (at.kernel - 1), 0, 0, "auto"),
            StateTensor("ssm", state, 0, 0, dtype),
        ),
    )
