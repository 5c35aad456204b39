"""The public answer: how fast one configuration serves, with its band and what that rests on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from recommender.catalog.catalog import Catalog, shipped_catalog
from recommender.errors import InputError
from recommender.memory.fit import Replica, fit_replica
from recommender.speed.anchors import Anchor, by_key
from recommender.speed.build import columns
from recommender.speed.candidates import Candidates, Float
from recommender.speed.covered import covered
from recommender.speed.evidence import Evidence
from recommender.speed.predict import HIGH, LOW, Prepared, prepare, shipped_knowledge
from recommender.speed.setup import MOST_REQUESTS, Found, Load, Setup, check_load, look_up, row_of
from recommender.units import plural

_IN_FLIGHT = 0.6  # of its output that a running request holds on average, with some room for the unlucky


@dataclass(frozen=True, slots=True)
class Speed:
    """Means over requests, in milliseconds, and tokens a second over all replicas. Intervals hold 80 % of outcomes.

    `ttft_ms` includes `queue_ms`, the wait for a place where more requests are in flight than the replicas hold at once
    (`running` on each). `evidence` says what the band rests on.
    """

    model: str
    gpu: str
    weights: str
    engine: str
    gpus: int
    concurrency: float
    ttft_ms: float
    tpot_ms: float
    output_tokens_per_s: float
    requests_per_s: float
    ttft_ms_interval: tuple[float, float]
    tpot_ms_interval: tuple[float, float]
    output_tokens_per_s_interval: tuple[float, float]
    evidence: str
    queue_ms: float
    running: float
    prompt_share: float  # of the engine's time, that prompts take
    sources: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Running:
    """What a replica was started with: requests that it runs at once, tokens of one step."""

    sequences: int
    batched_tokens: int


def speed(
    model: str,
    gpu: str,
    isl: int,
    osl: int,
    concurrency: int,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    dp: int = 1,
    replicas: int = 1,
    weights: str | None = None,
    kv_dtype: str = "auto",
    engine: str = "vllm",
    engine_version: str | None = None,
    anchors: Iterable[Anchor] | None = None,
    catalog: Catalog | None = None,
) -> Speed:
    """How fast a configuration serves `concurrency` requests of isl prompt and osl output tokens in flight.

    `anchors` are a user's own measurements. Without an engine version, the engine is taken to be as old as those that
    were measured. Raises InputError for unknown names, NotModelledError for what is not modelled.
    """
    catalog = catalog or shipped_catalog()
    setup = Setup(model, gpu, tp, pp, ep, dp, replicas, weights, kv_dtype, engine, engine_version)
    found = look_up(setup, catalog)
    load = Load(isl, osl, concurrency)
    prepared, warnings = prepared_for(setup, found, load, anchors)
    return answer_of(prepared, setup, found, load, warnings)


def speed_of(
    setup: Setup, found: Found, load: Load, running: Running, anchors: Iterable[Anchor] | None = None
) -> Speed:
    """The answer for a replica whose memory was already asked.

    Raises NotModelledError where its speed is not modelled.
    """
    prepared, warnings = prepared_of(setup, found, load, running, anchors)
    return answer_of(prepared, setup, found, load, warnings)


def prepared_of(
    setup: Setup, found: Found, load: Load, running: Running, anchors: Iterable[Anchor] | None = None
) -> tuple[Prepared, tuple[str, ...]]:
    """A replica whose memory was already asked, ready for any load, and what of it was never measured."""
    row = replace(row_of(setup, found, load), batched_tokens=float(running.batched_tokens))
    rows, _ = columns([row])
    prepared = _prepared(replace(rows, sequences=np.array([float(running.sequences)])), anchors)
    return prepared, _beyond(prepared, setup, load)


def curve(
    setup: Setup,
    load: Load,
    concurrencies: Sequence[int] | None = None,
    anchors: Iterable[Anchor] | None = None,
    catalog: Catalog | None = None,
) -> tuple[Speed, ...]:
    """The answers over concurrency: at the given ones, else doubling from 1 to what the replicas hold at once."""
    catalog = catalog or shipped_catalog()
    found = look_up(setup, catalog)
    prepared, warnings = _ready(setup, found, load, anchors)
    if concurrencies is None:
        most = int(prepared.rows.sequences[0]) * setup.replicas
        doubling = (2**power for power in range(most.bit_length()))
        concurrencies = sorted({*doubling, min(most, MOST_REQUESTS)})
    answers = []
    for concurrency in concurrencies:
        at = replace(load, concurrency=concurrency)
        check_load(at)
        answers.append(answer_of(prepared, setup, found, at, (*warnings, *_beyond(prepared, setup, at))))
    return tuple(answers)


def prepared_for(
    setup: Setup, found: Found, load: Load, anchors: Iterable[Anchor] | None = None
) -> tuple[Prepared, tuple[str, ...]]:
    """One configuration ready for any load, and what to warn of. Raises InputError where its weights do not fit."""
    prepared, warnings = _ready(setup, found, load, anchors)
    return prepared, (*warnings, *_beyond(prepared, setup, load))


def _ready(
    setup: Setup, found: Found, load: Load, anchors: Iterable[Anchor] | None
) -> tuple[Prepared, tuple[str, ...]]:
    """The configuration with room for as many requests of these lengths as it holds, and what to warn of its room."""
    rows, _ = columns([row_of(setup, found, load)])
    if rows.sequences[0] < 1:
        gpus = setup.tp * setup.pp * found.dp
        raise InputError(f"{found.model.id} in {found.weights} does not fit {gpus} x {found.gpu.name}")
    sequences, warnings = _room(setup, found, load, float(rows.sequences[0]))
    return _prepared(replace(rows, sequences=np.array([sequences])), anchors), warnings


def _prepared(rows: Candidates, anchors: Iterable[Anchor] | None) -> Prepared:
    return prepare(rows, shipped_knowledge().with_anchors(by_key(anchors or ())))


def _beyond(prepared: Prepared, setup: Setup, load: Load) -> tuple[str, ...]:
    """What of a load lies beyond what was measured."""
    on_replica = min(load.concurrency / setup.replicas, float(prepared.rows.sequences[0]))
    reach = covered(setup.engine, prepared.rows.shapes[0].family)
    return reach.beyond(load.prompt_tokens, load.output_tokens, on_replica)


def answer_of(prepared: Prepared, setup: Setup, found: Found, load: Load, warnings: tuple[str, ...]) -> Speed:
    """The answer for one prepared configuration at a load."""
    at = np.array([float(load.concurrency)])
    steady = prepared.steady(at)
    ttft = float(steady.ttft_s[0] + steady.queue_s[0]) * 1e3
    tpot, rate = float(steady.tpot_s[0]) * 1e3, float(steady.output_tokens_per_s[0])
    gpus = setup.tp * setup.pp * found.dp * setup.replicas
    sources = _sources(prepared, anchored=prepared.factors.runs[0] > 0)
    if steady.queue_s[0] > 0:
        warnings = (*warnings, f"about {steady.running[0]:,.0f} requests run at once on a replica: the others queue")
    return Speed(
        model=found.model.id,
        gpu=found.gpu.name,
        weights=found.weights,
        engine=setup.engine,
        gpus=gpus,
        concurrency=load.concurrency,
        ttft_ms=ttft,
        tpot_ms=tpot,
        output_tokens_per_s=rate,
        requests_per_s=rate / load.output_tokens,
        ttft_ms_interval=_interval(prepared, "ttft", ttft, at),
        tpot_ms_interval=_interval(prepared, "tpot", tpot, at),
        output_tokens_per_s_interval=_interval(prepared, "output_tokens_per_s", rate, at),
        evidence=Evidence(int(prepared.evidence_at(at)[0])).words,
        queue_ms=float(steady.queue_s[0]) * 1e3,
        running=float(steady.running[0]),
        prompt_share=_prompt_share(prepared, rate, load, setup),
        sources=sources,
        warnings=warnings,
    )


def _interval(prepared: Prepared, metric: str, value: float, at: Float) -> tuple[float, float]:
    """The 80 % band around a prediction with so many requests in flight."""
    low, high = (float(prepared.ratio(metric, level, at)[0]) for level in (LOW, HIGH))
    return value * low, value * high


def _prompt_share(prepared: Prepared, output_tokens_per_s: float, load: Load, setup: Setup) -> float:
    """Share of a rank's time that computing prompts takes."""
    ranks = setup.replicas * float(prepared.rows.dp[0] * prepared.rows.pp[0])
    prompts_per_s = output_tokens_per_s / load.output_tokens / ranks
    return min(prompts_per_s * float(prepared.costs.prompt_s[0] * prepared.factors.tpot[0]), 1.0)


