"""How a config scales its positions, and the longest request that follows.

Read from `_get_and_verify_max_len` in vLLM config/model.py, 0.24 to 0.33: from 0.30 on (pull request 56446) it leaves
what YaRN configs write as it is, up to 0.29 it took original_max_position_embeddings x factor for them. Which lengths
count is in transformers_utils/model_arch_config_convertor.py, which kinds exist in layers/rotary_embedding/__init__.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from recommender.catalog.config_fields import Fields

LONGEST = 2**31
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
_MOST_FACTOR = 2**16
# These leave the length as it is written.
_ALREADY_SCALED = ("longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling")
# These multiply it.
_STRETCHING = ("linear", "dynamic", "ntk", "mllama4", "proportional", "bailing_mrope")
_LEGACY = {"su": "longrope", "mrope": "default", "telechat3-yarn": "yarn"}
_KINDS = ("default", *_ALREADY_SCALED, *_STRETCHING)
_NEEDS_FACTOR = ("linear", "ntk", "yarn", "llama3")


@dataclass(frozen=True, slots=True)
class Rope:
    """One rope description: its kind by its present name, and what it states."""

    kind: str
    factor: float | None = None
    original: int | None = None
    partial: float | None = None


@dataclass(frozen=True, slots=True)
class Lengths:
    """The longest request, the engine's own choice where shorter, and the longest of earlier releases where unlike."""

    longest: int
    default: int | None = None
    rescaled: int | None = None


def lengths_of(fields: Fields) -> Lengths:
    """The longest request (prompt and output) the engine lets this model take, and its default."""
    written, found = written_len(fields), list(ropes(fields))
    if any(rope.kind == "longrope" for rope in found):
        original = fields.integer("original_max_position_embeddings", default=written, most=LONGEST)
        return Lengths(written, original if original < written else None)
    if "gemma3" in fields.text("model_type"):  # its length is already scaled
        return Lengths(written)
    factors = [rope.factor for rope in found if rope.kind in _STRETCHING and rope.factor is not None]
    yarn = next((rope for rope in found if rope.kind == "yarn" and rope.original and rope.factor), None)
    before = int((yarn.original or 0) * (yarn.factor or 1.0)) if yarn else written
    longest = int(written * (factors[-1] if factors else 1.0))
    return Lengths(longest, rescaled=before if before != written else None)


def written_len(fields: Fields) -> int:
    """The length a config writes, before any scaling: the least of the keys that have one."""
    lengths = [fields.integer(key, most=LONGEST) for key in _LENGTH_KEYS if fields.raw(key) is not None]
    if not lengths:
        raise fields.missing(*_LENGTH_KEYS)
    return fields.integer("model_max_length", default=min(lengths), most=LONGEST)  # wins where it is there


def ropes(fields: Fields) -> Iterator[Rope]:
    """Every rope description: one, or one for each layer type. Raises InputError naming the key that is not usable."""
    for key in ("rope_parameters", "rope_scaling"):
        described = fields.mapping(key)
        nested = [(f"{key}.{name}", value) for name, value in described.items() if isinstance(value, Mapping)]
        for where, rope in nested or ([(key, described)] if described else []):
            yield _rope(fields, where, rope)


def _rope(fields: Fields, key: str, described: Mapping[str, Any]) -> Rope:
    inner = Fields({f"{key}.{name}": value for name, value in described.items()}, fields.where)
    kind = _kind(inner, key)
    factor = inner.optional_number(f"{key}.factor", above=0, most=_MOST_FACTOR)
    if kind == "default" and factor not in (None, 1.0):
        known = ", ".join(_KINDS[1:])
        raise fields.fault(f"a factor of {factor:g} without the kind of scaling", f"{key}.rope_type", known)
    if kind in _NEEDS_FACTOR and factor is None:
        raise fields.fault(f"{kind} scaling without a factor", f"{key}.factor", "a positive number")
    partial = f"{key}.partial_rotary_factor"
    return Rope(
        kind=kind,
        factor=factor,
        original=inner.optional(f"{key}.original_max_position_embeddings", most=LONGEST),
        partial=inner.share(partial, default=1.0) if inner.raw(partial) else None,
    )


def _kind(inner: Fields, key: str) -> str:
    """The present name of the kind. Raises InputError where it is unknown, or stated twice and differently."""
    now, old = (_LEGACY.get(word, word) for word in (inner.text(f"{key}.rope_type"), inner.text(f"{key}.type")))
    kind = now or old or "default"
    if kind not in _KINDS:
        raise inner.fault(f"{kind!r} is not a known kind of scaling", f"{key}.rope_type", ", ".join(_KINDS))
    if now and old and now != old:
        raise inner.fault(f"{now!r}, but its type is {old!r}", f"{key}.rope_type", "one of them")
    return kind
