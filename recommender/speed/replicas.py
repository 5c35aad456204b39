"""Candidate replicas of the search as columns whose speed can be asked."""

from __future__ import annotations

import numpy as np

from recommender.catalog.gpus import Gpu
from recommender.errors import NotModelledError
from recommender.memory.capacity import Capacity, ReplicaColumns, Setting
from recommender.memory.weights import stored_as
from recommender.speed.candidates import Bool, Candidates
from recommender.speed.covered import engine_years
from recommender.speed.dates import check_engine
from recommender.speed.hardware import hardware_of
from recommender.speed.shape import shape_of


def modelled(setting: Setting) -> Bool:
    """Of each card, whether its speed is modelled."""
    return np.array([is_modelled(gpu) for gpu in setting.gpus], dtype=np.bool_)


def is_modelled(gpu: Gpu) -> bool:
    """Whether the speed of a card is modelled."""
    try:
        hardware_of(gpu)
    except NotModelledError:
        return False
    return True


def candidates_of(
    setting: Setting, columns: ReplicaColumns, capacity: Capacity, prompt_tokens: float, output_tokens: float
) -> Candidates:
    """One replica of each candidate, with as many requests in flight as its memory holds.

    Means of the lengths are what counts; `capacity` is that of one data-parallel rank. Raises NotModelledError where
    the model, the engine or a GPU that a row names is not modelled.
    """
    check_engine(setting.engine)
    shapes = tuple(
        shape_of(setting.model, weights, stored_as(setting.model, weights, checkpoint), kv_dtype)
        for weights, checkpoint in setting.weights
        for kv_dtype in setting.kv_dtypes
    )
    size = len(columns)
    named, gpu = np.unique(columns.gpu, return_inverse=True)
    years = engine_years(setting.engine, setting.engine_version, shapes[0].family)
    sequences = capacity.sequences * columns.dp
    return Candidates(
        shapes=shapes,
        gpus=tuple(hardware_of(setting.gpus[index]) for index in named),
        engines=(setting.engine,),
        shape=columns.weights * len(setting.kv_dtypes) + columns.kv_dtype,
        gpu=gpu,
        engine=np.zeros(size, dtype=np.int64),
        tp=columns.tp,
        pp=columns.pp,
        ep=columns.ep,
        dp=columns.dp,
        replicas=np.ones(size, dtype=np.int64),
        prompt_tokens=np.full(size, prompt_tokens),
        output_tokens=np.full(size, output_tokens),
        concurrency=np.maximum(sequences, 1).astype(np.float64),
        sequences=np.maximum(sequences, 1).astype(np.float64),
        years=np.full(size, years),
        batched_tokens=capacity.max_num_batched_tokens.astype(np.float64),
    )
