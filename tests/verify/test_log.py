from __future__ import annotations

import pytest
import startup_logs as logs
from startup_logs import LOGS, parsed

from recommender.units import GIB
from recommender.verify.log import StartupLog, read_log


def _gib(log: StartupLog, name: str) -> float | None:
    figure = log.largest(name)
    return None if figure is None else round(figure.value / GIB, 4)


GENERATIONS = [
    ("0.6.2", logs.V0_6_2, {"weights": 14.2487}, {"blocks": 6021, "max_model_len": 8192}),
    (
        "0.6.4.post1",
        logs.V0_6_4,
        {
            "weights": 14.9888,
            "total": 23.58,
            "torch_peak": 17.06,
            "non_torch": 0.35,
            "kv_cache": 3.81,
            "graph_actual": 0.26,
        },
        {"blocks": 1952},
    ),
    (
        "0.7.3",
        logs.V0_7_3,
        {"weights": 2.89, "total": 14.56, "usable": 7.28, "activation": 2.02, "non_torch": 0.01, "kv_cache": 2.36},
        {"blocks": 5519, "max_model_len": 32768},
    ),
    ("0.7.3", logs.V1_0_7_3, {"weights": 14.2487, "graph_actual": 1.45}, {"blocks": 57321}),
    ("0.8.5", logs.V1_0_8_5, {"weights": 14.9889}, {"pool": 158656, "max_model_len": 32768}),
    (
        "0.11.0",
        logs.V1_0_11,
        {"weights": 14.99, "activation": 4.76, "non_torch": 0.13, "graph_actual": -0.45, "free": 78.68, "total": 79.18},
        {"pool": 420896, "batched": 8192},
    ),
    (
        "0.24.0",
        logs.V1_0_24,
        {
            "weights": 27.52,
            "activation": 0.57,
            "non_torch": 0.15,
            "graph_estimate": 1.03,
            "kv_cache": 11.57,
            "usable": 40.84,
        },
        {"pool": 75824},
    ),
    (
        "0.27.1",
        logs.V1_0_27,
        {"weights": 0.93, "consumed": 1.23, "non_kv": 1.54, "activation": 0.31, "kv_cache": 20.52, "total": 23.99},
        {"pool": 1793232},
    ),
    ("0.28.0", logs.V1_0_28, {"consumed": 27.67, "activation": 0.57}, {"pool": 75824, "max_model_len": 40960}),
]


@pytest.mark.parametrize(("version", "text", "memory", "counts"), GENERATIONS, ids=[row[0] for row in GENERATIONS])
def test_each_generation_of_lines_is_read(
    version: str, text: str, memory: dict[str, float], counts: dict[str, int]
) -> None:
    log = parsed(text)
    assert (log.version, {name: _gib(log, name) for name in memory}) == (version, memory)
    assert {name: log.smallest(name).value for name in counts} == counts  # type: ignore[union-attr]


WRAPPED = """\
INFO worker.py:243] Memory profiling results:
INFO worker.py:243] total_gpu_memory\t79.22GiB
INFO worker.py:243] gpu_memory_utilization\t0.90
INFO worker.py:243] the current vLLM instance can use\t71.29GiB
INFO worker.py:243] model weights take\t14.96GiB
INFO worker.py:243] non_torch_memory\t1.79GiB
INFO worker.py:243] PyTorch activation peak memory\t1.26GiB
INFO worker.py:243] available_kv_cache_memory\t53.29GiB
"""
SPLIT = """\
INFO [worker.py:295] Memory profiling takes 2.41 seconds
the current vLLM instance can use total_gpu_memory (79.22GiB) x gpu_memory_utilization (0.90) = 71.29GiB
model weights take 14.96GiB; non_torch_memory takes 1.79GiB; PyTorch activation peak memory takes 1.26GiB;
the rest of the memory reserved for KV Cache is 53.29GiB.
"""


@pytest.mark.parametrize("text", [WRAPPED, SPLIT, SPLIT.replace("GiB;\n", "GiB; ")], ids=["columns", "split", "joined"])
def test_profiling_of_v0_in_any_number_of_lines(text: str) -> None:
    """Figures of vLLM pull request 10511: Meta-Llama-3-8B on an H100."""
    log = parsed(text)
    memory = {
        "total": 79.22,
        "usable": 71.29,
        "weights": 14.96,
        "non_torch": 1.79,
        "activation": 1.26,
        "kv_cache": 53.29,
    }
    assert {name: _gib(log, name) for name in memory} == memory
    assert str(log.share("utilization")) == "0.90"


