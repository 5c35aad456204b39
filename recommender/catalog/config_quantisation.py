"""How a checkpoint's config says its weights and KV cache are stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from recommender.catalog.config_fields import Fields
from recommender.catalog.models import Quantisation
from recommender.errors import Fault, NotModelledError

_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "bf16"}  # float32 is served as 16 bit
_IGNORE_KEYS = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules")
_LAYER = re.compile(r"(\blayers)\.(\d+)\.([A-Za-z])")
_MANY_LAYERS = 20  # enough for the spelling to begin 0, 1, 10, 11 ...
_NEVER_QUANTISED = ("norm", "gate", "bias", "conv1d")


def plain_dtype(fields: Fields) -> str:
    """bf16 or fp16: what the weights that are not quantised are served in."""
    word = fields.text("torch_dtype", "dtype", default="bfloat16").removeprefix("torch.")
    if word not in _DTYPES:
        raise fields.fault(f"{word!r} is not a known dtype", "torch_dtype", ", ".join(_DTYPES))
    return _DTYPES[word]


def quantisation(config: Mapping[str, Any], fields: Fields) -> Quantisation | None:
    """How the checkpoint stores its linear weights, or None where they are plain 16 bit."""
    declared = _declared(config, fields)
    if declared is None:
        return None
    method = declared.text("quant_method")
    if "quant_algo" in declared and method in ("", "modelopt", "modelopt_fp4"):
        method = "modelopt"
    if method not in _READERS:
        raise NotModelledError(
            Fault(f"quantisation method {method!r} is not modelled", file=fields.where, key="quantization_config")
        )
    found = replace(_READERS[method](declared), cut=_is_cut(declared))
    return _with_experts(fields, declared, found) if "expert_dtype" in fields else found


def _with_experts(fields: Fields, declared: Fields, found: Quantisation) -> Quantisation:
    """Experts in another format than the rest (DeepSeek V4): 4 bit beside FP8 blocks with scales of one byte.

    The list of ignored modules is not read by the engine's class for these.
    """
    word = fields.text("expert_dtype")
    if word not in ("fp4", "fp8"):
        raise fields.fault(f"{word!r} is not a known format of experts", "expert_dtype", "fp4 or fp8")
    if word == "fp8":
        return found
    nvfp4 = declared.text("moe_quant_algo").upper() == "NVFP4"
    experts = Quantisation("nvfp4", "modelopt", 4, 16) if nvfp4 else Quantisation("mxfp4", "mxfp4", 4, 32)
    return replace(found, ignored=(), cut=False, scale_bytes=1, experts=experts)


def kv_declared(config: Mapping[str, Any], fields: Fields) -> str | None:
    """The KV-cache dtype a checkpoint asks for when the engine is left to choose: `fp8`, or None."""
    for declared in _declarations(config, fields):
        if declared.text("kv_cache_quant_algo").upper() == "FP8":
            return "fp8"
        scheme = declared.inner("kv_cache_scheme")
        if scheme.values and scheme.integer("num_bits", default=0, least=0) == 8:
            return "fp8"
    return None


def _declarations(config: Mapping[str, Any], fields: Fields) -> list[Fields]:
    """Every place that speaks of quantisation, the file hf_quant_config.json (its `quantization` part) first."""
    found = []
    for source in (config, fields.values):
        for key in ("_hf_quant_config", "hf_quant_config"):
            outer = source.get(key)
            if isinstance(outer, Mapping) and isinstance(outer.get("quantization"), Mapping):
                found.append(Fields(outer["quantization"], fields.where))
    for source in (config, fields.values):
        inner = source.get("quantization_config")
        if isinstance(inner, Mapping) and inner:
            found.append(Fields(inner, fields.where))
    return found


def _declared(config: Mapping[str, Any], fields: Fields) -> Fields | None:
    found = _declarations(config, fields)
    listed = [declared for declared in found if declared.raw(*_IGNORE_KEYS) is not None]
    return listed[-1] if listed else found[-1] if found else None


def _ignored(declared: Fields) -> tuple[str, ...]:
    """The modules left in 16 bit. A list that says it was cut is continued over the layers it had begun with."""
    found = declared.raw(*_IGNORE_KEYS)
    if found is None:
        return ()
    names = tuple(str(name) for name in declared.sequence(found[0]))
    return _continued(names) if _is_cut(declared) else names


def _is_cut(declared: Fields) -> bool:
    """Whether the list of ignored modules is shorter than the number that stands beside it."""
    found = declared.raw(*_IGNORE_KEYS)
    return found is not None and declared.integer(f"{found[0]}_count", default=0, least=0) > len(found[1])


def _continued(names: tuple[str, ...]) -> tuple[str, ...]:
    """`layers.0.x`, `layers.1.x` ... as `layers.*.x`, where the list had begun with every layer; the rest as it is."""
    seen: dict[str, list[int]] = {}
    for name in names:
        if (found := _LAYER.search(name)) is not None:
            seen.setdefault(_LAYER.sub(r"\1.*.\3", name, count=1), []).append(int(found[2]))
    whole = {name for name, layers in seen.items() if layers in (_counted(layers), _spelled(layers))}
    return tuple(dict.fromkeys(general if (general := _general(name)) in whole else name for name in names))


def _general(name: str) -> str:
    return name if name.endswith(_NEVER_QUANTISED) else _LAYER.sub(r"\1.*.\3", name, count=1)


def _counted(layers: list[int]) -> list[int]:
    """The first layers, counted: 0, 1, 2 ..."""
    return list(range(len(layers)))


def _spelled(layers: list[int]) -> list[int]:
    """The first layers in the order of their spelling: 0, 1, 10, 11 ..."""
    return sorted(range(_MANY_LAYERS), key=str)[: len(layers)]


def _fp8(declared: Fields) -> Quantisation:
    block = declared.sequence("weight_block_size")
    ignored = _ignored(declared)
    return Quantisation(
        dtype="fp8",
        method="fp8_block" if block else "fp8",
        bits=8,
        group_size=_block_size(declared, block) if block else None,
        ignored=ignored,
        static_inputs=declared.text("activation_scheme", default="dynamic") == "static",
    )


def _block_size(declared: Fields, block: list[Any]) -> int:
    if len(block) != 2 or block[0] != block[1] or not isinstance(block[0], int) or not 0 < block[0] <= 2**16:
        raise NotModelledError(
            Fault(f"FP8 blocks of {block!r} are not modelled", file=declared.where, key="weight_block_size")
        )
    return block[0]


def _packed(declared: Fields) -> Quantisation:
    method = declared.text("quant_method")
    bits = declared.integer("bits", "w_bit", default=4, most=8)
    ignored = _ignored(declared)
    return Quantisation(
        dtype="int8" if bits == 8 else "int4",
        method=method,
        bits=bits,
        group_size=declared.integer("group_size", "q_group_size", default=128, least=-1),
        ignored=ignored,
        zero_points=True,
    )


def _compressed_tensors(declared: Fields) -> Quantisation:
    groups = [group for group in declared.mapping("config_groups").values() if isinstance(group, Mapping)]
    if len(groups) != 1:
        raise NotModelledError(
            Fault(f"{len(groups)} groups of schemes are not modelled", file=declared.where, key="config_groups")
        )
    group = Fields(groups[0], declared.where)
    if "mxfp4" in group.text("format", default=declared.text("format")):
        return _mxfp4(declared)
    weights, inputs = group.inner("weights"), group.inner("input_activations")
    bits, kind = weights.integer("num_bits", most=16), weights.text("type", default="int")
    strategy = weights.text("strategy", default="tensor")
    ignored = _ignored(declared)
    size = weights.integer("group_size", default=0, least=-1)
    return Quantisation(
        dtype=_compressed_dtype(declared, kind, bits, weight_only=not inputs.values),
        method=f"compressed-tensors:{'packed' if kind == 'int' and not inputs.values else strategy}",
        bits=bits,
        group_size=size if size > 0 else _compressed_block(weights, strategy),
        ignored=ignored,
        static_inputs=bool(inputs.values) and not inputs.flag("dynamic", default=True),
        zero_points=not weights.flag("symmetric", default=True),
    )


def _compressed_block(weights: Fields, strategy: str) -> int | None:
    block = weights.sequence("block_structure")
    return _block_size(weights, block) if strategy == "block" and block else None


def _compressed_dtype(declared: Fields, kind: str, bits: int, *, weight_only: bool) -> str:
    words = {("float", 8): "fp8", ("int", 8): "int8", ("float", 4): "nvfp4"}
    if weight_only:
        words["int", 4] = "int4"
    if (kind, bits) not in words:
        said = f"{bits}-bit {kind} weights{'' if weight_only else ' with quantised activations'} are not modelled"
        raise NotModelledError(Fault(said, file=declared.where, key="config_groups"))
    return words[kind, bits]


def _modelopt(declared: Fields) -> Quantisation:
    algorithm = declared.text("quant_algo").upper()
    ignored = _ignored(declared)
    if algorithm == "FP8":
        return Quantisation("fp8", "modelopt", 8, None, ignored, static_inputs=True)
    if algorithm in ("NVFP4", "FP4"):
        size = declared.integer("group_size", default=16)
        return Quantisation("nvfp4", "modelopt", 4, size, ignored, static_inputs=True)
    raise NotModelledError(
        Fault(f"modelopt algorithm {algorithm!r} is not modelled", file=declared.where, key="quant_algo")
    )


def _mxfp4(declared: Fields) -> Quantisation:
    return Quantisation("mxfp4", "mxfp4", 4, 32, _ignored(declared))


_READERS = {
    "fp8": _fp8,
    "awq": _packed,
    "gptq": _packed,
    "awq_marlin": _packed,
    "gptq_marlin": _packed,
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
    "mxfp4": _mxfp4,
}
