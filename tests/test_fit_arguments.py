"""Arguments of `fit` that exclude one another or that nobody can mean, and what is said where the answer is no plan."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from recommender import fit
from recommender.cli import app
from recommender.errors import InputError

ARTICLE: dict[str, Any] = {"memory_model": "article"}


def _fault(**arguments: Any) -> str:
    with pytest.raises(InputError) as caught:
        fit("llama-3.1-8b", "H100-SXM", **arguments)
    (fault,) = caught.value.faults
    return str(fault)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"max_num_seqs": 4, "concurrency": 5}, "concurrency: stands beside max_num_seqs (expected one of the two)"),
        ({"max_num_seqs": 4, "concurrency": 4}, "concurrency: stands beside max_num_seqs (expected one of the two)"),
        ({"tp": 4, "ep": 4}, "ep: 4: meta-llama/Llama-3.1-8B-Instruct has no experts to spread (expected 1)"),
        (
            {"kv_cache_memory_bytes": 9 * 10**11},
            "kv_cache_memory_bytes: 900,000,000,000 bytes are more than a H100-SXM has"
            " (expected at most 85,029,615,043)",
        ),
        (
            {"max_num_batched_tokens": 10**6 + 1},
            "max_num_batched_tokens: 1,000,001 tokens are no engine step (expected at most 1,000,000)",
        ),
        (
            {"kv_cache_memory_bytes": 10**9, **ARTICLE},
            "kv_cache_memory_bytes: the article's memory model takes a share of the memory instead"
            " (expected gpu_memory_utilization)",
        ),
    ],
)
def test_arguments_that_nobody_can_mean(arguments: dict[str, Any], said: str) -> None:
    assert _fault(**arguments) == said


def test_the_ceilings_themselves_are_taken() -> None:
    most = fit("llama-3.1-8b", "H100-SXM", max_num_batched_tokens=10**6, kv_cache_memory_bytes=85_029_615_043)
    assert most.max_num_batched_tokens == 10**6
    assert "CUDA out of memory" in (most.refusal or "")


@pytest.mark.parametrize(("gpus", "warned"), [({"tp": 8}, False), ({"tp": 8, "pp": 2}, True), ({"tp": 16}, True)])
def test_a_replica_beyond_one_machine_is_warned_about(gpus: dict[str, Any], warned: bool) -> None:
    warnings = fit("llama-3.1-70b", "H100-SXM", max_model_len=8192, **gpus).warnings
    assert ("16 GPUs span instances of 8 H100-SXM: not planned by the search" in warnings) is warned


def test_both_memory_models_refuse_a_length_beyond_the_models_own() -> None:
    engine = fit("llama-3.1-8b", "H100-SXM", max_model_len=131_073)
    article = fit("llama-3.1-8b", "H100-SXM", max_model_len=131_073, **ARTICLE)
    assert engine.refusal == article.refusal
    assert "(131073) is greater than the derived max_model_len (131072)" in (article.refusal or "")
    assert not article.starts
    assert article.estimated_max_model_len is None
    assert fit("llama-3.1-8b", "H100-SXM", max_model_len=131_072, **ARTICLE).starts


def _shown(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["fit", "--model", "llama-3.1-8b", "--gpu", "H100-SXM", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_a_shape_that_cannot_be_split_shows_no_table_of_zeros() -> None:
    code, shown, _ = _shown("--tp", "3")
    assert code == 1
    assert "It does not start: Total number of attention heads (32) must be divisible" in shown
    assert "per GPU" not in shown
    assert "0.00" not in shown
    assert "per GPU" in _shown("--tp", "2")[1]


def test_faults_name_the_options_as_they_are_typed() -> None:
    code, _, said = _shown("--max-num-seqs", "4", "--concurrency", "5")
    assert (code, said) == (2, "error: --concurrency: stands beside --max-num-seqs (expected one of the two)\n")
    _, _, said = _shown("--kv-cache-memory-bytes", "10", "--memory-model", "article")
    assert said.endswith("(expected --gpu-memory-utilization)\n")


def test_names_that_are_not_known_are_said_at_once() -> None:
    with pytest.raises(InputError) as caught:
        fit("no-such-model", "no-such-gpu")
    assert [fault.key for fault in caught.value.faults] == ["model", "gpu"]
