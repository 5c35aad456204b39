"""Weights on each GPU, byte for byte as the engine's own classes allocate them, and the ways to have fewer bits."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from recommender.catalog.catalog import Catalog, load_catalog
from recommender.catalog.config import model_from_config
from recommender.catalog.models import Checkpoint, Model, Quantisation
from recommender.errors import InputError, NotModelledError
from recommender.memory.exemptions import matches
from recommender.memory.shards import Split, shard, stage_layers
from recommender.memory.weights import (
    checkpoint_bytes,
    load_peak_bytes,
    plain_bytes,
    rank_bytes,
    stage_bytes,
    weight_choices,
)

# vLLM 0.33.0's own model classes, built on a CPU: parameter bytes of a rank by group, buffers where they were recorded.
# Left out: flag variants that do not change weights, rows where the engine itself failed, and Llama 4 beyond one GPU
# (those were built with another vision tower than the model's).
ENGINE = list(csv.DictReader((Path(__file__).parent / "engine_weights.csv").open()))

# Buffers that the engine's classes did not build because their config left Gemma 3's rope_scaling out: the published
# one stretches the table of the full layers to eight times its 131,072 rows. Start-up logs of vLLM 0.19.0 have it:
# 8.58 GiB for 4B and 51.45 GiB for 27B (llm-d-planner PR 205); parameters and short tables are 8.13 and 51.16.
LONG_TABLES = {
    "google/gemma-3-4b-it": 7 * 131_072 * 256 * 2,
    "google/gemma-3-27b-it": 7 * 131_072 * 128 * 2,
}

# (rows exact, models refused by name)
EXPECTED = (417, 0)

STORED = {
    "fp8_tensor_static": Quantisation("fp8", "fp8", 8, None, quantises_router=True, static_inputs=True),
    "fp8_block": Quantisation("fp8", "fp8_block", 8, 128, quantises_router=True),
    "ct_fp8_dynamic": Quantisation("fp8", "compressed-tensors:channel", 8, None),
    "ct_w8a8_int8": Quantisation("int8", "compressed-tensors:channel", 8, None),
    "ct_w4a16_g128": Quantisation("int4", "compressed-tensors:packed", 4, 128),
    "awq_g128": Quantisation("int4", "awq", 4, 128, quantises_router=True),
    "gptq_g128": Quantisation("int4", "gptq", 4, 128, quantises_router=True),
    "gptq8_g128": Quantisation("int8", "gptq", 8, 128, quantises_router=True),
    "nvfp4": Quantisation("nvfp4", "modelopt", 4, 16, quantises_router=True, static_inputs=True),
}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


@pytest.fixture(scope="module")
def models(catalog: Catalog) -> dict[str, Model | NotModelledError]:
    found: dict[str, Model | NotModelledError] = {}
    for name in sorted({row["model"] for row in ENGINE}):
        try:
            found[name] = catalog.model(name)
        except NotModelledError as refusal:
            found[name] = refusal
    return found


def groups_of(row: dict[str, str]) -> dict[str, int]:
    return {name: int(size) for name, size in (pair.split("=") for pair in row["group_bytes"].split())}


def views(model: Model, tp: int) -> int:
    """Mamba-2 layers register their convolution weights a second time as a buffer: the same memory, counted there."""
    if all(group.recurrence != "mamba2" for group in model.attention):
        return 0
    convolutions = [tensor for tensor in model.tensors if tensor.name.endswith("conv1d.weight")]
    return sum(2 * outputs * inputs * count for outputs, inputs, count in (shard(t, Split(tp)) for t in convolutions))


def test_every_modelled_row_is_exact(models: dict[str, Model | NotModelledError]) -> None:
    exact, refused = 0, set()
    for row in ENGINE:
        model = models[row["model"]]
        if isinstance(model, NotModelledError):
            refused.add(row["model"])
            continue
        stored = STORED.get(row["stored"], model.quantisation)
        held = stage_bytes(
            model, stored, tp=int(row["tp"]), pp=int(row["pp"]), ep=int(row["ep"]), stage=int(row["stage"])
        )
        assert dict(held.groups) == groups_of(row), row
        if row["buffer_bytes"]:
            expected = int(row["buffer_bytes"]) + LONG_TABLES.get(row["model"], 0)
            assert held.buffer_bytes + views(model, int(row["tp"])) == expected, row
        exact += 1
    assert (exact, len(refused)) == EXPECTED


@pytest.mark.parametrize(("model", "logged_gib"), [("google/gemma-3-4b-it", 8.58), ("google/gemma-3-27b-it", 51.45)])
def test_gemma_3_loads_as_logged(model: str, logged_gib: float, catalog: Catalog) -> None:
    """Start-up logs of vLLM 0.19.0 on H100 (llm-d-planner PR 205)."""
    assert rank_bytes(catalog.model(model), None).total_bytes / 2**30 == pytest.approx(logged_gib, abs=0.08)


def test_70b_in_16_bit() -> None:
    """github.com/huggingface/accelerate/issues/3379: 141.1 GB, not half of it."""
    model = load_catalog().model("meta-llama/Llama-3.1-70B-Instruct")
    assert stage_bytes(model, None).parameter_bytes == plain_bytes(model, "bf16") == 141_107_412_992
    assert plain_bytes(model, "fp8") == 70_553_706_496
    assert plain_bytes(model, "int4") == 35_276_853_248


def test_fp8_8b_keeps_embeddings_in_16_bit(catalog: Catalog) -> None:
    """github.com/huggingface/accelerate/issues/3297: 9.08 GB, which an engine logs as 8.50 GiB with its buffers."""
    model = catalog.model("meta-llama/Llama-3.1-8B-Instruct")
    held = stage_bytes(model, Quantisation("fp8", "compressed-tensors:channel", 8, None))
    assert dict(held.groups)["embedding"] == 128_256 * 4096 * 2
    assert round(held.parameter_bytes / 1e9, 2) == 9.09
    assert round(held.total_bytes / 2**30, 2) == 8.49


@pytest.mark.parametrize(
    ("name", "tp", "logged_gib"),
    [  # "Model loading took" of published start-up logs
        ("meta-llama/Llama-3.1-8B-Instruct", 1, 14.9888),
        ("Qwen/Qwen3-0.6B", 1, 1.1200),
        ("Qwen/Qwen3-32B", 1, 61.03),
    ],
)
def test_what_an_engine_logs_as_loaded(name: str, tp: int, logged_gib: float, catalog: Catalog) -> None:
    held = rank_bytes(catalog.model(name), None, tp=tp)
    assert held.total_bytes / 2**30 == pytest.approx(logged_gib, abs=0.005)


@pytest.mark.parametrize(
    ("layers", "pp", "sizes"),
    [(80, 4, [20, 20, 20, 20]), (61, 4, [15, 15, 16, 15]), (62, 4, [15, 16, 16, 15]), (3, 2, [2, 1]), (5, 1, [5])],
)
def test_pipeline_stages(layers: int, pp: int, sizes: list[int]) -> None:
    stages = stage_layers(layers, pp)
    assert [len(stage) for stage in stages] == sizes
    assert [index for stage in stages for index in stage] == list(range(layers))


def test_more_stages_than_layers_is_refused() -> None:
    with pytest.raises(InputError, match="2 layers cannot be split over 3"):
        stage_layers(2, 3)


def test_the_fullest_stage_rules(catalog: Catalog) -> None:
    """The first stage holds the embedding, the last the head: both fuller than the middle ones."""
    model = catalog.model("meta-llama/Llama-3.1-70B-Instruct")
    stages = [stage_bytes(model, None, pp=4, stage=stage).parameter_bytes for stage in range(4)]
    assert rank_bytes(model, None, pp=4).parameter_bytes == max(stages)
    assert stages[1] == stages[2] < stages[0] < stages[3]
    assert sum(stages) == plain_bytes(model, "bf16")


def test_a_size_that_does_not_divide_is_refused(catalog: Catalog) -> None:
    with pytest.raises(InputError, match="not divisible by tensor parallel size 3"):
        stage_bytes(catalog.model("meta-llama/Llama-3.1-8B-Instruct"), None, tp=3)
    with pytest.raises(InputError, match="10 KV heads cannot be split over 4"):
        stage_bytes(catalog.model("microsoft/phi-4"), None, tp=4)


def test_kv_heads_are_replicated_beyond_their_number(catalog: Catalog) -> None:
    model = catalog.model("Qwen/Qwen2.5-3B-Instruct")  # 2 KV heads
    two, four = (dict(stage_bytes(model, None, tp=tp).groups)["attention"] for tp in (2, 4))
    assert four > two // 2


def test_layers_a_checkpoint_exempts_stay_in_16_bit(catalog: Catalog) -> None:
    """405B FP8: MLP matrices of all but the first and last layer (github.com/vllm-project/vllm/issues/6746)."""
    model = catalog.model("meta-llama/Llama-3.1-405B-Instruct")
    ignored = ("attention", "model.layers.0.mlp", "model.layers.125.mlp")
    stored = Quantisation("fp8", "compressed-tensors:channel", 8, None, ignored=ignored)
    held = stage_bytes(model, stored, tp=8)
    assert held.parameter_bytes / 2**30 == pytest.approx(56.71, abs=0.03)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("re:.*mlp.gate$", "model.layers.3.mlp.gate", True),
        ("re:.*mlp.gate$", "model.layers.3.mlp.gate_up_proj", False),
        ("model.layers.0.*", "model.layers.0.mlp.down_proj", True),
        ("model.layers.0.*", "model.layers.10.mlp.down_proj", False),
        ("*.o_proj", "model.layers.10.self_attn.o_proj", True),
        ("o_proj", "model.layers.10.self_attn.o_proj", True),
        ("gate", "model.layers.10.mlp.gate_proj", False),
        ("model.layers.1", "model.layers.10.mlp.gate_proj", False),
    ],
)
def test_patterns_of_exempt_modules(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected


@pytest.mark.parametrize("pattern", ["re:(a+)+$", "re:([", "x" * 1000])
def test_hostile_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(NotModelledError):
        matches(pattern, "model.layers.0.mlp" + "a" * 40)


def checkpoint(model: Model, weights: str, **changes: object) -> Checkpoint:
    stored = {"fp8": STORED["ct_fp8_dynamic"], "int4": STORED["ct_w4a16_g128"], "bf16": None}[weights]
    base = Checkpoint(f"org/{weights}", model.id, weights, stored, None, "unknown", "a test")
    return replace(base, **changes)  # type: ignore[arg-type]


def test_choices_for_a_16_bit_model(catalog: Catalog) -> None:
    model = catalog.model("meta-llama/Llama-3.2-3B-Instruct")
    choices = weight_choices(model, [], "0.33.0")
    assert [(choice.weights, choice.rung, choice.how) for choice in choices] == [
        ("bf16", 0, "native"),
        ("fp8", 1, "online"),
        ("int4", 2, "to_make"),
        ("nvfp4", 2, "to_make"),
    ]
    assert choices[1].launch_arguments == ("--quantization", "fp8")


def test_a_published_checkpoint_replaces_what_would_be_made(catalog: Catalog) -> None:
    model = catalog.model("meta-llama/Llama-3.2-3B-Instruct")
    published = [checkpoint(model, "fp8"), checkpoint(model, "int4"), checkpoint(model, "bf16", id=model.id)]
    choices = weight_choices(model, published, "0.33.0")
    assert [(choice.weights, choice.how) for choice in choices] == [
        ("bf16", "native"),
        ("fp8", "checkpoint"),
        ("int4", "checkpoint"),
        ("nvfp4", "to_make"),
    ]
    assert choices[0].checkpoint is not None


def test_one_checkpoint_for_each_way_of_storing(catalog: Catalog) -> None:
    """The most trusted size, then the name: a search need not try equals."""
    model = catalog.model("meta-llama/Llama-3.2-3B-Instruct")
    published = [
        checkpoint(model, "int4", id="b/second"),
        checkpoint(model, "int4", id="a/first"),
        checkpoint(model, "int4", id="c/sized", bytes_total=2_200_000_000, size_kind="repository"),
        checkpoint(model, "int4", id="d/awq", quantisation=STORED["awq_g128"]),
    ]
    found = [choice.checkpoint for choice in weight_choices(model, published, "0.33.0")]
    assert [found_one.id for found_one in found if found_one] == ["c/sized", "d/awq"]


def test_4_bit_native_models_have_nothing_below(catalog: Catalog) -> None:
    model = replace(catalog.model("Qwen/Qwen3-8B"), native="int4", quantisation=STORED["ct_w4a16_g128"])
    assert [choice.how for choice in weight_choices(model, [], "0.33.0")] == ["native"]


def test_a_published_size_is_preferred(catalog: Catalog) -> None:
    model = catalog.model("Qwen/Qwen3-8B")
    computed = stage_bytes(model, STORED["ct_w4a16_g128"]).parameter_bytes
    larger = checkpoint(model, "int4", bytes_total=computed + 10**9, size_kind="index")
    held = checkpoint_bytes(model, "int4", larger)
    assert held.parameter_bytes == pytest.approx(computed + 10**9, abs=10)
    assert "published size" in held.source
    halves = [checkpoint_bytes(model, "int4", larger, tp=2).parameter_bytes * 2, held.parameter_bytes]
    assert halves[0] == pytest.approx(halves[1], rel=0.001)
    assert dict(held.groups)["embedding"] == 151_936 * 4096 * 2


@pytest.mark.parametrize("bytes_total", [100, 50 * 10**9])
def test_a_size_that_cannot_be_these_weights_is_named_and_not_used(bytes_total: int, catalog: Catalog) -> None:
    model = catalog.model("Qwen/Qwen3-8B")
    odd = checkpoint(model, "int4", bytes_total=bytes_total, size_kind="repository")
    held = checkpoint_bytes(model, "int4", odd)
    assert held.parameter_bytes == stage_bytes(model, STORED["ct_w4a16_g128"]).parameter_bytes
    assert "something else" in held.source


def test_an_untied_copy_of_the_head_in_the_file_is_not_loaded(catalog: Catalog) -> None:
    """Qwen3-0.6B publishes 1,503,264,768 bytes with a copy of the tied head; the engine loads 1,192,099,840."""
    model = catalog.model("Qwen/Qwen3-0.6B")
    published = checkpoint(model, "bf16", bytes_total=1_503_264_768, size_kind="index")
    assert checkpoint_bytes(model, "bf16", published).parameter_bytes == 1_192_099_840


def test_quantising_at_load_has_a_peak(catalog: Catalog) -> None:
    model = catalog.model("meta-llama/Llama-3.1-8B-Instruct")
    plain, shrunk = rank_bytes(model, None).total_bytes, checkpoint_bytes(model, "fp8", None).total_bytes

    def peak(version: str, weights: str = "fp8") -> int:
        return load_peak_bytes(model, weights, None, engine="vllm", engine_version=version)

    assert shrunk < peak("0.33.0") == peak("0.16.0") < plain
    assert peak("0.10.2") == peak("0.12.0") == plain
    assert peak("0.13.0") == peak("0.15.0") == 2 * plain - shrunk
    assert peak("0.10.2", "bf16") == 0


def test_an_unknown_format_is_refused_by_name(catalog: Catalog) -> None:
    model = catalog.model("Qwen/Qwen3-8B")
    with pytest.raises(NotModelledError, match="gguf"):
        stage_bytes(model, Quantisation("int4", "gguf", 4, None))


def test_a_checkpoint_config_and_its_bytes_agree() -> None:
    """A GPTQ file with groups over all inputs: one scale an output."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 256,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 512,
        "vocab_size": 64,
        "max_position_embeddings": 64,
        "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": -1},
    }
    model = model_from_config(config, id="test/model")
    mlp = dict(stage_bytes(model, model.quantisation).groups)["mlp"]
    weights, outputs = 3 * 256 * 512, 512 + 512 + 256
    assert mlp == weights // 2 + outputs * 2 + outputs // 2


def test_a_cut_list_that_begins_with_whole_layers_is_continued(catalog: Catalog) -> None:
    """GLM-5.2 NVFP4 over four GPUs loaded 106.69 GiB: its experts alone are in four bits."""
    model = catalog.model("nvidia/GLM-5.2-NVFP4")
    loaded = stage_bytes(model, model.quantisation, tp=4).total_bytes
    assert loaded / 2**30 == pytest.approx(106.69, rel=0.01)
