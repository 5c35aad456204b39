"""Nemotron-H and Nemotron 3: layers that are a Mamba-2 mixer, attention, an MLP or a mixture, one each.

Read from vLLM 0.33.0 model_executor/models/nemotron_h.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from recommender.catalog.config_decoder import Decoder, block_norms, embeddings
from recommender.catalog.config_fields import Fields
from recommender.catalog.config_layers import Heads, dense_mlp, grouped_query, linear, routed_experts, router
from recommender.catalog.config_mamba import Mamba2, full_layers, layers_of, mamba2_layers, mamba2_tensors
from recommender.catalog.models import LayerIndices, Tensor
from recommender.errors import Fault, NotModelledError

NEMOTRON = ("NemotronHForCausalLM",)
_NEMOTRON_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


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


def nemotron(fields: Fields, architecture: str) -> Decoder:
    """The language side of Nemotron-H."""
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
    full, mamba_layers, sparse = layers_of(kinds, "attention"), layers_of(kinds, "mamba"), layers_of(kinds, "moe")
    tied = fields.flag("tie_word_embeddings")
    mlp = dense_mlp(
        hidden,
        _intermediate(fields, hidden),
        layers_of(kinds, "mlp"),
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
            full_layers(at, full),
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