def _room(setup: Setup, found: Found, load: Load, estimate: float) -> tuple[float, tuple[str, ...]]:
    """Requests one replica runs at once: what the engine's cache holds, else an estimate from free memory."""
    try:
        fit = fit_replica(_replica(setup, found, load))
    except InputError as error:
        return estimate, (f"cache room is estimated: {error}",)
    if not fit.starts:
        return estimate, (f"{setup.engine} would not start so: {fit.refusal}",)
    held = fit.kv_cache_tokens * found.dp / (load.prompt_tokens + _IN_FLIGHT * load.output_tokens)
    return max(float(int(held)), 1.0), ()


def _replica(setup: Setup, found: Found, load: Load) -> Replica:
    return Replica(
        model=found.model,
        gpu=found.gpu,
        weights=found.weights,
        checkpoint=found.checkpoint,
        kv_dtype="fp8" if setup.kv_dtype == "fp8" else "auto",
        tp=setup.tp,
        pp=setup.pp,
        dp=found.dp,
        ep=setup.ep,
        max_model_len=int(load.prompt_tokens + load.output_tokens),
        engine=setup.engine,
        engine_version=setup.engine_version,
    )


def _sources(prepared: Prepared, *, anchored: bool) -> tuple[str, ...]:
    """What the figures rest on."""
    found = ["constants fitted on published measurements (docs/accuracy-speed.md)"]
    if anchored:
        runs = plural(int(prepared.factors.runs[0]), "run")
        found.append(f"anchored by {runs} of this GPU, model, engine and dtype")
    return tuple(found)
