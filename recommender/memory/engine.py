"""Constants of an inference engine at one version: defaults, rules and measured reserves, read from dated data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Model
from recommender.errors import InputError, NotModelledError
from recommender.memory.engine_rows import (
    Context,
    Graphs,
    Mxfp4Kernel,
    NonTorch,
    Recurrent,
    Row,
    Sampler,
    SchedulerDefault,
    Uncertainty,
    V2Rule,
    Version,
    gib,
    parse_version,
    row_at,
)
from recommender.memory.fitted import filled_in, read_fitted

DATA = Path(__file__).parent / "engines"
V0_LONG_CONTEXT = 32_768
"""Above this length V0 turned chunked prefill on (vLLM 0.6 arg_utils.py)."""
V0_BATCHED_TOKENS = 2_048


@dataclass(frozen=True, slots=True)
class EngineConstants:
    """Everything that depends on the engine and its version, and nothing that depends on the replica."""

    engine: str
    version: str
    number: Version
    gpu_memory_utilization: float
    graphs_charged: bool
    null_block_checked: bool
    kv_cache_memory_option: bool
    watermark_option: bool
    estimate_printed: bool
    context: tuple[Context, ...]
    mxfp4_kernels: tuple[Mxfp4Kernel, ...]
    rotary_stretch: Mapping[str, int]  # by architecture
    in_flight_batches: int
    tokens_from_concurrency: bool
    hybrid_groups: bool
    kv_dtype_ignored: tuple[str, ...]
    latent_multiple: int
    recurrent: Recurrent
    newest_generation: str
    generation_minimum_capability: tuple[int, int] | None
    scheduler: tuple[SchedulerDefault, ...]
    capture_limit: int
    capture_limit_blackwell: int
    v2_rule: V2Rule
    samplers: Mapping[str, Sampler]
    forward_hidden_factor: int
    moe_workspace_kept: bool
    multimodal_bytes: int
    pixel_bytes: int
    sparse_attention_bytes: int
    non_torch: NonTorch
    graphs: Graphs
    uncertainty: Uncertainty
    extrapolated: str | None  # why the version itself is outside what was measured
    sources: Mapping[str, str]

    def generation(self, gpu: Gpu) -> str:
        """V0 or V1: which engine core this card gets by default."""
        capability = self.generation_minimum_capability
        old = capability is not None and gpu.compute_capability is not None and gpu.compute_capability < capability
        return "V0" if old else self.newest_generation

    def context_bytes(self, gpu: Gpu, tp: int) -> int:
        """What is gone of a card before the engine measures its free memory: the context, and what NCCL takes."""
        major = gpu.compute_capability[0] if gpu.compute_capability else None
        row = next(row for row in self.context if not row.capability or major in row.capability)
        return row.by_tp[0 if tp == 1 else 1 if tp < 4 else 2]

    def mxfp4_kernel(self, gpu: Gpu) -> Mxfp4Kernel | None:
        """How this card's kernels take MXFP4 experts; None where no row speaks of it."""
        major = gpu.compute_capability[0] if gpu.compute_capability else None
        rows = (row for row in self.mxfp4_kernels if row.vendor == gpu.vendor.casefold())
        return next((row for row in rows if not row.capability or major in row.capability), None)

    def null_blocks(self, gpu: Gpu) -> int:
        """Blocks of every pool that are never handed out: V1 keeps one."""
        return 0 if self.generation(gpu) == "V0" else 1

    def runner(self, model: Model, quantised: bool) -> str:
        """V1 or V2: the model runner this model gets by default. Decides what sampling takes."""
        rule = self.v2_rule
        traits = {"moe"} if model.experts else set()
        if any(layers.kind == "linear" for layers in model.attention):
            traits.add("hybrid")
        named = model.architecture in rule.architectures and (rule.quantised or not quantised)
        return "V2" if named or (rule.all_but is not None and not traits & set(rule.all_but)) else "V1"

    def states_per_request(self, model: Model, recurrence: str | None) -> int:
        """Recurrent states the engine charges one request in each such layer."""
        named = self.recurrent.named_states.get(model.architecture)
        return named or self._recurrent(self.recurrent.states, recurrence)

    def recurrent_block_multiple(self, recurrence: str | None) -> int:
        """The attention block of a model with such layers is a multiple of so many tokens."""
        return self._recurrent(self.recurrent.block_multiple, recurrence)

    def _recurrent(self, values: Mapping[str, int], recurrence: str | None) -> int:
        if recurrence is None or recurrence not in values:
            raise NotModelledError(f"{recurrence} layers are not modelled for {self.engine} {self.version}")
        return values[recurrence]

    def scheduler_default(self, gpu: Gpu, max_model_len: int) -> tuple[int, int]:
        """(max_num_seqs, max_num_batched_tokens) of `vllm serve` on this card, before they cut one another."""
        generation = self.generation(gpu)
        folded = gpu.name.casefold()
        for row in self.scheduler:
            named = any(name.casefold() in folded for name in row.not_named)
            if row.generation == generation and (gpu.memory_bytes or 0) >= row.minimum_bytes and not named:
                return row.seqs, row.batched_tokens or _v0_batched_tokens(max_model_len)
        raise InputError(f"no scheduler defaults for {gpu.name} on {self.engine} {self.version}")

    def in_flight_tokens(self, max_num_batched_tokens: int, pp: int = 1) -> int:
        """Tokens of all batches that run at once: what sliding and chunked layers reserve beside their window."""
        return max_num_batched_tokens * (self.in_flight_batches if pp == 1 else pp + self.in_flight_batches - 1)

    def capture_maximum(self, gpu: Gpu) -> int:
        """The largest batch a CUDA graph is captured for, before max_num_seqs and max_num_batched_tokens cut it."""
        blackwell = gpu.compute_capability is not None and gpu.compute_capability[0] == 10
        return self.capture_limit_blackwell if blackwell else self.capture_limit


