"""Kimi Linear and Kimi K3: delta attention (KDA) with latent attention (MLA) in between.

Read from vLLM 0.33.0 models/kimi_k3/nvidia/{model,kda,mla}.py and layers/mamba/gdn/kimi_gdn_linear_attn.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from recommender.catalog.config_attention import compact
from recommender.catalog.config_decoder import Decoder, block_norms, embeddings, sizes
from recommender.catalog.config_fields import Fields
from recommender.catalog.config_latent import latent_geometry, latent_layers, latent_tensors
from recommender.catalog.config_layers import dense_mlp, linear, routed_experts, router, vector
from recommender.catalog.models import AttentionLayers, LayerIndices, Split, StateTensor, Tensor

KIMI_LINEAR = ("KimiLinearForCausalLM",)
_PROJECTION_MULTIPLE = 16  # kda.py: outputs of the fused projection are aligned on each rank
_LEAST_EXPERT_WIDTH = 256  # min_moe_intermediate_per_partition
_LATENT_BUFFER_BYTES = 4  # each MLA layer keeps one more float32 than other attention layers


@dataclass(frozen=True, slots=True)
class Delta:
    """The geometry of a KDA layer."""

    heads: int
    head_dim: int
    kernel: int
    full_rank_gate: bool

    @property
    def width(self) -> int:
        """Channels of all heads together."""
        return self.heads * self.head_dim


def kimi_linear(fields: Fields, architecture: str) -> Decoder:
    """The language side of a Kimi Linear model."""
    hidden, layers, vocabulary = sizes(fields)
    at = latent_geometry(fields, hidden)
    recurrent, full, delta_layers = _layers(fields, layers)
    sparse, dense = _sparse(fields, layers)
    tied = fields.flag("tie_word_embeddings")
    gate = fields.flag("mla_use_output_gate")
    tensors = [
        *embeddings(vocabulary, hidden, tied=tied),
        *latent_tensors(at, full, gate=gate),
        *_delta_tensors(recurrent, hidden, delta_layers),
        *_experts(fields, hidden, sparse),
        *dense_mlp(hidden, fields.integer("intermediate_size"), dense),
        *block_norms(hidden, layers),
        *(_residual_attention(hidden, layers) if "attn_res_block_size" in fields else ()),
    ]
    return Decoder(
        hidden=hidden,
        layers=layers,
        vocabulary=vocabulary,
        heads=at.heads,
        kv_heads=1,
        intermediate=fields.integer("intermediate_size"),
        tied=tied,
        tensors=tuple(tensor for tensor in tensors if len(tensor.layers) or not tensor.module),
        attention=(_recurrent(recurrent, delta_layers), latent_layers(at, full)),
        rotary=(),
        rotary_dim=0,
        experts=fields.integer("num_experts"),
        experts_per_token=fields.integer("num_experts_per_token", "num_experts_per_tok"),
        moe_intermediate=fields.integer("moe_intermediate_size"),
        other_buffer_bytes=_LATENT_BUFFER_BYTES * len(full),
        tp_divides=(("linear_attn_config.num_heads", recurrent.heads),),
    )


def _layers(fields: Fields, layers: int) -> tuple[Delta, LayerIndices, LayerIndices]:
    """(KDA geometry, latent layers, KDA layers); the config counts layers from 1."""
    config = fields.inner("linear_attn_config")
    geometry = Delta(
        heads=config.integer("num_heads"),
        head_dim=config.integer("head_dim"),
        kernel=config.integer("short_conv_kernel_size", default=4),
        full_rank_gate=config.flag("use_full_rank_gate"),
    )
    listed = config.sequence("kda_layers")
    if any(isinstance(index, bool) or not isinstance(index, int) or not 0 < index <= layers for index in listed):
        raise config.fault("an entry that is no layer", "linear_attn_config.kda_layers", f"numbers from 1 to {layers}")
    delta = {index - 1 for index in listed}
    full = compact(tuple(index for index in range(layers) if index not in delta))
    return geometry, full, compact(tuple(index for index in range(layers) if index in delta))


def _sparse(fields: Fields, layers: int) -> tuple[LayerIndices, LayerIndices]:
    first = fields.integer("first_k_dense_replace", default=0, least=0)
    step = fields.integer("moe_layer_freq", default=1)
    sparse = compact(tuple(index for index in range(first, layers) if index % step == 0))
    return sparse, compact(tuple(index for index in range(layers) if index not in set(sparse)))


def _delta_tensors(at: Delta, hidden: int, layers: LayerIndices) -> Iterator[Tensor]:
    """Projections by head; the decay's down-projection is whole on every rank, convolution and decays in float32."""
    group, full = "attention", at.full_rank_gate
    parts: list[tuple[str, int, Split]] = [(part, at.width, "outputs") for part in ("qkvg" if full else "qkv")]
    parts += [("f_a", at.head_dim, "none"), ("b", at.heads, "outputs")]
    for part, width, side in parts:
        name = f"self_attn.{part}_proj"
        for tensor in linear(group, "self_attn.in_proj_qkvgfab", name, width, hidden, layers, split=side):
            yield replace(tensor, multiple=_PROJECTION_MULTIPLE if full else 1)
    name = "self_attn.f_b_proj"
    yield from linear(group, name, name, at.width, at.head_dim, layers, split="outputs")
    yield replace(vector(group, "self_attn.dt_bias", at.width, layers, split="outputs"), element_bytes=4)
    name = "self_attn.conv1d"
    for tensor in linear(group, name, name, 3 * at.width, at.kernel, layers, split="outputs", quantised=False):
        yield replace(tensor, element_bytes=4)
    yield replace(vector(group, "self_attn.A_log", at.heads, layers, split="outputs"), element_bytes=4)
    if not at.full_rank_gate:
        down, up = "self_attn.g_a_proj", "self_attn.g_b_proj"
        yield from linear(group, down, down, at.head_dim, hidden, layers, split="none")
        yield from linear(group, up, up, at.width, at.head_dim, layers, split="outputs")
    else:
        yield from _decode_copies(at, layers)
    yield vector("norm", "self_attn.o_norm", at.head_dim, layers)
    name = "self_attn.o_proj"
    yield from linear(group, name, name, hidden, at.width, layers, split="inputs")


