"""Columns of configurations given one by one: names looked up, shapes and cards shared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from recommender.catalog.catalog import Catalog
from recommender.catalog.models import Checkpoint, Model, Quantisation
from recommender.errors import Fault, InputError
from recommender.memory.weights import PLAIN, TO_MAKE, weight_choices
from recommender.scenario import ENGINE_VERSION
from recommender.speed.candidates import Candidates
from recommender.speed.hardware import Hardware, hardware_of
from recommender.speed.measurements import Measurement
from recommender.speed.room import estimated_sequences
from recommender.speed.shape import Shape, shape_of
from recommender.speed.work import Work, work_of

BATCHED_TOKENS = 8192
"""Tokens of a step on cards of 70 GiB and more; smaller ones take 2048 (vLLM arg_utils.py)."""
SMALL_BATCHED_TOKENS = 2048
_LARGE_BYTES = 70 * 2**30


@dataclass(frozen=True, slots=True)
class Row:
    """One configuration with its shape and hardware."""

    shape: Shape
    gpu: Hardware
    engine: str
    tp: int
    pp: int
    ep: int
    dp: int
    replicas: int
    prompt_tokens: float
    output_tokens: float
    concurrency: float
    years: float
    batched_tokens: float


def batched_tokens(gpu: Hardware) -> float:
    """The engine's default for the most tokens of a step."""
    return float(BATCHED_TOKENS if (gpu.memory_bytes or 0) >= _LARGE_BYTES else SMALL_BATCHED_TOKENS)


def columns(rows: Sequence[Row]) -> tuple[Candidates, Work]:
    """The configurations as columns, with an estimate of the sequences each replica has room for, and their work."""
    shapes, gpus, engines = _distinct(rows, "shape"), _distinct(rows, "gpu"), _distinct(rows, "engine")
    numbers: dict[str, Any] = {
        name: np.array([getattr(row, name) for row in rows], dtype=np.int64)
        for name in ("tp", "pp", "ep", "dp", "replicas")
    }
    for name in ("prompt_tokens", "output_tokens", "concurrency", "years", "batched_tokens"):
        numbers[name] = np.array([getattr(row, name) for row in rows], dtype=np.float64)
    found = Candidates(
        shapes=tuple(shapes),
        gpus=tuple(gpus),
        engines=tuple(engines),
        shape=np.array([shapes[row.shape] for row in rows], dtype=np.int64),
        gpu=np.array([gpus[row.gpu] for row in rows], dtype=np.int64),
        engine=np.array([engines[row.engine] for row in rows], dtype=np.int64),
        sequences=np.zeros(len(rows)),
        **numbers,
    )
    work = work_of(found)
    return replace(found, sequences=estimated_sequences(found, work)), work


def measured_rows(measurements: Iterable[Measurement], catalog: Catalog) -> list[Row]:
    """The configurations that were measured."""
    shapes: dict[tuple[str, str, str], Shape] = {}
    rows = []
    for each in measurements:
        key = (each.model, each.weights, each.kv_dtype)
        if key not in shapes:
            shapes[key] = stored_shape(catalog, catalog.model(each.model), each.weights, each.kv_dtype)
        rows.append(_measured_row(each, shapes[key], hardware_of(catalog.gpu(each.gpu))))
    return rows


def _measured_row(each: Measurement, shape: Shape, gpu: Hardware) -> Row:
    return Row(
        shape=shape,
        gpu=gpu,
        engine=each.engine,
        tp=each.tp,
        pp=each.pp,
        ep=each.ep,
        dp=each.dp,
        replicas=each.replicas,
        prompt_tokens=each.prompt_tokens,
        output_tokens=each.output_tokens,
        concurrency=each.concurrency,
        years=each.years,
        batched_tokens=batched_tokens(gpu),
    )


def stored_shape(catalog: Catalog, model: Model, weights: str, kv_dtype: str) -> Shape:
    """The shape of a model in a dtype, stored as its published checkpoint, else as the usual recipe stores it."""
    return shape_of(model, weights, stored_in(catalog, model, weights)[1], kv_dtype)


def stored_in(catalog: Catalog, model: Model, weights: str) -> tuple[Checkpoint | None, Quantisation | None]:
    """The checkpoint of a dtype and how it stores its linear weights. Raises InputError where there is no such way."""
    choices = weight_choices(model, catalog.checkpoints_of(model.id), ENGINE_VERSION)
    for choice in choices:
        if choice.weights == weights:
            return choice.checkpoint, choice.quantisation
    if weights in PLAIN:
        return None, None
    if weights not in TO_MAKE:
        known = " | ".join(sorted({choice.weights for choice in choices} | set(TO_MAKE)))
        raise InputError(Fault(f"no {weights} weights for {model.id}", key="weights", expected=known))
    return None, TO_MAKE[weights]


def _distinct(rows: Sequence[Row], name: str) -> dict[Any, int]:
    """Index of each different value, in the order they come."""
    found: dict[Any, int] = {}
    for row in rows:
        found.setdefault(getattr(row, name), len(found))
    return found
