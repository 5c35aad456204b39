"""ModelOpt's MIXED_PRECISION: how each module is stored, as the config lists them one by one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from recommender.catalog.config_fields import Fields
from recommender.catalog.models import Quantisation
from recommender.errors import Fault, NotModelledError

# vLLM quantization/modelopt.py, ModelOptMixedPrecisionConfig: the algorithms of single layers that are modelled.
_ALGORITHMS = {
    "FP8": Quantisation("fp8", "modelopt", 8, None, static_inputs=True),
    "NVFP4": Quantisation("nvfp4", "modelopt", 4, 16, static_inputs=True),
    "W4A16_NVFP4": Quantisation("nvfp4", "modelopt", 4, 16),
}
_PLAIN = ("", "NONE", "UNQUANTIZED")
_LAYERED = re.compile(r"(?:^|\.)layers\.(\d+)\.(.+)$")
_EXPERT = re.compile(r"experts\.\d+\.")  # listed one by one, stored together
_NOT_LOADED = ("mtp.", "model.mtp.")
_LAYERS_A_PATTERN = 40  # keeps a pattern short


def mixed_precision(declared: Fields, ignored: tuple[str, ...]) -> Quantisation:
    """The schemes of the modules listed in `quantized_layers`; every other module is plain. Raises NotModelledError
    where the list is not there whole, or names what is not known.
    """
    listed = declared.values.get("quantized_layers")
    if not isinstance(listed, Mapping) or not listed:
        raise _unknown(declared, "MIXED_PRECISION without the list of its layers")
    found: dict[tuple[str, int], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for name, scheme in listed.items():
        if str(name).startswith(_NOT_LOADED):
            continue
        algorithm, size = _algorithm(declared, str(name), scheme)
        if algorithm in _PLAIN:
            continue
        layered = _LAYERED.search(str(name))
        if layered is None:
            raise _unknown(declared, f"{algorithm} weights of {str(name)[:80]!r}, outside the layers,")
        found[algorithm, size][_EXPERT.sub("experts.", layered[2])].add(int(layered[1]))
    if not found:
        raise _unknown(declared, "MIXED_PRECISION in which no layer is quantised")
    schemes = tuple(
        replace(
            _ALGORITHMS[algorithm],
            ignored=ignored,
            group_size=size or _ALGORITHMS[algorithm].group_size,
            targets=tuple(_patterns(modules)),
            named=True,
        )
        for (algorithm, size), modules in sorted(found.items())
    )
    return replace(min(schemes, key=lambda scheme: scheme.bits), schemes=schemes)


def _algorithm(declared: Fields, name: str, scheme: Any) -> tuple[str, int]:
    """(the algorithm, the size of its groups or 0) of one module."""
    stated = Fields(scheme if isinstance(scheme, Mapping) else {"quant_algo": scheme}, declared.where)
    algorithm = stated.text("quant_algo").upper()
    if algorithm not in (*_PLAIN, *_ALGORITHMS):
        raise _unknown(declared, f"{algorithm[:40]} weights of {name[:80]!r}")
    size = stated.integer("group_size", default=0, least=0) if algorithm.endswith("NVFP4") else 0
    return algorithm, size


def _patterns(modules: Mapping[str, set[int]]) -> Iterator[str]:
    """One regular expression for a module in up to forty layers; it names what lies below the module, too."""
    for module, layers in sorted(modules.items()):
        numbers = sorted(layers)
        for first in range(0, len(numbers), _LAYERS_A_PATTERN):
            some = "|".join(map(str, numbers[first : first + _LAYERS_A_PATTERN]))
            yield rf"re:model\.layers\.(?:{some})\.{re.escape(module)}(?:\.|$)"


def _unknown(declared: Fields, what: str) -> NotModelledError:
    return NotModelledError(Fault(f"{what} is not modelled", file=declared.where, key="quantized_layers"))