def _decode_copies(at: Delta, layers: LayerIndices) -> Iterator[Tensor]:
    """Float32 copies that the fused decode kernel reads: the convolution in another layout, and the norm."""
    for tensor in linear("buffer", "", "decode_conv1d", 3 * at.width, at.kernel, layers, split="outputs"):
        yield replace(tensor, element_bytes=4, quantised=False)
    yield replace(vector("buffer", "decode_norm", at.head_dim, layers), element_bytes=4)


def _recurrent(at: Delta, layers: LayerIndices) -> AttentionLayers:
    return AttentionLayers(
        kind="linear",
        layers=len(layers),
        kv_heads=0,
        head_dim=0,
        v_head_dim=0,
        indices=layers,
        recurrence="kda",
        state=(
            StateTensor("conv", 3 * at.width * (at.kernel - 1), 0, 0, "auto"),
            StateTensor("ssm", at.width * at.head_dim, 0, 0, "float32"),
        ),
    )


def _experts(fields: Fields, hidden: int, layers: LayerIndices) -> Iterator[Tensor]:
    """Routed experts (in a latent of their own where the config has one), shared experts, router."""
    experts, width = fields.integer("num_experts"), fields.integer("moe_intermediate_size")
    latent = fields.optional("routed_expert_hidden_size")
    for tensor in routed_experts(latent or hidden, width, experts, layers):
        yield replace(tensor, least=_LEAST_EXPERT_WIDTH)
    yield from router(hidden, experts, layers, correction_bytes=4)
    shared = fields.integer("num_shared_experts", default=0, least=0)
    if shared:
        yield from dense_mlp(hidden, shared * width, layers, group="shared_experts", prefix="mlp.shared_experts")
    if latent:
        down, up = "mlp.routed_expert_down_proj", "mlp.routed_expert_up_proj"
        yield from linear("mlp", down, down, latent, hidden, layers, split="none")
        yield from linear("mlp", up, up, hidden, latent, layers, split="none")
        if fields.flag("latent_moe_use_norm"):
            yield vector("norm", "mlp.routed_expert_norm", latent, layers)


def _residual_attention(hidden: int, layers: int) -> Iterator[Tensor]:
    """A norm and a score vector before each attention and each MLP, and before the head."""
    every = range(layers)
    yield vector("attention", "self_attention_res_proj", hidden, every)
    yield vector("mlp", "mlp_res_proj", hidden, every)
    yield vector("norm", "res_norm", hidden, every, copies=2)
    yield vector("attention", "output_attn_res_proj", hidden, range(0))
    yield vector("norm", "output_attn_res_norm", hidden, range(0))
