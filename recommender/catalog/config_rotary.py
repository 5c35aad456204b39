"""The longest request a model takes, and the rotary tables the engine builds for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recommender.catalog.config_families import Family
from recommender.catalog.config_fields import Fields
from recommender.catalog.models import RotaryCache

# vLLM 0.33.0 config/model.py: these kinds leave max_position_embeddings as it is written.
_ALREADY_SCALED = ("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling")
_LENGTH_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_LONGEST = 2**31


def max_model_len(fields: Fields) -> int:
    """The longest request (prompt and output) the engine lets this model take by default."""
    lengths = [fields.integer(key, most=_LONGEST) for key in _LENGTH_KEYS if key in fields]
    if not lengths:
        raise fields.missing(*_LENGTH_KEYS)
    longest = min(lengths)
    kinds = [_kind(rope) for rope in _ropes(fields)]
    if "longrope" in kinds:
        return fields.integer("original_max_position_embeddings", default=longest, most=_LONGEST)
    if "gemma3" in fields.text("model_type"):
        return longest
    factor = 1.0
    for rope in _ropes(fields):
        if _kind(rope) not in _ALREADY_SCALED:
            factor = Fields(rope, fields.where).number("factor", default=factor)
    if not 0 < factor <= 2**16:
        raise fields.fault(f"{factor} is not usable", "rope_scaling.factor", "a positive number")
    return int(longest * factor)


def rotary_dim(fields: Fields, family: Family, head_dim: int) -> int:
    """How many of a head's elements are rotated; 0 where positions are learned."""
    if family.positions:
        return 0
    declared = fields.optional("rotary_dim")
    if declared is not None:
        return declared
    return int(head_dim * partial_rotary_share(fields, default=family.partial_rotary))


def partial_rotary_share(fields: Fields, *, default: float) -> float:
    """The share of a head's elements that are rotated."""
    shares = [Fields(rope, fields.where).number("partial_rotary_factor", default=0.0) for rope in _ropes(fields)]
    share = fields.number("partial_rotary_factor", "rotary_pct", "rope_pct", default=max([0.0, *shares])) or default
    if not 0 < share <= 1:
        raise fields.fault(f"{share} is not usable", "partial_rotary_factor", "a share of a head")
    return share


def rotary_caches(fields: Fields, family: Family, head_dim: int) -> tuple[RotaryCache, ...]:
    """The cos/sin tables of a model; the transformers backend keeps only two vectors of inverse frequencies."""
    dimension = rotary_dim(fields, family, head_dim)
    if not dimension:
        return ()
    if family.transformers_backend:
        return (RotaryCache(positions=2, dimension=dimension // 2, element_bytes=4),)
    positions = fields.integer(*_LENGTH_KEYS, most=_LONGEST)
    cache = RotaryCache(int(positions * _table_factor(fields)), dimension, family.rotary_element_bytes)
    return (cache,) * family.rotary_caches


def _table_factor(fields: Fields) -> float:
    """How much longer than max_position_embeddings the table is: only linear and dynamic scaling stretch it."""
    for rope in _ropes(fields):
        if _kind(rope) in ("linear", "dynamic"):
            return max(1.0, Fields(rope, fields.where).number("factor", default=1.0))
    return 1.0


def _ropes(fields: Fields) -> Iterator[Mapping[str, Any]]:
    """Every rope description: one, or one for each layer type."""
    for key in ("rope_parameters", "rope_scaling"):
        rope = fields.mapping(key)
        nested = [value for value in rope.values() if isinstance(value, Mapping)]
        yield from nested or ([rope] if rope else [])


def _kind(rope: Mapping[str, Any]) -> str:
    return str(rope.get("rope_type") or rope.get("type") or "default")
