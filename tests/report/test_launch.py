from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
from sample_answers import FIT

from recommender.catalog.catalog import load_catalog
from recommender.catalog.models import Checkpoint, Model
from recommender.memory.weights import WeightChoice
from recommender.report.launch import broken, launch_line

CHECKPOINT = Checkpoint("example/Llama-FP8", "meta-llama/Llama-3.1-70B-Instruct", "fp8", None, None, "index", "")
NATIVE = WeightChoice(weights="bf16", checkpoint=None, quantisation=None, how="native", rung=0, source="")
FP8 = replace(NATIVE, weights="fp8", checkpoint=CHECKPOINT, how="checkpoint", rung=1)


@pytest.fixture(scope="module")
def model() -> Model:
    return load_catalog().model("llama-3.1-70b")


def test_the_whole_line(model: Model) -> None:
    assert launch_line(model, FP8, FIT) == (
        "vllm serve example/Llama-FP8 --tensor-parallel-size 2 --max-model-len 8192 --max-num-seqs 50 "
        "--max-num-batched-tokens 8192 --gpu-memory-utilization 0.92 --kv-cache-dtype fp8"
    )


def test_native_weights_serve_the_model_itself_and_auto_kv_needs_no_flag(model: Model) -> None:
    line = launch_line(model, NATIVE, replace(FIT, kv_dtype="auto"))
    assert line.startswith("vllm serve meta-llama/Llama-3.1-70B-Instruct ")
    assert "kv-cache-dtype" not in line


def test_online_quantisation_serves_the_model_with_a_flag(model: Model) -> None:
    line = launch_line(model, replace(FP8, how="online", checkpoint=None), FIT)
    assert line.startswith("vllm serve meta-llama/Llama-3.1-70B-Instruct ")
    assert "--quantization fp8" in line


def test_fp16_is_cast(model: Model) -> None:
    assert "--dtype half" in launch_line(model, replace(NATIVE, weights="fp16", how="cast"), FIT)


def test_a_checkpoint_to_make_is_a_local_path_with_a_comment(model: Model) -> None:
    line = launch_line(model, replace(FP8, weights="int4", how="to_make", checkpoint=None), FIT)
    assert line.startswith("vllm serve ./Llama-3.1-70B-Instruct-int4 ")
    assert line.endswith("  # make this checkpoint first")
    assert broken(line, 100)[0] == "# make this checkpoint first"


def test_flags_of_compatibility_come_once(model: Model) -> None:
    arguments = ("--attention-backend FLASHINFER", "--kv-cache-dtype fp8", "--attention-backend=FLASHINFER")
    line = launch_line(model, FP8, FIT, arguments)
    assert line.count("--attention-backend") == 1
    assert line.count("--kv-cache-dtype") == 1
    assert line.endswith("--attention-backend FLASHINFER")


def test_parallelism_beyond_tensor_parallel_and_eager_mode(model: Model) -> None:
    line = launch_line(model, FP8, replace(FIT, pp=2, dp=4, ep=8), enforce_eager=True)
    for flag in ("--pipeline-parallel-size 2", "--data-parallel-size 4", "--enable-expert-parallel", "--enforce-eager"):
        assert flag in line


def test_names_are_quoted_for_the_shell(model: Model) -> None:
    line = launch_line(replace(model, id="./my models/$(llama)"), NATIVE, FIT)
    assert shlex.split(line)[2] == "./my models/$(llama)"


def test_broken_lines_read_as_the_same_command(model: Model) -> None:
    line = launch_line(model, FP8, FIT, ("""--hf-overrides '{"a": 1}'""",))
    lines = broken(line, 60)
    assert len(lines) > 2
    assert max(map(len, lines)) <= 60
    assert shlex.split("\n".join(lines).replace(" \\\n", " ")) == shlex.split(line)
