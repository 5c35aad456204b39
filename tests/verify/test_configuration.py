from __future__ import annotations

import pytest
import startup_logs as logs
from startup_logs import LOGS, parsed

from recommender.verify.configuration import CONFIG, GIVEN, LINE, Configuration, configuration_of, model_names

OPENING = "INFO 09-08 [core.py:121] Initializing a V1 LLM engine (v0.28.0) with config: "
GIVEN_LINE = "INFO 09-08 [utils.py:233] non-default args: "


def _of(*lines: str) -> Configuration:
    return configuration_of(parsed("\n".join((*lines, "Available KV cache memory: 1.00 GiB", ""))))


def test_real_log_states_its_configuration() -> None:
    found = configuration_of(parsed((LOGS / "llama-3.3-70b-fp8-tp2.log").read_text()))
    assert (found.model, found.tp, found.pp, found.max_model_len) == (
        "RedHatAI/Llama-3.3-70B-Instruct-fp8-dynamic",
        2,
        1,
        8192,
    )
    assert (found.gpu_memory_utilization, found.quantization, found.enforce_eager) == (
        0.95,
        "compressed-tensors",
        False,
    )
    assert (found.origins["tp"], found.origins["gpu_memory_utilization"], found.origins["max_model_len"]) == (
        CONFIG,
        GIVEN,
        LINE,
    )


def test_namespace_gives_what_the_configuration_line_leaves_out() -> None:
    found = configuration_of(parsed(logs.V0_6_4))
    assert (found.max_num_seqs, found.max_num_batched_tokens, found.gpu_memory_utilization) == (256, None, 0.9)


def test_lines_win_over_what_was_asked_for() -> None:
    auto = (
        "INFO [kv_cache_utils.py:1] Auto-fit max_model_len: reduced from 131072 to 40960 to fit in available GPU memory"
    )
    chunked = "INFO [scheduler.py:252] Chunked prefill is enabled with max_num_batched_tokens=4096."
    found = _of(f"{GIVEN_LINE}{{'model': 'a/b', 'max_model_len': -1, 'max_num_seqs': '2K'}}", auto, chunked)
    assert (found.max_model_len, found.max_num_batched_tokens, found.max_num_seqs) == (40960, 4096, 2048)


@pytest.mark.parametrize(
    ("word", "expected"), [("8192", 8192), ("8k", 8000), ("8K", 8192), ("1M", 2**20), ("x", None), ("1.5", None)]
)
def test_human_sizes_are_those_of_vllm(word: str, expected: int | None) -> None:
    assert _of(f"{GIVEN_LINE}{{'max_num_seqs': '{word}'}}").max_num_seqs == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [("auto", "auto"), ("bfloat16", "auto"), ("fp8_e4m3", "fp8"), ("fp8", "fp8"), ("nvfp4", "nvfp4")],
)
def test_kv_dtypes(word: str, expected: str) -> None:
    assert _of(f"{OPENING}model='a/b', kv_cache_dtype={word}, seed=0").kv_dtype == expected


def test_what_else_changes_memory_is_noticed() -> None:
    given = (
        "{'enable_lora': True, 'speculative_config': {'method': 'mtp', 'model': 'draft'}, 'cpu_offload_gb': 4.0, "
        "'enable_expert_parallel': True, 'data_parallel_size': 2, 'dtype': 'float32', 'kv_cache_memory_bytes': 1000000}"
    )
    found = _of(f"{GIVEN_LINE}{given}")
    assert (found.lora, found.cpu_offload, found.expert_parallel, found.dp, found.dtype) == (
        True,
        True,
        True,
        2,
        "float32",
    )
    assert (found.speculative is not None, found.kv_cache_memory_bytes, found.model) == (True, 1_000_000, None)


def test_tensor_parallel_size_by_the_ranks() -> None:
    lines = [f"(Worker_PP0_TP{rank} pid={rank}) INFO Model loading took 1.00 GiB memory" for rank in range(4)]
    found = _of(*lines)
    assert (found.tp, found.origins["tp"]) == (4, "names of the processes")


def test_command_is_read_where_nothing_else_is() -> None:
    found = _of("$ vllm serve Qwen/Qwen3-8B -tp 2 --tensor-parallel-size 2 --max-model-len 4096 --enforce-eager")
    assert (found.model, found.tp, found.max_model_len, found.enforce_eager) == ("Qwen/Qwen3-8B", 2, 4096, True)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("/root/.cache/hub/models--Qwen--Qwen3-8B/snapshots/abc123", "Qwen/Qwen3-8B"),
        ("/data/Qwen/Qwen3-8B/", "Qwen/Qwen3-8B"),
        ("/models/Qwen3-8B", "Qwen3-8B"),
    ],
)
def test_names_of_a_model_on_disk(model: str, expected: str) -> None:
    assert expected in model_names(_of(f"{OPENING}model='{model}', seed=0"))


def test_served_names_are_names_too() -> None:
    found = _of(f"{GIVEN_LINE}{{'model': '/model', 'served_model_name': ['Qwen/Qwen3-8B', 'x']}}")
    assert "Qwen/Qwen3-8B" in model_names(found)


def test_version_asked_for_wins() -> None:
    assert configuration_of(parsed(logs.V1_0_28), "0.33.0").version == "0.33.0"
