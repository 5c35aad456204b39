"""How a checkpoint's config says its weights and KV cache are stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from recommender.catalog.config_compressed_tensors import block_size, compressed_tensors
from recommender.catalog.config_fields import Fields
from recommender.catalog.config_mixed import mixed_precision
from recommender.catalog.models import Quantisation
from recommender.errors import Fault, NotModelledError

_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "bf16"}  # float32 is served as 16 bit
_IGNORE_KEYS = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "llm_int8_skip_modules")
_DECLARED = ("quantization_config", "compression_config")
BITSANDBYTES_BLOCK = 64
"""Weights that share a scale (bitsandbytes quantize_4bit, blocksize)."""
_LAYER = re.compile(r"(\blayers)\.(\d+)\.([A-Za-z])")
_ENTIRE_LAYER = re.compile(r"\blayers\.(\d+)(?:\.?\*)$")
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
        algorithm = declared.text("kv_cache_quant_algo").upper()
        if algorithm not in ("", "NONE", "FP8"):
            raise _unknown_cache(declared, f"{algorithm} KV cache", "kv_cache_quant_algo")
        if algorithm == "FP8" or _is_fp8_scheme(declared):
            return "fp8"
    return None


def _is_fp8_scheme(declared: Fields) -> bool:
    """Whether there is a scheme of the KV cache; the engine takes 8-bit floats only."""
    if declared.raw("kv_cache_scheme") is None:
        return False
    scheme = declared.inner("kv_cache_scheme")
    bits, kind = scheme.integer("num_bits", most=32), scheme.text("type", default="float")
    if (bits, kind) != (8, "float"):
        raise _unknown_cache(declared, f"a KV cache of {bits}-bit {kind} values", "kv_cache_scheme")
    return True


def _unknown_cache(declared: Fields, what: str, key: str) -> NotModelledError:
    return NotModelledError(Fault(f"{what} is not modelled", file=declared.where, key=key))


def _declarations(config: Mapping[str, Any], fields: Fields) -> list[Fields]:
    """Every place that speaks of quantisation, the file hf_quant_config.json (its `quantization` part) first."""
    sources = [Fields(source, fields.where) for source in (config, fields.values)]
    apart = [
        source.inner(key) for source in sources for key in ("_hf_quant_config", "hf_quant_config") if key in source
    ]
    return [
        *(_object(file, "quantization") for file in apart),
        *(_object(source, key) for source in sources for key in _DECLARED if key in source),
    ]


def _object(source: Fields, key: str) -> Fields:
    """The look-ups of an object that must hold something."""
    inner = source.inner(key)
    if not inner.values:
        raise source.fault("says nothing of how weights are stored", key, "quant_method and its keys")
    return inner


def _declared(config: Mapping[str, Any], fields: Fields) -> Fields | None:
    found = _declarations(config, fields)
    listed = [declared for declared in found if declared.raw(*_IGNORE_KEYS) is not None]
    return listed[-1] if listed else found[-1] if found else None


def _ignored(declared: Fields) -> tuple[str, ...]:
    """The modules left in 16 bit. A list that says it was cut is continued over the layers it had begun with."""
    found = declared.raw(*_IGNORE_KEYS)
    if found is None:
        return ()
    names = tuple(declared.sequence(found[0]))
    if any(not isinstance(name, str) for name in names):
        raise declared.fault("an entry that is not a name", found[0], "names of modules")
    return _continued(names) if _is_cut(declared) else names


def _is_cut(declared: Fields) -> bool:
    """Whether the list of ignored modules is shorter than the number that stands beside it."""
    found = declared.raw(*_IGNORE_KEYS)
    return found is not None and declared.integer(f"{found[0]}_count", default=0, least=0) > len(found[1])


def _continued(names: tuple[str, ...]) -> tuple[str, ...]:
    """`layers.0.x`, `layers.1.x` ... as `layers.*.x`, where the list had begun with every layer; the rest as it is.

    A layer that is named as a whole (`layers.0*`, `layers.1.*`) has every module, so that the list begins with it.
    """
    entire = [int(found[1]) for name in names if (found := _ENTIRE_LAYER.search(name)) is not None]
    seen: dict[str, list[int]] = {}
    for name in names:
        if _ENTIRE_LAYER.search(name) is None and (found := _LAYER.search(name)) is not None:
            seen.setdefault(_LAYER.sub(r"\1.*.\3", name, count=1), list(entire)).append(int(found[2]))
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
    block = declared.raw("weight_block_size")
    scheme = declared.text("activation_scheme", default="dynamic" if block else "")
    if scheme not in ("dynamic", "static"):
        raise declared.fault(f"{scheme!r} is not usable", "activation_scheme", "dynamic or static")
    listed = declared.sequence("weight_block_size")
    return Quantisation(
        dtype="fp8",
        method="fp8_block" if block else "fp8",
        bits=8,
        group_size=block_size(declared, listed, "weight_block_size") if block else None,
        ignored=_ignored(declared),
        static_inputs=scheme == "static",
    )


def _packed(declared: Fields) -> Quantisation:
    """AWQ and GPTQ: bits and group size must be there. A quantised head, or rules of their own for some modules, is
    refused.
    """
    for key in ("lm_head", "dynamic"):
        if declared.values.get(key):
            raise NotModelledError(
                Fault(f"{key} in a quantised checkpoint is not modelled", file=declared.where, key=key)
            )
    bits = declared.integer("bits", "w_bit", most=8)
    if bits not in (4, 8):
        raise NotModelledError(Fault(f"{bits}-bit packed weights are not modelled", file=declared.where, key="bits"))
    size = declared.integer("group_size", "q_group_size", least=-1)
    if not size:
        raise declared.fault("0 is not usable", "group_size", "inputs that share a scale, or -1 for all of them")
    return Quantisation(
        dtype="int8" if bits == 8 else "int4",
        method=declared.text("quant_method"),
        bits=bits,
        group_size=size,
        ignored=_ignored(declared),
        zero_points=True,
    )


def _compressed_tensors(declared: Fields) -> Quantisation:
    return compressed_tensors(declared, _ignored(declared))


def _fbgemm(declared: Fields) -> Quantisation:
    """FP8 with a scale for each output channel; the modules left in 16 bit must be listed."""
    if declared.raw("modules_to_not_convert") is None:
        raise declared.missing("modules_to_not_convert")
    return Quantisation("fp8", "fbgemm_fp8", 8, None, _ignored(declared))


def _bitsandbytes(declared: Fields) -> Quantisation:
    """4-bit (nf4, fp4) in blocks of 64 with a scale each, or 8-bit with a scale for each output (LLM.int8)."""
    storage = declared.text("bnb_4bit_quant_storage", default="uint8")
    if storage != "uint8":
        what = f"Unsupported bnb_4bit_quant_storage: {storage}"  # the engine's own words
        raise NotModelledError(Fault(what, file=declared.where, key="bnb_4bit_quant_storage"))
    ignored = _ignored(declared)
    if declared.flag("load_in_8bit", "_load_in_8bit"):
        return Quantisation("int8", "bitsandbytes", 8, None, ignored)
    return Quantisation("int4", "bitsandbytes", 4, BITSANDBYTES_BLOCK, ignored)


def _modelopt(declared: Fields) -> Quantisation:
    algorithm = declared.text("quant_algo").upper()
    ignored = _ignored(declared)
    if algorithm == "MIXED_PRECISION":
        return mixed_precision(declared, ignored)
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
    "fbgemm_fp8": _fbgemm,
    "bitsandbytes": _bitsandbytes,
    "modelopt": _modelopt,
    "mxfp4": _mxfp4,
}
