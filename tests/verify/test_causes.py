from __future__ import annotations

from collections.abc import Callable

import pytest
import startup_logs as logs
from startup_logs import LOGS

from recommender.units import GIB
from recommender.verify.compare import Verification
from recommender.verify.log import read_log

Verify = Callable[..., Verification]
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def _log(
    version: str = "0.19.0",
    *,
    model: str = LLAMA,
    weights: float = 14.99,
    activation: float = 1.90,
    non_torch: float = 0.25,
    kv: float | None = None,
    tokens: int | None = None,
    free: float = 78.68,
    total: float = 79.19,
    args: str = "",
    **changes: object,
) -> str:
    """A start-up of Llama-3.1-8B on an H100 as 0.19 logs it, with something changed."""
    usable = 0.95 * total
    left = usable - weights - activation - non_torch if kv is None else kv
    pool = int(left * GIB / 131072) // 16 * 16 if tokens is None else tokens
    opening = logs.config(model, 8192, **changes)
    snapshot = f"worker init memory snapshot: torch_peak=0.0GiB, free_memory={free}GiB, total_memory={total}GiB, x"
    profile = (
        f"Memory profiling takes 1 seconds. Total non KV cache memory: {weights + activation + non_torch:.2f}GiB; "
        f"torch peak memory increase: {activation:.2f}GiB; non-torch forward increase memory: {non_torch:.2f}GiB; "
        f"weights memory: {weights:.2f}GiB."
    )
    given = f"{{'model': '{model}', 'gpu_memory_utilization': 0.95{args}}}"
    return f"""\
INFO [utils.py:233] non-default args: {given}
INFO [core.py:105] Initializing a V1 LLM engine (v{version}) with config: {opening}
DEBUG [gpu_worker.py:284] {snapshot}
INFO [gpu_model_runner.py:4820] Model loading took {weights:.2f} GiB memory and 1 seconds
DEBUG [gpu_worker.py:435] {profile}
INFO [gpu_worker.py:436] Available KV cache memory: {left:.2f} GiB
INFO [kv_cache_utils.py:1319] GPU KV cache size: {pool:,} tokens
INFO [kv_cache_utils.py:1324] Maximum concurrency for 8,192 tokens per request: {pool / 8192:.2f}x
"""


def _first(found: Verification) -> str:
    return found.causes[0].what if found.causes else ""


def test_agreement_needs_no_cause(verified: Verify) -> None:
    assert verified(_log(), gpu="H100-SXM").causes == ()


CASES = [
    ("another process on the GPU", {"free": 76.0, "non_torch": 1.5}),
    ("a different max_num_seqs", {"activation": 0.85}),
    ("weights in float32", {"weights": 29.98, "dtype": "torch.float32"}),
    ("LoRA", {"weights": 16.2, "args": ", 'enable_lora': True"}),
    ("CPU offload", {"weights": 8.0, "args": ", 'cpu_offload_gb': 7"}),
    ("a draft model", {"weights": 17.0, "args": ", 'speculative_config': {'method': 'eagle3'}"}),
    ("fewer bits than the name says", {"weights": 5.3}),
    ("another checkpoint or geometry", {"weights": 19.0}),
    ("kernels and libraries of this host", {"non_torch": 0.9}),
    ("an 8-bit KV cache", {"tokens": 952_000}),
    ("num_gpu_blocks_override", {"tokens": 16_000, "args": ", 'num_gpu_blocks_override': 1000"}),
    ("another layout of the cache", {"tokens": 300_000}),
]


@pytest.mark.parametrize(("cause", "changes"), CASES, ids=[case[0] for case in CASES])
def test_likeliest_cause(verified: Verify, cause: str, changes: dict[str, object]) -> None:
    found = verified(_log(**changes), gpu="H100-SXM")  # type: ignore[arg-type]
    assert _first(found) == cause, found.causes


