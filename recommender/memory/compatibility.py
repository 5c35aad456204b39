"""Whether a replica can run at all: engine, card, dtypes, tensor-parallel size and quantised shapes.

What is not stated anywhere is refused: unknown is not yes. Facts are rows of one table for each engine
(compatibility.csv for vLLM), each with its source.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Model, Quantisation
from recommender.memory.divisibility import refusal_of_shapes, refusal_of_tp
from recommender.memory.model_classes import ENGINE_NAMES, doubt_of_class, refusal_of_class
from recommender.memory.support import Support, Version, support, version_numbers

_PLAIN = ("bf16", "fp16")
# vLLM 0.33.0 config/model.py: these classes lose precision in float16 and are refused.
_NO_FLOAT16 = ("Gemma2", "Gemma3", "Glm4ForCausalLM")
# vLLM 0.33.0 v1/attention/backends/flashinfer.py, get_supported_head_sizes.
_FLASHINFER_HEAD_SIZES = (64, 128, 256, 512)
_FLASHINFER = "FLASHINFER"
_LATENT = {"mla": "latent", "compressed": "compressed"}
_STRICTEST = (0, 0, 0)
"""What other engines pad or refine is not known: their shapes are held to what the kernels take as they are."""
_INDEXED = {"mla": "indexed latent", "compressed": "compressed", "full": "indexed"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether it runs, why not, and what it takes: launch arguments and bytes kept free on each GPU."""

    ok: bool
    reason: str = ""
    launch_arguments: tuple[str, ...] = ()
    reserve_bytes: int = 0
    source: str = ""
    notes: tuple[str, ...] = ()
    cast: bool = False  # bf16 weights run as float16


def compatible(
    model: Model,
    gpu: Gpu,
    *,
    tp: int,
    weights: str,
    quantisation: Quantisation | None,
    kv_dtype: str,
    engine: str,
    engine_version: str,
    expert_parallel: bool = False,
) -> Verdict:
    """Whether `model` runs on `gpu` with these dtypes over `tp` GPUs of it."""
    card = _card(model, gpu, weights, quantisation, kv_dtype, engine, engine_version)
    if not card.ok:
        return card
    shaped = version_numbers(engine_version) if engine == "vllm" else _STRICTEST
    return _shapes(model, quantisation, tp, shaped, expert_parallel) or card


@lru_cache(maxsize=8192)
def _shapes(
    model: Model, quantisation: Quantisation | None, tp: int, version: Version, expert_parallel: bool
) -> Verdict | None:
    """The refusal of what tp does not divide, or None."""
    reason = refusal_of_tp(model, tp, expert_parallel)
    if reason is not None:
        return Verdict(False, reason, source="vLLM distributed/utils.py and config/model.py: what tp must divide")
    if quantisation is None:
        return None
    reason = refusal_of_shapes(model, quantisation, tp, version, expert_parallel)
    if reason is None:
        return None
    return Verdict(False, reason, source="vLLM quantization kernels: shapes on each GPU, by engine version")


@lru_cache(maxsize=8192)
def _card(
    model: Model,
    gpu: Gpu,
    weights: str,
    quantisation: Quantisation | None,
    kv_dtype: str,
    engine: str,
    engine_version: str,
) -> Verdict:
    """What the card itself allows, whatever the number of cards."""
    version = version_numbers(engine_version)
    if engine not in ENGINE_NAMES:
        return _no(f"what runs on which GPU is not known for the engine {engine!r}")
    shown = ENGINE_NAMES[engine]
    if not version:
        return _no(f"{engine_version!r} is not a version of {shown}")
    if gpu.engine == "none":
        return _no(f"{shown} does not run on {gpu.name}")
    unknown = refusal_of_class(model.architecture, engine_version, engine)
    if unknown is not None:
        return _no(*unknown)
    asked = [("engine", ""), ("dtype", "fp16" if model.native == "fp16" else "bf16")]
    asked += [("attention", what) for what in _attention_kinds(model)]
    asked += [("weights", what) for what in _weight_kinds(model, weights, quantisation)]
    asked.append(("kv", _kv_kind(model, kv_dtype, engine)))
    rows = []
    for topic, what in asked:
        row = support(topic, what, gpu, version, engine)
        refusal = _refusal(row, topic, what, model, gpu, f"{shown} {engine_version}")
        if refusal is not None:
            return refusal
        assert row is not None
        rows.append(row)
    doubt = doubt_of_class(model.architecture) if engine == "vllm" else None
    return _accept(rows, (doubt,) if doubt else ())


def _no(reason: str, source: str = "") -> Verdict:
    return Verdict(False, reason, source=source)


