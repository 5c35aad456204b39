"""Candidate replicas of the search, against the same configurations asked one by one."""

from __future__ import annotations

import numpy as np
import pytest

from recommender.catalog.catalog import Catalog
from recommender.memory.capacity import UNBOUNDED, Capacity, ReplicaColumns, Setting, WorstCase, memory_model
from recommender.speed.answer import answer_of, prepared_for
from recommender.speed.predict import prepare, shipped_knowledge
from recommender.speed.replicas import candidates_of
from recommender.speed.setup import Load, Setup, look_up

MODEL = "meta-llama/Llama-3.1-70B-Instruct"
PROMPT, OUTPUT = 1024, 256


@pytest.fixture(scope="module")
def setting(catalog: Catalog) -> Setting:
    gpus = tuple(catalog.gpu(name) for name in ("H100-SXM", "B200"))
    return Setting(catalog.model(MODEL), gpus, (("bf16", None), ("fp8", None)), ("auto", "fp8"))


@pytest.fixture(scope="module")
def columns() -> ReplicaColumns:
    def column(*values: int) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    return ReplicaColumns(
        gpu=column(0, 0, 1, 1),
        tp=column(4, 8, 2, 4),
        weights=column(0, 1, 1, 0),
        kv_dtype=column(0, 1, 0, 1),
        max_model_len=column(4096, 4096, 4096, 4096),
        max_num_batched_tokens=column(0, 0, 0, 0),
        extra_reserve_bytes=column(0, 0, 0, 0),
        pp=column(1, 1, 1, 1),
        ep=column(1, 1, 1, 1),
        dp=column(1, 1, 1, 1),
    )


@pytest.fixture(scope="module")
def capacity(setting: Setting, columns: ReplicaColumns) -> Capacity:
    return memory_model("vllm").capacity(setting, columns, UNBOUNDED, WorstCase())


def test_columns_say_what_single_answers_say(
    catalog: Catalog, setting: Setting, columns: ReplicaColumns, capacity: Capacity
) -> None:
    rows = candidates_of(setting, columns, capacity, PROMPT, OUTPUT)
    found = prepare(rows, shipped_knowledge()).steady(np.full(len(rows), 16.0))
    for at in range(len(rows)):
        weights, kv_dtype = setting.weights[columns.weights[at]][0], setting.kv_dtypes[columns.kv_dtype[at]]
        gpu = setting.gpus[columns.gpu[at]].name
        setup = Setup(MODEL, gpu, tp=int(columns.tp[at]), weights=weights, kv_dtype=kv_dtype, engine_version="0.33.0")
        names, load = look_up(setup, catalog), Load(PROMPT, OUTPUT, 16)
        single = answer_of(*_one(setup, names, load))
        # FP8 weights come from a published checkpoint in one, are quantised at load in the other: a few bytes apart.
        assert found.tpot_s[at] * 1e3 == pytest.approx(single.tpot_ms, rel=2e-3)
        assert found.output_tokens_per_s[at] == pytest.approx(single.output_tokens_per_s, rel=2e-3)


def _one(setup: Setup, names: object, load: Load) -> tuple:  # type: ignore[type-arg]
    prepared, warnings = prepared_for(setup, names, load)  # type: ignore[arg-type]
    return prepared, setup, names, load, warnings


def test_what_memory_holds_runs_at_once(setting: Setting, columns: ReplicaColumns, capacity: Capacity) -> None:
    rows = candidates_of(setting, columns, capacity, PROMPT, OUTPUT)
    assert (rows.sequences == capacity.sequences).all()
    prepared = prepare(rows, shipped_knowledge())
    assert (prepared.steady(rows.sequences).queue_s == 0).all()
    assert (prepared.steady(rows.sequences + 1).queue_s > 0).all()


def test_step_times_are_those_of_the_step(setting: Setting, columns: ReplicaColumns, capacity: Capacity) -> None:
    """A step without prompts, about so many sequences, is the base and so much for each of them."""
    rows = candidates_of(setting, columns, capacity, PROMPT, OUTPUT)
    prepared = prepare(rows, shipped_knowledge())
    sequences = np.full(len(rows), 16.0)
    base, each, token, with_prompt = prepared.step_times(sequences)
    np.testing.assert_allclose(base + 16 * each, prepared.costs.step_s(sequences) * prepared.factors.tpot)
    np.testing.assert_allclose(with_prompt, prepared.costs.chunk_s(sequences) * prepared.factors.tpot)
    np.testing.assert_allclose(token * PROMPT, prepared.costs.prompt_s * prepared.factors.tpot)
