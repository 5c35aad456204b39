"""Searches that leave the ladder nothing to walk on: what is wrong is said, never a reason that is empty."""

from __future__ import annotations

import pytest
from price_list import ask, cells, price_list

from recommender.answer import ladder
from recommender.errors import InputError
from recommender.scenario import Search


def _fault(model: str, **search: tuple[int, ...]) -> str:
    asked = ask(cells((1, 1000, 200)), 5, model, search=Search(**search))  # type: ignore[arg-type]
    with pytest.raises(InputError) as refused:
        ladder(asked, "L40S", price_list("L40S"))
    return str(refused.value)


def test_pipeline_stages_alone() -> None:
    assert _fault("llama-3.1-8b", pp=(2,)) == (
        "search.pp: the ladder walks on tensor parallelism alone, which this leaves out (expected 1 among its sizes)"
    )


def test_more_gpus_than_an_instance_has() -> None:
    assert _fault("llama-3.1-8b", tp=(64,)) == (
        "search.tp: no instance of L40S in the search has the GPUs for it: 8 at most (expected sizes up to 8)"
    )


def test_sizes_that_do_not_divide_and_models_that_are_too_large() -> None:
    assert _fault("llama-3.1-8b", tp=(3,)).endswith(
        "does not start on L40S at any weights: Total number of attention heads (32) must be divisible by tensor"
        " parallel size (3)."
    )
    assert _fault("deepseek-ai/deepseek-v3").rpartition("at any weights")[2].strip(": ")
