"""Hybrids of attention and Mamba layers: Nemotron-H and Granite 4 (Mamba-2), Jamba (Mamba-1).

Read from vLLM 0.33.0 model_executor/models/{nemotron_h,granitemoehybrid,jamba}.py and layers/mamba/mamba_mixer*.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from recommender.catalog.config_attention import compact
from recommender.catalog.config_decoder import Decoder, block_norms, embeddings, sizes
from recommender.catalog.config_fields import Fields
from recommender.catalog.config_layers import Heads, dense_mlp, grouped_query, linear, routed_experts, router, vector
from recommender.catalog.models import AttentionLayers, LayerIndices, StateTensor, Tensor
from recommender.errors import Fault, NotModelledError

MAMBA = ("NemotronHForCausalLM", "GraniteMoeHybridForCausalLM", "JambaForCausalLM")
_NEMOTRON_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


@dataclass(frozen=True, slots=True)
class Mamba2:
    """The geometry of a Mamba-2 layer."""

    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    conv_bias: bool
    bias: bool

    @property
    def width(self) -> int:
        """Channels of all heads together."""
        return self.heads * self.head_dim


def mamba(fields: Fields, architecture: str) -> Decoder:
    """The language side of one of these hybrids."""
    if architecture.startswith("NemotronH"):
        return _nemotron(fields)
    return _jamba(fields) if architecture.startswith("Jamba") else _granite(fields)


def mamba2_tensors(at: Mamba2, hidden: int, layers: LayerIndices, prefix: str = "mixer") -> Iterator[Tensor]:
    """Heads are split, groups too until there are more ranks than groups."""
    grouped = at.groups * at.state
    module, name = f"{prefix}.in_proj", f"{prefix}.in_proj"
    parts = (("z", at.width), ("x", at.width), ("B", grouped), ("C", grouped), ("dt", at.heads))
    for part, width in parts:
        by_group = part in ("B", "C")
        yield from linear(
            "mixer",
            module,
            name,
            width,
            hidden,
            layers,
            split="kv_heads" if by_group else "outputs",
            heads=at.groups if by_group else 0,
            bias=at.bias,
        )
    yield from _conv(at, layers, prefix, grouped)
    yield replace(vector("mixer", f"{prefix}.A", at.heads, layers, split="outputs"), element_bytes=4)
    yield vector("mixer", f"{prefix}.D", at.heads, layers, split="outputs")
    yield vector("mixer", f"{prefix}.dt_bias", at.heads, layers, split="outputs")
    yield vector("norm", f"{prefix}.norm", at.width, layers, split="outputs")
    name = f"{prefix}.out_proj"
    yield from linear("mixer", name, name, hidden, at.width, layers, split="inputs", bias=at.bias)


def _conv(at: Mamba2, layers: LayerIndices, prefix: str, grouped: int) -> Iterator[Tensor]:
    name = f"{prefix}.conv1d"
    yield from linear(
        "mixer", name, name, at.width, at.kernel, layers, split="outputs", bias=at.conv_bias, quantised=False
    )
    for _ in ("B", "C"):
        yield from linear(
            "mixer",
            name,
            name,
            grouped,
            at.kernel,
            layers,
            split="kv_heads",
            heads=at.groups,
            bias=at.conv_bias,
            quantised=False,
        )


def mamba2_layers(at: Mamba2, layers: LayerIndices, dtype: str) -> AttentionLayers:
    """What one request keeps in those layers."""
    back = at.kernel - 1
    return AttentionLayers(
        kind="linear",
        layers=len(layers),
        kv_heads=0,
        head_dim=0,
        v_head_dim=0,
        indices=layers,
        recurrence="mamba2",
        state=(
            StateTensor("conv", at.width * back, at.groups, 2 * at.state * back, "auto"),
            StateTensor("ssm", at.width * at.state, 0, 0, dtype),
        ),
    )


def _full(at: Heads, layers: LayerIndices) -> AttentionLayers:
    return AttentionLayers("full", len(layers), at.kv_heads, at.head_dim, at.v_head_dim, indices=layers)


def _where(kinds: list[str], kind: str) -> LayerIndices:
    return compact(tuple(index for index, found in enumerate(kinds) if found == kind))


def _nemotron_kinds(fields: Fields) -> list[str]:
    named = fields.sequence("layers_block_type")
    if named:
        kinds = [str(kind) for kind in named]
    else:
        pattern = fields.text("hybrid_override_pattern")
        kinds = [_NEMOTRON_LETTERS.get(letter, letter) for letter in pattern]
    unknown = sorted(set(kinds) - set(_NEMOTRON_LETTERS.values()))
    if unknown or not kinds:
        said = f"layers {', '.join(unknown) or 'without a pattern'}"
        raise NotModelledError(Fault(said, file=fields.where, key="hybrid_override_pattern"))
    return kinds


def _nemotron(fields: Fields) -> Decoder:
    kinds = _nemotron_kinds(fields)
    hidden, vocabulary, layers = fields.integer("hidden_size"), fields.integer("vocab_size"), len(kinds)
    heads = fields.integer("num_attention_heads")
    head_dim = fields.integer("head_dim", "attention_head_dim", default=hidden // heads)
    at = Heads(hidden, heads, fields.integer("num_key_value_heads"), head_dim, head_dim)
    recurrent = Mamba2(
        heads=fields.integer("mamba_num_heads"),
        head_dim=fields.integer("mamba_head_dim"),
        groups=fields.integer("n_groups"),
        state=fields.integer("ssm_state_size"),
        kernel=fields.integer("conv_kernel", default=4),
        conv_bias=fields.flag("use_conv_bias", default=True),
        bias=fields.flag("use_bias"),
    )
    full, mamba_layers, sparse = _where(kinds, "attention"), _where(kinds, "mamba"), _where(kinds, "moe")
    tied = fields.flag("tie_word_embeddings")
    mlp = dense_mlp(
        hidden,
        _intermediate(fields, hidden),
        _where(kinds, "mlp"),
        bias=fields.flag("mlp_bias"),
        gated=False,
        group="mixer",
        prefix="mixer",
    )
    tensors = [
        *embeddings(vocabulary, hidden, tied=tied),
        *grouped_query(at, full, group="mixer", prefix="mixer"),
        *mamba2_tensors(recurrent, hidden, mamba_layers),
        *mlp,
        *(_nemotron_experts(fields, hidden, sparse) if len(sparse) else ()),
        *block_norms(hidden, layers, copies=1),
    ]
    return Decoder(
        hidden=hidden,
        layers=layers,
        vocabulary=vocabulary,
        heads=heads,
        kv_heads=at.kv_heads,
        intermediate=_intermediate(fields, hidden),
        tied=tied,
        tensors=tuple(tensor for tensor in tensors if len(tensor.layers) or not tensor.module),
        attention=(
            mamba2_layers(recurrent, mamba_layers, fields.text("mamba_ssm_cache_dtype", default="float32")),
            _full(at, full),
        ),
        rotary=(),
        rotary_dim=0,
        experts=fields.integer("n_routed_experts") if len(sparse) else 0,
        experts_per_token=fields.integer("num_experts_per_tok") if len(sparse) else 0,
        moe_intermediate=fields.integer("moe_intermediate_size") if len(sparse) else 0,
        tp_divides=(("mamba_num_heads", recurrent.heads),),
    )


def _intermediate(fields: Fields, hidden: int) -> int:
    found = fields.raw("intermediate_size")
    if found is not None and isinstance(found[1], list):
        widths = found[1]
        if len(set(map(str, widths))) != 1:
            raise NotModelledError(Fault("MLPs of different widths", file=fields.where, key="intermediate_size"))
        return Fields({"intermediate_size": widths[0]}, fields.where).integer("intermediate_size")
    return fields.integer("intermediate_size", default=4 * hidden)


def _nemotron_experts(fields: Fields, hidden: int, layers: LayerIndices) -> Iterator[Tensor]:
    experts, width = fields.integer("n_routed_experts"), fields.integer("moe_intermediate_size")
    latent = fields.optional("moe_latent_size")
    yield from routed_experts(latent or hidden, width, experts, layers, gated=False, prefix="mixer")
    yield from router(hidden, experts, layers, correction_bytes=4, prefix="mixer")
    shared = fields.integer("n_shared_experts", default=0, least=0)
    if shared:
        wide = shared * fields.integer("moe_shared_expert_intermediate_size")
        yield from dense_mlp(hidden, wide, layers, gated=False, group="shared_experts", prefix="mixer.shared_experts")
    if latent:
        bias = fields.flag("mlp_bias")
        down, up = "mixer.fc1_latent_proj", "mixer.fc2_latent_proj"
        yield from linear("mixer", down, down, latent, hidden, layers, split="none", bias=bias)
        yield from linear("mixer", up, up, hidden, latent, layers, split="none", bias=bias)


def _granite(fields: Fields) -> Decoder:
    hidden, layers, vocabulary = sizes(fields)
    heads = fields.integer("num_attention_heads")
    at = Heads(hidden, heads, fields.integer("num_key_value_heads"), hidden // heads, hidden // heads)
    kinds = [str(kind) for kind in fields.sequence("layer_types", "layers_block_type")]
    if len(kinds) != layers or set(kinds) - {"mamba", "attention"}:
        raise fields.fault(f"{len(kinds)} layers of {sorted(set(kinds))}", "layer_types", "mamba or attention a layer")
    recurrent = Mamba2(
        heads=fields.integer("mamba_n_heads"),
        head_dim=fields.integer("mamba_d_head"),
        groups=fields.integer("mamba_n_groups", default=1),
        state=fields.integer("mamba_d_state"),
        kernel=fields.integer("mamba_d_conv", default=4),
        conv_bias=fields.flag("mamba_conv_bias", default=True),
        bias=fields.flag("mamba_proj_bias"),
    )
    if fields.text("position_embedding_type", default="nope") != "nope":
        raise NotModelledError(Fault("rotary positions", file=fields.where, key="position_embedding_type"))
    experts = fields.integer("num_local_experts", default=0, least=0)
    width = fields.integer("intermediate_size")
    shared, every = fields.integer("shared_intermediate_size", default=0, least=0), range(layers)
    tied, bias = fields.flag("tie_word_embeddings"), fields.flag("attention_bias")
    full, mamba_layers = _where(kinds, "attention"), _where(kinds, "mamba")
    tensors = [
        *embeddings(vocabulary, hidden, tied=tied),
        *grouped_query(at, full, qkv_bias=bias, o_bias=bias),
        *mamba2_tensors(recurrent, hidden, mamba_layers, prefix="mamba"),
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
            mamba2_layers(recurrent, mamba_layers, fields.text("mamba_ssm_cache_dtype", default="auto")),
            _full(at, full),
        ),
        rotary=(),
        rotary_dim=0,
        experts=experts,
        experts_per_token=fields.integer("num_experts_per_tok", default=0, least=0),
        moe_intermediate=width if experts else 0,
        tp_divides=(("mamba_n_heads", recurrent.heads),),
    )


def _jamba(fields: Fields) -> Decoder:
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
            _full(at, full),
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

    def part(what: str, outputs: int, inputs: int, split: str, *, biased: bool = False) -> Iterator[Tensor]:
        module = f"{name}.{what}"
        side = "outputs" if split == "outputs" else "inputs"
        return linear("mixer", module, module, outputs, inputs, layers, split=side, bias=biased, quantised=False)

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
