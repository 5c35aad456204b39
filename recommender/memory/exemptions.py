"""Which layers of a quantised checkpoint stay in 16 bit, and how the others are stored, by the patterns it lists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from recommender.catalog.models import EVERY_LINEAR, LayerIndices, Quantisation, Tensor
from recommender.errors import Fault, NotModelledError

_LONGEST_PATTERN = 300
_REGEX = "re:"
# A quantifier on a group can make matching exponential; checkpoints do not need one.
_RISKY = re.compile(r"\)[*+{]")
_DIGIT = re.compile(r"\d")
# Checkpoints nest the layers under different names: model.layers, backbone.layers, model.language_model.layers.
_FROM_LAYERS = re.compile(r"^[\w.]*\blayers\.")


def exempt_layers(tensor: Tensor, stored: Quantisation) -> LayerIndices:
    """The layers in which `tensor` is left in 16 bit; all of them, or none, for most."""
    ignored = _ignored_layers(tensor, stored)
    if not stored.targets and not stored.schemes:
        return ignored
    skipped = set(ignored)
    kept = tuple(each for each in tensor.layers if each in skipped or scheme_of(tensor, each, stored) is None)
    return tensor.layers if len(kept) == len(tensor.layers) else kept


def refuse_missing(tensors: Sequence[Tensor], stored: Quantisation) -> None:
    """Raises NotModelledError where a module that a checkpoint lists by name is none of the model's."""
    for scheme in stored.schemes or (stored,):
        for pattern in scheme.targets if scheme.named else ():
            if not any(matches(pattern, path) for each in tensors for at in each.layers for path in _paths(each, at)):
                raise NotModelledError(
                    f"a list of quantised modules that names others than are modelled: {pattern[:80]}"
                )


def schemes_of(tensor: Tensor, layers: LayerIndices, stored: Quantisation) -> Mapping[Quantisation, LayerIndices]:
    """How `tensor` is stored in those `layers` that are not left in 16 bit: mostly one way for all."""
    if not stored.schemes:
        return {stored: layers}
    found: dict[Quantisation, list[int]] = {}
    for layer in layers:
        scheme = scheme_of(tensor, layer, stored)
        if scheme is not None:
            found.setdefault(scheme, []).append(layer)
    return {scheme: layers if len(found) == 1 else tuple(where) for scheme, where in found.items()}


def scheme_of(tensor: Tensor, layer: int, stored: Quantisation) -> Quantisation | None:
    """The scheme whose targets name the module in that layer, else the one for every linear layer, else None."""
    schemes = stored.schemes or (stored,)
    paths = _paths(tensor, layer)
    for scheme in schemes:
        patterns = (target for target in scheme.targets if target != EVERY_LINEAR)
        if any(matches(pattern, path) for pattern in patterns for path in paths):
            return scheme
    return next((scheme for scheme in schemes if not scheme.targets or EVERY_LINEAR in scheme.targets), None)


def _ignored_layers(tensor: Tensor, stored: Quantisation) -> LayerIndices:
    """The layers in which the list of modules left in 16 bit names `tensor`."""
    if tensor.group == "router" and not stored.quantises_router:
        return tensor.layers
    if stored.method == "mxfp4" and not tensor.experts:
        return tensor.layers  # the engine knows this format for experts only
    patterns = [pattern for pattern in stored.ignored if pattern != "lm_head"]
    if not patterns:
        return range(0)
    if not any(_DIGIT.search(pattern) for pattern in patterns):
        first = tensor.layers[0] if len(tensor.layers) else 0
        return tensor.layers if _is_exempt(tensor, first, patterns) else range(0)
    return tuple(layer for layer in tensor.layers if _is_exempt(tensor, layer, patterns))


def _is_exempt(tensor: Tensor, layer: int, patterns: list[str]) -> bool:
    paths = _paths(tensor, layer)
    return any(pattern == tensor.group or any(matches(pattern, path) for path in paths) for pattern in patterns)


def _paths(tensor: Tensor, layer: int) -> tuple[str, str]:
    """The names of the matrix and of the fused module that holds it."""
    stem = f"model.layers.{layer}."
    return stem + tensor.name.removesuffix(".weight"), stem + tensor.module


def matches(pattern: str, path: str) -> bool:
    """Whether a checkpoint's pattern names the module at `path`: a regular expression after `re:`, a wildcard, or a
    dotted name that occurs in the path as a run of whole parts.
    """
    if len(pattern) > _LONGEST_PATTERN:
        raise _unread(f"a pattern of {len(pattern)} characters", f"at most {_LONGEST_PATTERN} characters")
    if pattern.startswith(_REGEX):
        return _expression(pattern.removeprefix(_REGEX)).match(path) is not None
    pattern = _FROM_LAYERS.sub("layers.", pattern)
    if any(sign in pattern for sign in "*?["):
        return fnmatchcase(path, pattern) or fnmatchcase(path, f"*.{pattern}")
    return f".{pattern}." in f".{path}."


def _expression(text: str) -> re.Pattern[str]:
    if _RISKY.search(text):
        raise _unread(f"the regular expression {text!r} might take for ever", "no repetition of a repetition")
    try:
        return re.compile(text)
    except re.error as error:
        raise _unread(f"the regular expression {text!r} is broken: {error}", "a regular expression") from None


def _unread(what: str, expected: str) -> NotModelledError:
    """A pattern in the list of modules left in 16 bit that is not followed."""
    return NotModelledError(Fault(what, key="quantization_config, modules left in 16 bit", expected=expected))