def _accept(rows: list[Support], doubts: tuple[str, ...]) -> Verdict:
    return Verdict(
        ok=True,
        launch_arguments=tuple(argument for row in rows for argument in row.arguments),
        reserve_bytes=sum(row.reserve_bytes for row in rows),
        source="; ".join(dict.fromkeys(row.source for row in rows)),
        notes=tuple(dict.fromkeys(row.note for row in rows if row.note)) + doubts,
        cast=any(row.verdict == "cast" for row in rows),
    )


def _refusal(row: Support | None, topic: str, what: str, model: Model, gpu: Gpu, engine: str) -> Verdict | None:
    if row is None:
        words = {"kv": "KV cache"}.get(topic, topic)
        if topic == "engine":
            return _no(f"{engine} on {gpu.name}: not known to work")
        subject = what if topic == "dtype" else f"{what} {words}"
        return _no(f"{subject} on {gpu.name} with {engine}: not known to work")
    if row.verdict == "no":
        return _no(f"{gpu.name}: {row.note}", row.source)
    if row.verdict == "cast" and model.architecture.startswith(_NO_FLOAT16):
        return _no(
            f"{gpu.name} has no bfloat16 and {model.architecture} does not support float16",
            "vLLM config/model.py, _FLOAT16_NOT_SUPPORTED_MODELS",
        )
    if _FLASHINFER in row.arguments:
        return _flashinfer_refusal(model, gpu)
    return None


def _flashinfer_refusal(model: Model, gpu: Gpu) -> Verdict | None:
    """FlashInfer takes some head sizes only, no attention sinks before Blackwell, and no latent cache before it."""
    source = "vLLM v1/attention/backends/flashinfer.py"
    sizes = {group.head_dim for group in model.attention if group.kind in ("full", "sliding", "chunked")}
    odd = sorted(sizes - set(_FLASHINFER_HEAD_SIZES))
    if odd:
        return _no(f"{gpu.name}: an FP8 KV cache needs FlashInfer, which has no heads of {odd[0]}", source)
    if model.architecture.startswith("GptOss"):
        return _no(f"{gpu.name}: an FP8 KV cache needs FlashInfer, which has no attention sinks there", source)
    if any(group.kind == "mla" for group in model.attention):
        return _no(f"{gpu.name}: an FP8 latent (MLA) KV cache is not known to work before 8.9", source)
    return None


def _kv_kind(model: Model, kv_dtype: str, engine: str) -> str:
    """The row of the table that the KV cache needs; a latent FP8 one is stated apart for the engines besides vLLM."""
    if "fp8" not in (kv_dtype, _declared_kv(model, kv_dtype)):
        return "auto"
    return "fp8 latent" if engine != "vllm" and "latent" in _attention_kinds(model) else "fp8"


def _declared_kv(model: Model, kv_dtype: str) -> str | None:
    """The KV dtype that `auto` becomes: what the checkpoint that runs declares."""
    return model.kv_declared if kv_dtype == "auto" else None


def _weight_kinds(model: Model, weights: str, quantisation: Quantisation | None) -> tuple[str, ...]:
    """The rows of the table that this storage needs."""
    if quantisation is None:
        return ("plain",) if weights in _PLAIN else (weights,)
    if quantisation.schemes:
        kinds = (_weight_kinds(model, each.dtype, each) for each in quantisation.schemes)
        return tuple(dict.fromkeys(kind for found in kinds for kind in found))
    kind = _kind(quantisation)
    if not model.experts:
        return (kind,)
    experts = _kind(quantisation.of_experts)
    return (kind, "fp8_moe" if experts.startswith("fp8") else experts) if experts != kind or "fp8" in kind else (kind,)


def _attention_kinds(model: Model) -> tuple[str, ...]:
    """The rows of the table that this attention needs, where not every card has kernels for it."""
    indexed = {group.kind for group in model.attention if group.indexer_layers}
    kinds = {_INDEXED[kind] for kind in indexed} | {
        _LATENT[group.kind] for group in model.attention if group.kind in _LATENT and group.kind not in indexed
    }
    return tuple(sorted(kinds))


def _kind(stored: Quantisation) -> str:
    method, _, strategy = stored.method.partition(":")
    if method == "bitsandbytes":
        return method
    if method in ("awq", "gptq", "awq_marlin", "gptq_marlin"):
        return method.removesuffix("_marlin")
    if stored.dtype == "int4" or strategy == "packed":
        return "w4a16"
    if stored.dtype == "fp8":
        block = method == "fp8_block" or strategy == "block"
        return "fp8_block" if block else {"fp8_online": "fp8_online", "modelopt": "fp8_modelopt"}.get(method, "fp8")
    return stored.dtype
