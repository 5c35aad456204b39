"""The search over offers for SGLang and TensorRT-LLM, and lengths that an engine's version reads differently."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from price_list import ask, cells, price_list

from recommender.answer import ladder, recommend
from recommender.check import check_plan
from recommender.errors import InputError, NotModelledError
from recommender.scenario import Scenario, Search, Workload, load_scenario

YARN = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 131072},
}


def scenario(engine: str, version: str, model: str = "llama-3.1-8b", tokens: int = 8192, **changed: object) -> Scenario:
    base = Scenario("test", model, Workload(50, cells((1, tokens - 100, 100))), engine=engine, engine_version=version)
    return replace(base, **({"search": Search(plans=2)} | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(("engine", "version"), [("sglang", "0.5.23"), ("tensorrt-llm", "1.1.0")])
def test_plans_are_feasible_proven_and_name_the_evidence(engine: str, version: str) -> None:
    catalog = price_list()
    asked = scenario(engine, version)
    answer = recommend(asked, catalog)
    assert answer.status == "optimal"
    for plan in answer.plans:
        check_plan(plan, asked, catalog)
        assert any("(docs/accuracy.md)" in warning for warning in plan.warnings)
        for group in plan.replicas:
            assert group.memory.engine == engine
            assert (group.pp, group.dp, group.ep) == (1, 1, 1)


def test_the_launch_line_has_the_planned_limits_under_the_engines_own_names() -> None:
    (group,) = recommend(scenario("sglang", "0.5.23"), price_list("H100-SXM")).plans[0].replicas
    assert group.launch.startswith("python -m sglang.launch_server --model-path ")
    assert f"--max-running-requests {group.max_num_seqs} " in group.launch
    assert "--context-length 8198 " in group.launch  # six are kept back from a prompt
    assert "--mem-fraction-static 0.83" in group.launch
    (group,) = recommend(scenario("tensorrt-llm", "1.1.0", tokens=16_384), price_list("H100-SXM")).plans[0].replicas
    assert group.launch.startswith("trtllm-serve ")
    assert f"--max_batch_size {group.max_num_seqs} " in group.launch
    assert "--kv_cache_free_gpu_memory_fraction 0.9 --extra_llm_api_options options.yml  # " in group.launch
    assert "options.yml holds {enable_chunked_prefill: true" in group.launch


def test_lengths_with_a_distribution_are_sized_statistically_too() -> None:
    lengths = cells((1, 500, 100), (1, 7000, 900))
    answer = recommend(ask(lengths, engine="sglang", engine_version="0.5.23"), price_list("H100-SXM"))
    assert answer.plans


def test_the_ladder_climbs() -> None:
    climbed = ladder(scenario("sglang", "0.5.23", "llama-3.1-70b"), "H100-SXM", price_list("H100-SXM"))
    assert climbed.steps[0].memory.engine == "sglang"
    assert any(step.feasible for step in climbed.steps)


@pytest.mark.parametrize(
    ("lines", "key", "what"),
    [
        ("engine: sglang\nengine_version: '0.33.0'", "engine_version", "nearest version that is modelled is 0.5.23"),
        ("engine: sglang\nsearch: {pp: [1, 2]}", "search.pp", "is not modelled for sglang yet"),
        ("engine: tensorrt-llm\nmemory_model: article", "memory_model", "is not modelled for tensorrt-llm yet"),
    ],
)
def test_what_an_engine_has_no_answer_to_is_said_of_its_key(tmp_path: Path, lines: str, key: str, what: str) -> None:
    path = tmp_path / "question.yaml"
    path.write_text(f"model: llama-3.1-8b\nworkload: {{concurrency: 5, lengths: {{fixed: 8192}}}}\n{lines}\n")
    with pytest.raises(InputError) as caught:
        load_scenario(path)
    (fault,) = caught.value.faults
    assert fault.key == key
    assert what in fault.what


def test_a_model_whose_cache_is_not_modelled_is_refused_by_name() -> None:
    with pytest.raises(NotModelledError, match=r"recurrent layers are not modelled for SGLang 0\.5\.23 yet"):
        recommend(scenario("sglang", "0.5.23", "Qwen/Qwen3-Next-80B-A3B-Instruct"), price_list("H100-SXM"))


def test_each_engine_has_a_version_of_its_own_by_default(tmp_path: Path) -> None:
    path = tmp_path / "question.yaml"
    path.write_text("model: llama-3.1-8b\nworkload: {concurrency: 5, lengths: {fixed: 8192}}\nengine: sglang\n")
    found = load_scenario(path)
    assert found.engine_version == "0.5.23"
    assert ("engine_version", "0.5.23") in found.defaults


@pytest.mark.parametrize(
    ("engine", "version", "longest"),
    [
        # vLLM took YaRN's factor once more before PR 56446 (0.30).
        ("vllm", "0.29.0", 524_288),
        ("vllm", "0.33.0", 131_072),
        # SGLang 0.5.23 get_context_length: a factor beside original_max_position_embeddings counts as one.
        ("sglang", "0.5.23", 131_072),
    ],
)
def test_the_longest_request_is_that_of_the_engines_version(
    tmp_path: Path, engine: str, version: str, longest: int
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(YARN))
    asked = scenario(engine, version, str(tmp_path), tokens=200_000, forbidden_rungs=frozenset({"max_model_len"}))
    answer = recommend(asked, price_list("H100-SXM", "H200-SXM"))
    if longest < 200_000:
        assert not answer.plans
        assert any(f"{longest:,} tokens" in warning for warning in answer.warnings)
    else:
        assert answer.plans[0].replicas[0].max_model_len == longest
        assert not any("longer than the model" in warning for warning in answer.warnings)
