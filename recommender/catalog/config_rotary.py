"""The rotary tables the engine builds for a model, and how many of a head's elements are rotated."""

from __future__ import annotations

from recommender.catalog.config_families import Family
from recommender.catalog.config_fields import Fields
from recommender.catalog.config_rope import LONGEST, Rope, ropes, written_len
from recommender.catalog.models import RotaryCache


def rotary_dim(fields: Fields, family: Family, head_dim: int) -> int:
    """How many of a head's elements are rotated; 0 where positions are learned."""
    if family.positions:
        return 0
    declared = fields.optional("rotary_dim", most=head_dim)
    if declared is not None:
        return declared
    return int(head_dim * partial_rotary_share(fields, default=family.partial_rotary))


def partial_rotary_share(fields: Fields, *, default: float) -> float:
    """The share of a head's elements that are rotated: stated, else the largest of the rope descriptions."""
    names = ("partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_emb_fraction")
    if fields.raw(*names) is not None:
        return fields.share(*names, default=default)
    stated = [rope.partial for rope in ropes(fields) if rope.partial is not None]
    return max(stated, default=default)


def rotary_caches(fields: Fields, family: Family, head_dim: int) -> tuple[RotaryCache, ...]:
    """The cos/sin tables of a model; the transformers backend keeps only two vectors of inverse frequencies."""
    dimension = rotary_dim(fields, family, head_dim)
    if not dimension:
        return ()
    if family.transformers_backend:
        return (RotaryCache(positions=2, dimension=dimension // 2, element_bytes=4),)
    return tuple(
        RotaryCache(positions, dimension, family.rotary_element_bytes)
        for positions in (_positions(fields), *_local_positions(fields, family))
    )


def _local_positions(fields: Fields, family: Family) -> tuple[int, ...]:
    """Rows of the tables of sliding layers, which no scaling stretches (vLLM 0.19.1 models/gemma3.py)."""
    return (written_len(fields),) * (family.rotary_caches - 1)


def _positions(fields: Fields) -> int:
    """Rows of a table, by vLLM 0.33.0 layers/rotary_embedding/: linear and dynamic scaling stretch it, YaRN's has
    original x factor, long RoPE's a short and a long part.
    """
    written = written_len(fields)
    found = next((rope for rope in ropes(fields) if rope.kind != "default"), Rope("default"))
    original = found.original or fields.integer("original_max_position_embeddings", default=written, most=LONGEST)
    if found.kind in ("linear", "dynamic"):
        return int(written * max(1.0, found.factor or 1.0))
    if found.kind == "yarn" and found.original:
        return int(found.original * (found.factor or 1.0))
    return written + original if found.kind == "longrope" else written