def engine_constants(engine: str, version: str | None) -> EngineConstants:
    """The constants of one engine version; None is the version that answers assume.

    Raises InputError where the version cannot be read, NotModelledError where engine or version is not modelled.
    """
    known = {path.stem for path in DATA.glob("*.yaml")}
    if engine not in known:
        raise NotModelledError(f"engine {engine!r} is not modelled yet (modelled: {', '.join(sorted(known))})")
    return _constants(engine, version)


@lru_cache(maxsize=64)
def _constants(engine: str, version: str | None) -> EngineConstants:
    return constants_of(filled_in(engine_data(engine), read_fitted(fitted_of(engine))), engine, version)


def constants_of(data: Mapping[str, Any], engine: str, version: str | None) -> EngineConstants:
    """The constants of one version from an engine's data, with everything that is fitted filled in."""
    text = version or data["default_version"]
    number = parse_version(text)
    name = f"{engine} {text}"

    def at(key: str) -> Row:
        return row_at(data[key], number, name)

    generation, capture, stretched = at("generation"), at("capture_limit"), at("rotary_stretch")
    capability = generation["minimum_capability"]
    sampling = [row for row in data["sampler"] if parse_version(row["since"]) <= number]
    sourced = ("gpu_memory_utilization", "graphs_charged", "in_flight_batches", "scheduler", "v2_runner", "non_torch")
    return EngineConstants(
        engine=engine,
        version=text,
        number=number,
        gpu_memory_utilization=float(at("gpu_memory_utilization")["value"]),
        graphs_charged=at("graphs_charged")["value"],
        null_block_checked=at("null_block_checked")["value"],
        kv_cache_memory_option=at("kv_cache_memory_option")["value"],
        watermark_option=at("watermark_option")["value"],
        estimate_printed=at("estimate_printed")["value"],
        context=tuple(Context.of(row) for row in at("context")["rows"]),
        rotary_stretch={str(name): int(stretched["factor"]) for name in stretched["architectures"]},
        mxfp4_kernels=tuple(Mxfp4Kernel.of(row) for row in at("mxfp4_kernels")["rows"]),
        in_flight_batches=at("in_flight_batches")["value"],
        tokens_from_concurrency=at("tokens_printed")["value"] == "concurrency",
        hybrid_groups=at("hybrid_groups")["value"],
        kv_dtype_ignored=tuple(at("kv_dtype_ignored")["architectures"]),
        latent_multiple=at("latent_multiple")["value"],
        recurrent=Recurrent.of(at("recurrent")),
        newest_generation=generation["value"],
        generation_minimum_capability=None if capability is None else (capability[0], capability[1]),
        scheduler=tuple(SchedulerDefault.of(row) for row in at("scheduler")["rows"]),
        capture_limit=capture["value"],
        capture_limit_blackwell=capture["blackwell"],
        v2_rule=V2Rule.of(at("v2_runner")),
        samplers={row["runner"]: Sampler.of(row) for row in sampling},
        forward_hidden_factor=at("forward_hidden_factor")["value"],
        moe_workspace_kept=at("moe_workspace_kept")["value"],
        multimodal_bytes=gib(at("multimodal_profile")["gib"]),
        pixel_bytes=at("multimodal_profile")["pixel_bytes"],
        sparse_attention_bytes=gib(at("sparse_attention")["gib"]),
        non_torch=NonTorch.of(at("non_torch")),
        graphs=Graphs.of(at("graphs")),
        uncertainty=Uncertainty.of(at("uncertainty")),
        extrapolated=_outside(data, number, name),
        sources={key: at(key)["source"] for key in sourced},
    )


def fitted_of(engine: str) -> Path:
    """The file of an engine's fitted constants."""
    return DATA / f"{engine}_fitted.csv"


@lru_cache(maxsize=4)
def engine_data(engine: str) -> dict[str, Any]:
    """An engine's data file as it is written."""
    import yaml

    return dict(yaml.safe_load((DATA / f"{engine}.yaml").read_text(encoding="utf-8")))


def _outside(data: Mapping[str, Any], number: Version, name: str) -> str | None:
    if number > parse_version(data["newest_read"]):
        return f"{name} is newer than {data['newest_read']}, the newest version whose sources were read"
    for gap in data["without_evidence"]:
        before = gap["before"]
        if parse_version(gap["since"]) <= number and (before is None or number < parse_version(before)):
            return f"no start-up log of {name} was available: its reserve is read from its sources, not measured"
    return None


def _v0_batched_tokens(max_model_len: int) -> int:
    return V0_BATCHED_TOKENS if max_model_len > V0_LONG_CONTEXT else max(max_model_len, V0_BATCHED_TOKENS)
