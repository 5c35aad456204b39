"""The arrays hold what one replica holds: random candidates, confirmed by the scalar fit at S and refused at S + 1."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recommender.catalog.catalog import Catalog, load_catalog
from recommender.errors import InputError
from recommender.memory.capacity import (
    UNBOUNDED,
    Capacity,
    Reason,
    ReplicaColumns,
    Setting,
    WorstCase,
    memory_model,
)
from recommender.memory.engine import engine_constants
from recommender.memory.fit import Fit, Replica, fit_replica
from recommender.memory.weights import weight_choices

MODELS = (
    "llama-3.1-8b",
    "llama-3.1-70b",
    "Qwen/Qwen3-30B-A3B",
    "google/gemma-3-27b-it",
    "mistralai/Mistral-7B-v0.1",
    "deepseek-ai/DeepSeek-V2-Lite",
    "Qwen/Qwen3.5-27B",
    "openai/gpt-oss-20b",
)
VERSIONS = ("0.33.0", "0.26.0", "0.22.0", "0.19.0", "0.10.2", "0.8.5", "0.7.3")
COLUMNS = tuple(ReplicaColumns.__dataclass_fields__)
PLAIN = {"max_num_batched_tokens": 0, "extra_reserve_bytes": 0, "pp": 1, "ep": 1, "dp": 1}


@cache
def shipped() -> Catalog:
    return load_catalog()


def columns(rows: list[dict[str, int]]) -> ReplicaColumns:
    full = [PLAIN | row for row in rows]
    return ReplicaColumns(*(np.array([row[name] for row in full], dtype=np.int64) for name in COLUMNS))


def setting_of(catalog: Catalog, model: str, version: str = "0.33.0", **more: Any) -> Setting:
    found = catalog.model(model)
    choices = weight_choices(found, catalog.checkpoints_of(found.id), version)
    return Setting(
        model=found,
        gpus=tuple(gpu for gpu in catalog.gpus if gpu.engine == "vllm"),
        weights=tuple((choice.weights, choice.checkpoint) for choice in choices),
        kv_dtypes=("auto", "fp8"),
        engine_version=version,
        **more,
    )


def replica_of(setting: Setting, row: dict[str, int], seqs: int) -> Replica:
    row = PLAIN | row
    weights, checkpoint = setting.weights[row["weights"]]
    return Replica(
        model=setting.model,
        gpu=setting.gpus[row["gpu"]],
        weights=weights,
        checkpoint=checkpoint,
        kv_dtype=setting.kv_dtypes[row["kv_dtype"]],
        tp=row["tp"],
        pp=row["pp"],
        max_model_len=row["max_model_len"],
        max_num_seqs=seqs,
        max_num_batched_tokens=row["max_num_batched_tokens"] or None,
        gpu_memory_utilization=setting.gpu_memory_utilization,
        enforce_eager=setting.enforce_eager,
        engine_version=setting.engine_version,
    )


def holds(fit: Fit, seqs: int, null: int) -> bool:
    if fit.max_num_seqs != seqs:
        return False
    if fit.memory_model == "article":
        return fit.starts and seqs * fit.max_model_len * fit.total.kv_bytes_per_token <= fit.total.kv_cache_bytes
    return fit.starts and seqs * (fit.request_blocks or 0) + null <= (fit.blocks or 0)


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, str, dict[str, Any], list[dict[str, int]], int, str]:
    rows = draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "gpu": st.integers(0, 39),
                    "tp": st.sampled_from([1, 1, 2, 4, 8, 3]),
                    "weights": st.integers(0, 2),
                    "kv_dtype": st.integers(0, 1),
                    "max_model_len": st.one_of(st.integers(1, 40_000), st.sampled_from([8192, 131_072, 131_073])),
                    "max_num_batched_tokens": st.sampled_from([0, 0, 2048, 16_384, 37]),
                    "pp": st.sampled_from([1, 1, 1, 2]),
                }
            ),
            min_size=1,
            max_size=6,
        )
    )
    more = {
        "gpu_memory_utilization": draw(st.sampled_from([None, 0.9, 0.5, 0.999])),
        "enforce_eager": draw(st.booleans()),
    }
    limit = draw(st.sampled_from([1, 50, UNBOUNDED]))
    model = draw(st.sampled_from(MODELS))
    return model, draw(st.sampled_from(VERSIONS)), more, rows, limit, draw(st.sampled_from(["vllm", "vllm", "article"]))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(questions())
def test_arrays_and_scalars_agree(question: tuple[str, str, dict[str, Any], list[dict[str, int]], int, str]) -> None:
    model, version, more, rows, limit, name = question
    setting = setting_of(shipped(), model, version, **more)
    rows = [row | {"weights": row["weights"] % len(setting.weights)} for row in rows]
    found = memory_model(name).capacity(setting, columns(rows), limit, WorstCase())
    for index, row in enumerate(rows):
        confirm(setting, row, found, index, limit, name)


def confirm(setting: Setting, row: dict[str, int], found: Capacity, index: int, limit: int, name: str) -> None:
    seqs, reason = int(found.sequences[index]), Reason(int(found.reason[index]))
    assert (reason == Reason.FITS) == (seqs > 0)
    try:
        fit = fit_replica(replica_of(setting, row, max(seqs, 1)), name)
    except InputError:
        assert reason in (Reason.NOT_MODELLED, Reason.MEMORY_UNKNOWN)
        return
    if name == "vllm" and (fit.launch_arguments or fit.weights_bytes == 0 or reason == Reason.UTILIZATION):
        assert reason != Reason.UTILIZATION or not fit.starts
        return  # what compatibility refuses or reserves is added outside
    if reason == Reason.LOADING:
        assert not fit.starts
        return  # it never comes to a cache
    null = engine_constants("vllm", setting.engine_version).null_blocks(setting.gpus[row["gpu"]])
    assert int(found.kv_cache_bytes[index]) == fit.kv_cache_bytes
    assert int(found.max_num_batched_tokens[index]) == fit.max_num_batched_tokens
    refused_elsewhere = not fit.starts and seqs > 0
    if not refused_elsewhere:
        assert seqs == 0 or holds(fit, seqs, null)
        if seqs < limit:
            assert not holds(fit_replica(replica_of(setting, row, seqs + 1), name), seqs + 1, null)
    else:
        assert "seq len" not in (fit.refusal or "")
        assert "No available memory" not in (fit.refusal or "")
        assert "while loading" not in (fit.refusal or "")


def test_reasons(catalog: Catalog) -> None:
    setting = setting_of(catalog, "llama-3.1-70b")
    names = [gpu.name for gpu in setting.gpus]
    row = {"gpu": names.index("H100-SXM"), "tp": 2, "weights": 0, "kv_dtype": 0, "max_model_len": 8192}
    rows = [
        row | {"tp": 4},
        row | {"tp": 1},
        row | {"max_model_len": 131_072},
        row | {"tp": 3},
        row | {"gpu": names.index("VR200")},
        row | {"max_model_len": 131_073, "tp": 8},
    ]
    found = memory_model("vllm").capacity(setting, columns(rows), 50, WorstCase())
    assert [Reason(int(reason)) for reason in found.reason] == [
        Reason.FITS,
        Reason.WEIGHTS,
        Reason.MAX_MODEL_LEN,
        Reason.NOT_MODELLED,
        Reason.MEMORY_UNKNOWN,
        Reason.TOO_LONG,
    ]
    full = memory_model("vllm").capacity(
        replace(setting, gpu_memory_utilization=1.0), columns(rows[:1]), 50, WorstCase()
    )
    assert Reason(int(full.reason[0])) == Reason.UTILIZATION


def test_the_known_answer_of_fifty_requests(catalog: Catalog) -> None:
    """70B FP8, 8,192 tokens: two H100 hold about 57 requests with an FP8 cache and about 28 without."""
    setting = setting_of(catalog, "llama-3.1-70b")
    fp8 = next(i for i, (weights, _) in enumerate(setting.weights) if weights == "fp8")
    gpu = next(i for i, each in enumerate(setting.gpus) if each.name == "H100-SXM")
    row = {"gpu": gpu, "tp": 2, "weights": fp8, "max_model_len": 8192}
    asked = columns([row | {"kv_dtype": 0}, row | {"kv_dtype": 1}])
    found = memory_model("vllm").capacity(setting, asked, UNBOUNDED, WorstCase())
    assert 26 <= found.sequences[0] <= 30
    assert 53 <= found.sequences[1] <= 60


def test_extra_reserve_and_the_limit_lower_what_is_held(catalog: Catalog) -> None:
    setting = setting_of(catalog, "llama-3.1-8b")
    gpu = next(i for i, each in enumerate(setting.gpus) if each.name == "H100-SXM")
    row = {"gpu": gpu, "tp": 1, "weights": 0, "kv_dtype": 0, "max_model_len": 8192}
    asked = columns([row, row | {"extra_reserve_bytes": 2**30}])
    free = memory_model("vllm").capacity(setting, asked, UNBOUNDED, WorstCase())
    assert free.kv_cache_bytes[0] - free.kv_cache_bytes[1] >= 2**30 - 2**26
    assert free.sequences[0] > free.sequences[1]
    assert memory_model("vllm").capacity(setting, asked, 7, WorstCase()).sequences.tolist() == [7, 7]


def test_the_safe_side_is_the_lower_end_of_the_interval(catalog: Catalog) -> None:
    setting = setting_of(catalog, "llama-3.1-8b")
    row = {"gpu": 0, "tp": 1, "kv_dtype": 0, "max_model_len": 8192}
    names = ("H100-SXM", "L40S", "B200")
    numbers = [next(i for i, gpu in enumerate(setting.gpus) if gpu.name == name) for name in names]
    rows = [row | {"gpu": gpu, "weights": w} for gpu in numbers for w in range(len(setting.weights))]
    safe = replace(setting, safe_side=True)
    expected = memory_model("vllm").capacity(setting, columns(rows), 20, WorstCase())
    careful = memory_model("vllm").capacity(safe, columns(rows), 20, WorstCase())
    assert (careful.sequences <= expected.sequences).all()
    for index, asked in enumerate(rows):
        seqs = int(careful.sequences[index])
        low, _ = fit_replica(replica_of(setting, asked, max(1, seqs))).kv_cache_bytes_interval or (0, 0)
        assert int(careful.kv_cache_bytes[index]) == low


def test_no_candidates_and_an_unknown_memory_model(catalog: Catalog) -> None:
    setting = setting_of(catalog, "llama-3.1-8b")
    assert len(memory_model("vllm").capacity(setting, columns([]), 50, WorstCase()).sequences) == 0
    with pytest.raises(InputError, match=r"vllm \| article"):
        memory_model("exact")
