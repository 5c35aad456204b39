"""One configuration as a person names it, looked up and checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from recommender.catalog.catalog import Catalog
from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Checkpoint, Model, Quantisation
from recommender.errors import Fault, InputError
from recommender.memory.weights import WeightChoice, stored_as
from recommender.speed.build import Row, batched_tokens, stored_in
from recommender.speed.covered import engine_years
from recommender.speed.dates import check_engine
from recommender.speed.hardware import hardware_of
from recommender.speed.measurements import implied_dp
from recommender.speed.shape import shape_of

MOST_TOKENS = 10**7
MOST_REQUESTS = 10**6
MOST_GPUS = 1024


@dataclass(frozen=True, slots=True)
class Setup:
    """A model on GPUs: what is served, on what, how it is spread. `dp` is implied by an `ep` larger than tp."""

    model: str
    gpu: str
    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp: int = 1
    replicas: int = 1
    weights: str | None = None
    kv_dtype: str = "auto"
    engine: str = "vllm"
    engine_version: str | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """Requests of one length, so many in flight over all replicas."""

    prompt_tokens: float
    output_tokens: float
    concurrency: float


@dataclass(frozen=True, slots=True)
class Found:
    """A setup with its names looked up."""

    model: Model
    gpu: Gpu
    weights: str
    checkpoint: Checkpoint | None
    stored: Quantisation | None
    dp: int

    @classmethod
    def of(cls, model: Model, gpu: Gpu, choice: WeightChoice, dp: int) -> Found:
        """What a search has looked up already."""
        return cls(model, gpu, choice.weights, choice.checkpoint, choice.quantisation, dp)


def look_up(setup: Setup, catalog: Catalog) -> Found:
    """The model, GPU and weights of a setup. Raises InputError for names and numbers that cannot be."""
    check_engine(setup.engine)
    _check_sizes(setup)
    resolved = catalog.resolve(setup.model)
    model, checkpoint = resolved.model, resolved.checkpoint
    if model.heads % setup.tp:
        what = f"{model.heads} attention heads of {model.id} cannot be split over {setup.tp} GPUs"
        raise InputError(Fault(what, key="tp", expected=f"a divisor of {model.heads}"))
    if setup.pp > model.layers:
        what = f"{model.id} has {model.layers} layers, not enough for {setup.pp} pipeline stages"
        raise InputError(Fault(what, key="pp", expected=f"at most {model.layers}"))
    weights = setup.weights or (checkpoint.weights if checkpoint is not None else model.native)
    if checkpoint is not None and checkpoint.weights == weights:
        stored = stored_as(model, weights, checkpoint)
    else:
        checkpoint, stored = stored_in(catalog, model, weights)
    if checkpoint is not None and checkpoint.kv_declared is not None:
        model = replace(model, kv_declared=checkpoint.kv_declared)  # what `auto` follows
    dp = implied_dp(setup.tp, setup.pp, setup.ep, setup.dp)
    return Found(model, catalog.gpu(setup.gpu), weights, checkpoint, stored, dp)


def row_of(setup: Setup, found: Found, load: Load) -> Row:
    """The configuration at a load. Raises NotModelledError where its speed is not modelled."""
    check_load(load)
    shape, gpu = shape_of(found.model, found.weights, found.stored, setup.kv_dtype), hardware_of(found.gpu)
    return Row(
        shape=shape,
        gpu=gpu,
        engine=setup.engine,
        tp=setup.tp,
        pp=setup.pp,
        ep=setup.ep,
        dp=found.dp,
        replicas=setup.replicas,
        prompt_tokens=float(load.prompt_tokens),
        output_tokens=float(load.output_tokens),
        concurrency=float(load.concurrency),
        years=engine_years(setup.engine, setup.engine_version, shape.family),
        batched_tokens=batched_tokens(gpu),
    )


def _check_sizes(setup: Setup) -> None:
    sizes = {name: getattr(setup, name) for name in ("tp", "pp", "ep", "dp", "replicas")}
    faults = [
        Fault(f"{value!r} cannot be", key=name, expected=f"a whole number from 1 to {MOST_GPUS:,}")
        for name, value in sizes.items()
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_GPUS
    ]
    if setup.kv_dtype not in ("auto", "bf16", "fp8"):
        faults.append(Fault(f"{setup.kv_dtype!r} is not known", key="kv_dtype", expected="auto | bf16 | fp8"))
    if faults:
        raise InputError(faults)


def check_load(load: Load) -> None:
    """Raise InputError where the lengths or the requests in flight cannot be."""
    limits = (("isl", load.prompt_tokens, MOST_TOKENS), ("osl", load.output_tokens, MOST_TOKENS))
    faults = [
        Fault(f"{value!r} cannot be", key=name, expected=f"a number from 1 to {most:,}")
        for name, value, most in (*limits, ("concurrency", load.concurrency, MOST_REQUESTS))
        if isinstance(value, bool) or not math.isfinite(value) or not 1 <= value <= most
    ]
    if faults:
        raise InputError(faults)
