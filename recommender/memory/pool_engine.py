"""Constants of an engine that forms one KV pool of tokens (SGLang, TensorRT-LLM) at one version, from dated data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Model
from recommender.errors import NotModelledError
from recommender.memory.engine import DATA
from recommender.memory.engine_rows import Row, Version, gib, parse_version, row_at
from recommender.memory.share import MIB, Share, Work, share_of

STATIC = "static"
"""The rule of a pool that is a share of what was free before loading; the other is a share of what is left after."""
PARALLEL_SIZES = (1, 2, 4, 8)
"""The tensor-parallel sizes that figures by GPU are stated for; between two of them the larger counts."""


@dataclass(frozen=True, slots=True)
class StepDefault:
    """Default tokens of one step, and the largest decode graph at tp below 4 and from 4 on, for cards up to a size."""

    below_mib: int | None
    tokens: int
    graphs: tuple[int, int]


@dataclass(frozen=True, slots=True)
class ByCapability:
    """Figures of the cards whose compute capability is named (none: any)."""

    capability: tuple[int, ...]
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PoolEngine:
    """Everything that depends on the engine and its version, and nothing that depends on the replica."""

    engine: str
    shown: str
    version: str
    number: Version
    rule: str  # static | left
    share: Share
    step_defaults: tuple[StepDefault, ...]
    default_requests: int
    most_requests: int | None
    page_tokens: tuple[ByCapability, ...]
    sliding_as_full: bool
    sliding_flag: str
    context: tuple[ByCapability, ...]
    activation_per_hidden: Mapping[str, tuple[int, ...]]  # dense | experts, at tp 1, 2 and 4 and more
    least_activation_bytes: int
    outside: tuple[int, ...]
    measured_margin_bytes: int
    other_margin_bytes: int
    measured: tuple[tuple[tuple[int, int], tuple[int, ...]], ...]
    extrapolated: str | None  # why the version itself is outside what was read
    sources: Mapping[str, str]

    @property
    def name(self) -> str:
        """`SGLang 0.5.23`."""
        return f"{self.shown} {self.version}"

    def step_tokens(self, gpu: Gpu) -> int:
        """Tokens of one step of this card by default."""
        return self._step(gpu).tokens

    def default_share(self, model: Model, gpu: Gpu, *, tp: int, tokens: int, enforce_eager: bool) -> float:
        """The share the engine takes where it is not told one, as if max-running-requests did not cut its graphs."""
        graphs = self._step(gpu).graphs
        work = Work(
            card_mib=card_mib(gpu),
            gpus=tp,
            tokens=tokens,
            graph=graphs[0] if tp < 4 else graphs[1],
            latent=is_latent(model),
            multimodal=model.multimodal,
            eager=enforce_eager,
        )
        return self.share.of(work)

    def tokens_of_page(self, gpu: Gpu) -> int:
        """Tokens that the pool, and every request in it, is rounded up to."""
        return _of(self.page_tokens, gpu)[0]

    def free_bytes(self, gpu: Gpu, tp: int) -> int:
        """What is free on a card before the weights are loaded."""
        return (gpu.memory_bytes or 0) - _at(_of(self.context, gpu), tp)

    def activation_bytes(self, model: Model, tp: int, tokens: int) -> int:
        """What one batch of so many tokens takes, where the engine measures it."""
        factor = _at(self.activation_per_hidden["experts" if model.experts else "dense"], tp)
        return max(2 * tokens * model.hidden_size * factor, self.least_activation_bytes)

    def outside_bytes(self, tp: int) -> int:
        """What is taken outside torch, where the engine measures it."""
        return _at(self.outside, tp)

    def is_like_measured(self, gpu: Gpu, tp: int) -> bool:
        """Whether a start-up log of this compute capability and tensor-parallel size was read."""
        return any(gpu.compute_capability == capability and tp in sizes for capability, sizes in self.measured)

    def margin_bytes(self, gpu: Gpu, tp: int) -> int:
        """Half of the interval around what is neither weights nor cache."""
        like = self.is_like_measured(gpu, tp) and self.extrapolated is None
        return self.measured_margin_bytes if like else self.other_margin_bytes

    def _step(self, gpu: Gpu) -> StepDefault:
        size = card_mib(gpu)
        return next(row for row in self.step_defaults if row.below_mib is None or size < row.below_mib)


def card_mib(gpu: Gpu) -> int:
    """The card's memory as nvidia-smi prints it, else as the engine sees it."""
    return gpu.memory_mib_driver or math.ceil((gpu.memory_bytes or 0) / MIB)


