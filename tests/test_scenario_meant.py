"""What people write who know other tools: answered with the key that asks for it."""

from pathlib import Path

import pytest

from recommender.errors import InputError
from recommender.scenario_file.load import load

SMALL = "model: llama-3.1-8b\nworkload: {concurrency: 4, lengths: {fixed: 8K}}\n"
"""Two lines that hold; what is wrong follows."""


def _faults(tmp_path: Path, text: str) -> str:
    path = tmp_path / "scenario.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as raised:
        load(path)
    return str(raised.value)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("budget: 5000", "limits.usd_per_month"),
        ("gpu: H100-SXM", "search.gpus"),
        ("kv_dtype: fp8", "search.kv_dtypes"),
        ("quantization: fp8", "search.weights"),
        ("provider: aws", "search.providers"),
        ("search: {region: us-east-1}", "search.regions"),
        ("tensor_parallel_size: 2", "search.tp"),
        ("requests_per_s: 3", "sla.requests_per_s"),
    ],
)
def test_a_word_of_another_tool_is_answered_with_the_key(tmp_path: Path, line: str, key: str) -> None:
    assert f"is not a known key; did you mean {key}?" in _faults(tmp_path, f"{SMALL}{line}\n")


@pytest.mark.parametrize("word", ["rps", "qps", "requests_per_s"])
def test_a_rate_is_a_key_of_the_workload(tmp_path: Path, word: str) -> None:
    text = f"model: llama-3.1-8b\nworkload: {{{word}: 5, lengths: {{fixed: 8K}}}}\n"
    assert f"workload.{word}: is not a known key; did you mean workload.rate_per_s?" in _faults(tmp_path, text)


def test_an_item_of_a_list_is_not_sent_elsewhere(tmp_path: Path) -> None:
    own = "hardware: [{gpu: L40S, gpus_per_instance: 1, count: 1, market: mine}]"
    assert "search.markets" not in _faults(tmp_path, f"{SMALL}{own}\n")


@pytest.mark.parametrize("word", ["max_model_len", "max_num_seqs"])
def test_what_is_chosen_is_no_key(tmp_path: Path, word: str) -> None:
    assert f"{word}: is not a key of a scenario (expected nothing: it is chosen" in _faults(
        tmp_path, f"{SMALL}{word}: 64\n"
    )


@pytest.mark.parametrize(
    ("lengths", "form"),
    [
        ("8192", "fixed: 8192"),
        ("8K", "fixed: 8K"),
        ("azure_conv_2023", "preset: azure_conv_2023"),
        ("logs/mine.csv", "trace: logs/mine.csv"),
        ("{input: 4096, output: 512}", "fixed: {input: 7K, output: 1K}"),
        ("{isl: 4096, osl: 512}", "fixed: {input: 7K, output: 1K}"),
    ],
)
def test_lengths_without_their_form_are_answered_with_it(tmp_path: Path, lengths: str, form: str) -> None:
    text = f"model: llama-3.1-8b\nworkload: {{concurrency: 4, lengths: {lengths}}}\n"
    assert f"; did you mean {form}?" in _faults(tmp_path, text)


@pytest.mark.parametrize("lengths", ["-4", "0", "true", "[8192]", "x" * 50])
def test_what_no_form_stands_for_is_only_refused(tmp_path: Path, lengths: str) -> None:
    text = f"model: llama-3.1-8b\nworkload: {{concurrency: 4, lengths: {lengths}}}\n"
    found = _faults(tmp_path, text)
    assert "workload.lengths: " in found
    assert "did you mean" not in found