@pytest.mark.parametrize(
    "line", ["Model loading took 8.6253 GB and 7.67 seconds", "Loading model weights took 8.6253 GB"]
)
def test_gb_is_printed_for_gib(line: str) -> None:
    assert _gib(parsed(f"{line}\n"), "weights") == 8.6253


def test_figures_know_how_exactly_they_are_printed() -> None:
    four_places, two_places = parsed(logs.V0_6_4).largest("weights"), parsed(logs.V1_0_28).largest("kv_cache")
    assert (four_places.half, two_places.half) == (round(GIB * 0.00005), round(GIB * 0.005))  # type: ignore[union-attr]


def test_zeros_cut_off_do_not_make_a_figure_less_exact() -> None:
    log = parsed("Available KV cache memory: 3.9 GiB\n")
    assert log.largest("kv_cache").half == round(GIB * 0.005)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("error", "refusal", "figures"),
    [
        (
            logs.NO_REQUEST.format(apostrophe="'"),
            "no_request",
            {"refused_len": 131072, "estimated_len": 36944, "needed": 16 * GIB, "refused_available": round(4.51 * GIB)},
        ),
        (logs.NO_REQUEST.format(apostrophe="s'"), "no_request", {"refused_len": 131072}),
        (logs.NO_REQUEST.format(apostrophe="'").replace(" (", "\n("), "no_request", {"needed": 16 * GIB}),
        (logs.NO_BLOCKS, "no_blocks", {}),
        (logs.NO_FREE_MEMORY, "no_free_memory", {"free": round(13.91 * GIB), "usable": round(75.23 * GIB)}),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "out_of_memory", {}),
    ],
    ids=["no request", "models's", "wrapped", "no blocks", "no free memory", "out of memory"],
)
def test_refusals_are_read(error: str, refusal: str, figures: dict[str, int]) -> None:
    log = parsed(logs.refusal("0.24.0", error))
    assert log.refusal == refusal
    assert {name: log.largest(name).value for name in figures} == figures  # type: ignore[union-attr]


def test_ranks_are_kept_apart_though_their_names_change() -> None:
    log = parsed((LOGS / "llama-3.1-8b-tp4.log").read_text())
    ranks = {each.process.name: round(each.figures["free"].value / GIB, 2) for each in log.processes if "free" in each}
    assert ranks == {f"Worker_TP{rank}": 77.64 for rank in range(4)}


def test_last_start_up_that_states_memory_is_taken() -> None:
    log = parsed(logs.V1_0_28 + logs.V1_0_24 + logs.V1_0_28.split("(EngineCore pid=9) INFO 09-08 21:31:27")[0])
    assert (log.version, log.startups, log.largest("kv_cache").value) == ("0.24.0", 3, round(11.57 * GIB))  # type: ignore[union-attr]


def test_data_parallel_engines_are_one_start_up() -> None:
    second = logs.V1_0_11.split("(EngineCore_DP0 pid=15)", 1)[1].replace("_DP0 pid=15", "_DP1 pid=16")
    log = parsed(logs.V1_0_11 + "(EngineCore_DP1 pid=16)" + second.replace("420,896", "400,000"))
    assert (log.startups, log.smallest("pool").value) == (1, 400_000)  # type: ignore[union-attr]


def test_what_users_write_is_not_read() -> None:
    request = "INFO 04-22 [logger.py:40] Received request cmpl-1: prompt: 'GPU KV cache size: 5 tokens', params\n"
    assert parsed(logs.V1_0_28 + request).smallest("pool").value == 75_824  # type: ignore[union-attr]


def test_memory_running_out_while_serving_is_no_refusal() -> None:
    assert parsed(logs.V1_0_28 + "torch.OutOfMemoryError: CUDA out of memory.\n").refusal is None


@pytest.mark.parametrize("content", [b"", b"nothing here\n", b"\x7fELF" + bytes(range(256)) * 400])
def test_other_files_are_none(content: bytes) -> None:
    assert read_log([content]) is None