def is_latent(model: Model) -> bool:
    """Whether attention keeps one latent a token."""
    return any(layers.kind == "mla" for layers in model.attention)


def pool_engines() -> tuple[str, ...]:
    """The engines modelled so."""
    return tuple(sorted(path.stem for path in DATA.glob("*.yaml") if path.stem != "vllm"))


def default_version_of(engine: str) -> str:
    """The version that answers assume. Raises NotModelledError."""
    return str(_data(engine)["default_version"])


def pool_engine(engine: str, version: str | None) -> PoolEngine:
    """The constants of one version; None is the one that answers assume.

    Raises InputError where the version cannot be read, NotModelledError where engine or version is not modelled.
    """
    if engine not in pool_engines():
        known = ", ".join(("vllm", *pool_engines()))
        raise NotModelledError(f"engine {engine!r} is not modelled yet (modelled: {known})")
    return _constants(engine, version)


@lru_cache(maxsize=64)
def _constants(engine: str, version: str | None) -> PoolEngine:
    data = _data(engine)
    text = version or data["default_version"]
    number = parse_version(text)
    name = f"{data['shown']} {text}"
    newest = parse_version(data["newest_read"])
    if number[:2] > newest[:2]:
        raise NotModelledError(f"{name} is not known: the nearest version that is modelled is {data['newest_read']}")
    oldest = data["pool"][0]["since"]
    if number < parse_version(oldest):
        raise NotModelledError(f"{name} is not modelled: the nearest version that is modelled is {oldest}")

    def at(key: str) -> Row:
        return row_at(data[key], number, name)

    requests, sliding, activation, margins = at("requests"), at("sliding"), at("activation"), at("uncertainty")
    sourced = ("pool", "share", "defaults", "requests", "context", "activation", "outside", "uncertainty", "sliding")
    return PoolEngine(
        engine=engine,
        shown=data["shown"],
        version=text,
        number=number,
        rule=at("pool")["rule"],
        share=share_of(at("share")),
        step_defaults=tuple(
            StepDefault(row["below_mib"], row["tokens"], (row["graph"][0], row["graph"][1]))
            for row in at("defaults")["rows"]
        ),
        default_requests=requests["default"],
        most_requests=requests["most"],
        page_tokens=tuple(
            ByCapability(tuple(row["capability"]), (row["tokens"],)) for row in at("page_tokens")["rows"]
        ),
        sliding_as_full=sliding["as_full"],
        sliding_flag=sliding["flag"],
        context=tuple(
            ByCapability(tuple(row["capability"]), tuple(gib(value) for value in row["gib"]))
            for row in at("context")["rows"]
        ),
        activation_per_hidden={kind: tuple(values) for kind, values in activation["per_hidden"].items()},
        least_activation_bytes=activation["least_mib"] * MIB,
        outside=tuple(gib(value) for value in at("outside")["gib"]),
        measured_margin_bytes=gib(margins["measured_gib"]),
        other_margin_bytes=gib(margins["other_gib"]),
        measured=tuple(((row["capability"][0], row["capability"][1]), tuple(row["tp"])) for row in data["measured"]),
        extrapolated=_outside(data, number, name),
        sources={**{key: at(key)["source"] for key in sourced}, "evidence": data["evidence"]["text"]},
    )


def _outside(data: Mapping[str, Any], number: Version, name: str) -> str | None:
    read = [parse_version(each) for each in data["versions_read"]]
    if number in read:
        return None
    before = max((each for each in read if each < number), default=read[0])
    return f"{name} itself was not read: it is taken to do as {'.'.join(map(str, before))} does"


def _of(rows: tuple[ByCapability, ...], gpu: Gpu) -> tuple[int, ...]:
    major = gpu.compute_capability[0] if gpu.compute_capability else None
    return next(row.values for row in rows if not row.capability or major in row.capability)


def _at(values: tuple[int, ...], tp: int) -> int:
    """The figure of a tensor-parallel size; the last one from there on."""
    return values[min(sum(size < tp for size in PARALLEL_SIZES), len(values) - 1)]


@lru_cache(maxsize=4)
def _data(engine: str) -> dict[str, Any]:
    import yaml

    return dict(yaml.safe_load((DATA / f"{engine}.yaml").read_text(encoding="utf-8")))
