"""How compressed-tensors (llm-compressor) says its weights are stored: groups of targets, each with a scheme.

Read from vLLM 0.33.0 quantization/compressed_tensors/; defaults are those of compressed_tensors' QuantizationArgs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from recommender.catalog.config_fields import Fields
from recommender.catalog.models import EVERY_LINEAR, Quantisation
from recommender.errors import Fault, InputError, NotModelledError

_NEVER_MODELLED = ("lm_head", "embed_tokens")
_REGEX = "re:"
_STRATEGIES = ("tensor", "channel", "group", "block", "tensor_group")
_LARGEST_BLOCK = 2**16


def compressed_tensors(declared: Fields, ignored: tuple[str, ...]) -> Quantisation:
    """The scheme of the fewest bits, with all of them in `schemes` where there are several. Raises InputError naming
    what is missing, NotModelledError naming what is not known.
    """
    if declared.values.get("sparsity_config"):
        raise _unknown(declared, "sparse weights", "sparsity_config")
    groups = declared.mapping("config_groups")
    if any(not isinstance(group, Mapping) for group in groups.values()):
        raise declared.fault("a group that is not an object", "config_groups", "an object for each group")
    named = {name: Fields(group, declared.where) for name, group in groups.items() if not _is_attention(group)}
    schemes = tuple(replace(_scheme(declared, name, group), ignored=ignored) for name, group in named.items())
    if not schemes:
        raise declared.missing("config_groups")
    least = min(schemes, key=lambda scheme: scheme.bits)
    return replace(least, schemes=schemes) if len(schemes) > 1 else least


def _is_attention(group: Mapping[str, Any]) -> bool:
    """Whether a group is for the attention itself, which the engine leaves to the KV cache's scheme."""
    targets = group.get("targets")
    return isinstance(targets, list) and len(targets) == 1 and str(targets[0]).endswith("Attention")


def _scheme(declared: Fields, name: str, group: Fields) -> Quantisation:
    """One group: its targets, how its weights are stored and whether its inputs are."""
    targets = _targets(group, name)
    if "mxfp4" in group.text("format", default=declared.text("format")):
        return Quantisation("mxfp4", "mxfp4", 4, 32, targets=targets)
    weights, inputs = group.inner("weights"), group.inner("input_activations")
    if not weights.values:
        raise group.missing("weights")
    bits, kind = weights.integer("num_bits", most=16), weights.text("type", default="int")
    packed = kind == "int" and not inputs.values
    strategy, size = _strategy(weights, name)
    if packed and strategy not in ("group", "channel"):
        raise _unknown(declared, f"packed weights with one scale for each {strategy}", f"config_groups.{name}.weights")
    return Quantisation(
        dtype=_dtype(declared, kind, bits, weight_only=not inputs.values),
        method=f"compressed-tensors:{'packed' if packed else strategy}",
        bits=bits,
        group_size=size,
        targets=targets,
        static_inputs=bool(inputs.values) and not inputs.flag("dynamic", "is_dynamic"),
        zero_points=not weights.flag("symmetric", default=True),
    )


def _targets(group: Fields, name: str) -> tuple[str, ...]:
    """The patterns of the modules a group is for; empty for every linear layer."""
    key = f"config_groups.{name}.targets"
    if group.raw("targets") is None:
        raise group.fault("a group without targets", key, "class names, module names or regular expressions")
    listed = group.sequence("targets")
    if not listed or any(not isinstance(target, str) or not target for target in listed):
        raise group.fault("a target that is not a name", key, "class names, module names or regular expressions")
    for target in listed:
        if any(word in target for word in _NEVER_MODELLED) or not (_is_pattern(target) or target == EVERY_LINEAR):
            raise _unknown(group, f"targets like {target[:80]!r}", key)
    return () if tuple(listed) == (EVERY_LINEAR,) else tuple(listed)


def _is_pattern(target: str) -> bool:
    """Whether a target is for names of modules; what has no dot is the name of a class."""
    return target.startswith(_REGEX) or "." in target


def _strategy(weights: Fields, name: str) -> tuple[str, int | None]:
    """(what has a scale of its own, the size of a group or block), told by the group's size where it is not said."""
    key = f"config_groups.{name}.weights"
    size = weights.integer("group_size", default=0, least=-1)
    inferred = "group" if size > 0 else "channel" if size == -1 else "tensor"
    strategy = weights.text("strategy", default=inferred)
    if strategy not in _STRATEGIES:
        raise weights.fault(f"{strategy!r} is not a known strategy", f"{key}.strategy", ", ".join(_STRATEGIES))
    if strategy == "block":
        return strategy, block_size(weights, weights.sequence("block_structure"), "block_structure")
    if strategy in ("group", "tensor_group") and size <= 0:
        raise weights.fault(f"the strategy {strategy} without a size", f"{key}.group_size", "inputs that share a scale")
    return strategy, size if size > 0 else None


def block_size(declared: Fields, block: list[Any], key: str) -> int:
    """The side of a square FP8 block. Raises InputError where it is none."""
    if len(block) != 2 or any(isinstance(side, bool) or not isinstance(side, int) for side in block):
        raise declared.fault(f"{block!r} is not usable"[:80], key, "two whole numbers")
    if block[0] != block[1] or not 0 < block[0] <= _LARGEST_BLOCK:
        raise _unknown(declared, f"FP8 blocks of {block!r}", key)
    return int(block[0])


def _dtype(declared: Fields, kind: str, bits: int, *, weight_only: bool) -> str:
    words = {("float", 8): "fp8", ("int", 8): "int8", ("float", 4): "nvfp4"}
    if weight_only:
        words["int", 4] = "int4"
    if (kind, bits) not in words:
        said = f"{bits}-bit {kind} weights{'' if weight_only else ' with quantised activations'}"
        raise _unknown(declared, said, "config_groups")
    return words[kind, bits]


def _unknown(declared: Fields, what: str, key: str) -> InputError:
    return NotModelledError(Fault(f"{what} are not modelled", file=declared.where, key=key))
