"""The largest concurrency that meets a service level, against trying every integer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recommender.catalog.catalog import Catalog, shipped_catalog
from recommender.errors import InputError
from recommender.speed.build import stored_shape
from recommender.speed.candidates import Candidates
from recommender.speed.hardware import hardware_of
from recommender.speed.predict import prepare, shipped_knowledge
from recommender.speed.slo import Target, largest_concurrency, meets, ttft_over_mean

LIMIT = 200


@settings(max_examples=40, deadline=None)
@given(
    tp=st.sampled_from((1, 2, 4, 8)),
    engine=st.sampled_from(("vllm", "sglang")),
    tpot_ms=st.none() | st.floats(1, 80),
    ttft_ms=st.none() | st.floats(20, 5000),
    percentile=st.sampled_from((None, 50, 99)),
    confidence=st.sampled_from((0.5, 0.9)),
)
def test_equals_trying_every_integer(
    rows_of: Callable[..., Candidates],
    tp: int,
    engine: str,
    tpot_ms: float | None,
    ttft_ms: float | None,
    percentile: float | None,
    confidence: float,
) -> None:
    catalog = shipped_catalog()
    shape = stored_shape(catalog, catalog.model("meta-llama/Llama-3.1-70B-Instruct"), "fp8", "auto")
    target = Target(ttft_ms, tpot_ms, percentile, confidence)
    every = np.arange(1, LIMIT + 1)
    gpu = hardware_of(catalog.gpu("H100-SXM"))
    one = prepare(rows_of(shape, gpu, engine, tp=tp), shipped_knowledge())
    all_of_them = prepare(rows_of(shape, gpu, engine, tp=[tp] * LIMIT), shipped_knowledge())
    tried = every[meets(all_of_them, target, every)]
    expected = int(tried.max()) if len(tried) else 0
    assert largest_concurrency(one, target, np.array([LIMIT]))[0] == expected
    assert (tried == every[: len(tried)]).all()  # a level that holds for n holds for fewer


def test_no_request_may_wait_for_a_place(rows_of: Callable[..., Candidates], catalog: Catalog) -> None:
    shape = stored_shape(catalog, catalog.model("meta-llama/Llama-3.1-8B-Instruct"), "bf16", "auto")
    rows = rows_of(shape, hardware_of(catalog.gpu("H100-SXM")), sequences=17, replicas=[1, 3])
    found = largest_concurrency(prepare(rows, shipped_knowledge()), Target(), np.array([1000, 1000]))
    assert found.tolist() == [17, 51]


def test_the_pessimistic_side_holds_fewer(rows_of: Callable[..., Candidates], catalog: Catalog) -> None:
    shape = stored_shape(catalog, catalog.model("meta-llama/Llama-3.1-8B-Instruct"), "bf16", "auto")
    prepared = prepare(rows_of(shape, hardware_of(catalog.gpu("H100-SXM"))), shipped_knowledge())
    limit = np.array([100_000])
    careful, even = (
        largest_concurrency(prepared, Target(tpot_ms=30, confidence=confidence), limit)[0] for confidence in (0.9, 0.5)
    )
    assert 0 < careful < even


def test_percentiles_of_the_time_to_first_token() -> None:
    """As MLPerf server runs have it, the 99th is 2.2 times the mean."""
    assert ttft_over_mean(99) == pytest.approx(2.2, abs=0.05)
    assert ttft_over_mean(50) < 1 < ttft_over_mean(90) < ttft_over_mean(99)
    for wrong in (0, 100, -1):
        with pytest.raises(InputError, match="is not a percentile"):
            ttft_over_mean(wrong)