def test_16_bit_cache_where_fp8_was_asked_for(verified: Verify) -> None:
    text = _log().replace("kv_cache_dtype=auto", "kv_cache_dtype=fp8")
    assert _first(verified(text, gpu="H100-SXM")) == "a 16-bit KV cache"


def test_float32_takes_twice_everything(verified: Verify) -> None:
    """Figures of a published log: Llama-3.1-8B in float32, 0.19.0 on an H100 (llm-d-planner, pull request 205)."""
    text = _log(weights=29.98, activation=2.21, kv=42.8, tokens=175_296, dtype="torch.float32")
    found = verified(text, gpu="H100-SXM")
    assert [cause.what for cause in found.causes] == ["a float32 KV cache", "weights in float32", "float32"]


def test_communication_buffers_where_there_are_several_ranks(verified: Verify) -> None:
    found = verified(_log(weights=7.5, non_torch=3.5, tp=2, tokens=1_000_000), gpu="H100-SXM")
    assert "communication buffers of this host" in {cause.what for cause in found.causes}


def test_multimodal_profiling(verified: Verify) -> None:
    text = (LOGS / "gemma-3-27b-tp1.log").read_text().replace("increase: 3.99GiB", "increase: 5.99GiB")
    assert "multimodal profiling" in {cause.what for cause in verified(text).causes}


def test_settings_that_the_log_states_are_not_doubted(verified: Verify) -> None:
    found = verified(_log(activation=0.85, args=", 'max_num_seqs': 1024"), gpu="H100-SXM")
    assert "a different max_num_seqs" not in {cause.what for cause in found.causes}


def test_default_of_0_8_5_is_found_by_its_memory(verified: Verify) -> None:
    cause = verified(logs.V1_0_8_5, gpu="L40S").causes[0]
    assert (cause.what, "1024" in cause.reasoning) == ("a different max_num_seqs", True)


def test_version_without_a_log_is_doubted(verified: Verify) -> None:
    found = verified(
        _log("0.18.1.dev5+fork", activation=4.98, args=", 'max_num_seqs': 1024, 'max_num_batched_tokens': 8192"),
        gpu="H100-SXM",
    )
    assert _first(found) == "a different engine_version", found.causes


def test_generation_that_the_log_names(verified: Verify) -> None:
    found = verified(logs.V1_0_7_3, gpu="A100-80GB-SXM")
    assert "the V1 engine" in {cause.what for cause in found.causes}


def test_another_card_than_asked_for(verified: Verify) -> None:
    found = verified(logs.V1_0_27, gpu="RTX4090")
    assert _first(found) == "the GPU has other memory"


def test_free_memory_refusal_names_what_is_taken(verified: Verify) -> None:
    cause = verified(logs.refusal("0.19.0", logs.NO_FREE_MEMORY)).causes[0]
    assert (cause.what, "65.28 GiB of 79.19 GiB" in cause.reasoning) == ("another process on the GPU", True)


def test_graphs_switched_off(verified: Verify) -> None:
    line = "CUDA graph memory profiling is disabled (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0). Without it"
    found = verified(logs.V1_0_28 + f"WARNING {line}\n")
    assert "CUDA graphs not charged" in {cause.what for cause in found.causes}


def test_unexplained_gap_says_where_it_is(verified: Verify) -> None:
    found = verified(logs.V1_0_24)
    assert [cause.what for cause in found.causes] == ["nothing that the log names"]


def test_causes_explain_most_first(verified: Verify) -> None:
    found = verified(_log(weights=18.0, non_torch=0.9), gpu="H100-SXM")
    explained = [abs(cause.explains_bytes) for cause in found.causes]
    assert explained == sorted(explained, reverse=True)


def test_log_is_read_alike_twice(verified: Verify) -> None:
    text = _log(weights=18.0, activation=0.4)
    assert verified(text, gpu="H100-SXM").causes == verified(text, gpu="H100-SXM").causes
    assert read_log([text.encode()]) == read_log([text.encode()])
