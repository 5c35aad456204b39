"""Which cache each layer keeps: full, sliding or chunked attention, read off the ways configs say it."""

from __future__ import annotations

from typing import Any

from recommender.catalog.config_families import Family
from recommender.catalog.config_fields import Fields
from recommender.catalog.config_layers import Heads
from recommender.catalog.models import AttentionKind, AttentionLayers, LayerIndices
from recommender.errors import Fault, NotModelledError

_WORDS: dict[str, AttentionKind] = {
    "full_attention": "full",
    "attention": "full",
    "global": "full",
    "sliding_attention": "sliding",
    "local": "sliding",
    "chunked_attention": "chunked",
}

# Keys that announce a cache which plain grouped-query classes do not have: never read past them.
_FOREIGN = (
    "kv_lora_rank",
    "compress_ratios",
    "index_topk",
    "index_head_dim",
    "block_configs",
    "hybrid_override_pattern",
    "layers_block_type",
    "linear_attn_config",
    "linear_num_value_heads",
    "full_attention_interval",
    "mamba_d_state",
    "mamba_num_heads",
    "ssm_state_size",
    "sparse_attention_config",
    "num_kv_shared_layers",
    "attn_type_list",
    "attention_chunk_size",
    "use_cla",
)


def refuse_foreign(fields: Fields, architecture: str) -> None:
    """Nothing, or the refusal of a config whose keys announce another attention than its class is known for."""
    foreign = [key for key in _FOREIGN if fields.values.get(key) not in (None, [], 0, {}, False)]
    if all(kind == 1 for kind in fields.sequence("attn_type_list")):  # 1 is softmax attention, 0 its linear kin
        foreign = [key for key in foreign if key != "attn_type_list"]
    if foreign:
        raise NotModelledError(
            Fault(
                f"the attention of {architecture} is not modelled with {', '.join(foreign)}",
                file=fields.where,
                key=foreign[0],
            )
        )


def layer_kinds(fields: Fields, layers: int, family: Family) -> tuple[AttentionKind, ...]:
    """The attention kind of each layer."""
    named = fields.sequence("layer_types")
    if named:
        return _named_kinds(fields, named, layers)
    return tuple("sliding" if slides else "full" for slides in _sliding(fields, layers, family))


def _sliding(fields: Fields, layers: int, family: Family) -> list[bool]:
    """Whether each layer slides, where layer_types does not say so."""
    if not fields.integer("sliding_window", default=0, least=0):
        return [False] * layers
    if family.window == "listed":
        raise fields.missing("layer_types")
    if family.window == "on_request":
        first = fields.integer("max_window_layers", default=layers, least=0)
        asked = fields.flag("use_sliding_window")
        return [asked and index >= first for index in range(layers)]
    pattern = fields.optional("sliding_window_pattern", "_sliding_window_pattern") or family.pattern
    return [pattern is None or (index + 1) % pattern != 0 for index in range(layers)]


def _named_kinds(fields: Fields, named: list[Any], layers: int) -> tuple[AttentionKind, ...]:
    unknown = sorted({str(word) for word in named if str(word) not in _WORDS})
    if unknown:
        raise NotModelledError(
            Fault(f"layer types {', '.join(unknown)} are not modelled here", file=fields.where, key="layer_types")
        )
    if len(named) < layers:
        raise fields.fault(f"{len(named)} entries for {layers} layers", "layer_types", f"{layers} entries")
    return tuple(_WORDS[str(word)] for word in named[:layers])


def attention_groups(
    fields: Fields, kinds: tuple[AttentionKind, ...], heads: Heads, family: Family
) -> tuple[AttentionLayers, ...]:
    """One entry for each kind that occurs, in the order of its first layer."""
    groups = []
    for kind in dict.fromkeys(kinds):
        indices = tuple(index for index, found in enumerate(kinds) if found == kind)
        groups.append(
            AttentionLayers(
                kind=kind,
                layers=len(indices),
                kv_heads=heads.kv_heads,
                head_dim=heads.head_dim,
                v_head_dim=heads.v_head_dim,
                window=_window(fields, kind, family),
                indices=compact(indices),
            )
        )
    return tuple(groups)


def _window(fields: Fields, kind: AttentionKind, family: Family) -> int | None:
    if kind == "sliding":
        return fields.integer("sliding_window") + family.window_extra
    if kind == "chunked":
        return fields.integer("attention_chunk_size")
    return None


def compact(indices: tuple[int, ...]) -> LayerIndices:
    """The same indices, as a range where they are one."""
    if indices and indices == tuple(range(indices[0], indices[-1] + 1)):
        return range(indices[0], indices[-1] + 1)
    return indices
