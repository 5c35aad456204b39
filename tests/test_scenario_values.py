"""Names whatever their case, figures written one way, and every fault said once."""

from __future__ import annotations

from pathlib import Path

import pytest

from recommender import load_scenario
from recommender.errors import InputError, nearest
from recommender.scenario_file.load import load

SMALL = "model: llama-3.1-8b\nworkload: {concurrency: 4, lengths: {fixed: 4K}}\n"


def _write(folder: Path, text: str) -> Path:
    path = folder / "question.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def _faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        load(_write(folder, text))
    return [str(fault).partition("question.yaml:")[2] for fault in caught.value.faults]


def test_names_are_compared_without_case(tmp_path: Path) -> None:
    text = f"""{SMALL}
search:
  gpus: [h100-sxm, l4]
  providers: AWS
  segments: [Hyperscaler]
  regions: US-East-1
  weights: [BF16, FP8]
  kv_dtypes: FP8
limits: {{stock: [{{gpu: l4, provider: Aws, instances: 2}}], quota: [{{gpus: 8, provider: GCP}}]}}
"""
    scenario = load_scenario(_write(tmp_path, text))
    search = scenario.search
    assert (search.gpus, search.providers, search.segments) == (("H100-SXM", "L4"), ("aws",), ("hyperscaler",))
    assert (search.regions, search.weights, search.kv_dtypes) == (("us-east-1",), ("bf16", "fp8"), ("fp8",))
    assert [(cap.gpu, cap.provider) for cap in scenario.limits.caps] == [("L4", "aws"), (None, "gcp")]


def test_names_in_variants_and_own_cards_are_too(tmp_path: Path) -> None:
    text = (
        f"{SMALL}hardware: [{{gpu: l4, gpus_per_instance: 1, count: 1}}]\nvariants: {{a: {{search: {{gpus: t4}}}}}}\n"
    )
    loaded = load(_write(tmp_path, text))
    assert loaded.scenario.hardware[0].gpu == "L4"
    assert loaded.variants["a"].search.gpus == ("T4",)


def test_a_family_of_gpus_suggests_its_members(tmp_path: Path) -> None:
    (said,) = _faults(tmp_path, f"{SMALL}search: {{gpus: [H100]}}\n")
    assert said == (
        "3: search.gpus[0]: 'H100' is no GPU of the catalog; did you mean H100-PCIe or H100-SXM or H100-NVL?"
    )


@pytest.mark.parametrize(
    ("word", "choices", "expected"),
    [
        ("H100", ["B100", "H100-SXM"], ["H100-SXM"]),
        ("sxm", ["sam", "H100-SXM"], ["H100-SXM"]),
        ("us-eest-1", ["us-east-1", "eu-west-1"], ["us-east-1"]),
        ("zzz", ["us-east-1"], []),
    ],
)
def test_what_begins_with_a_word_or_has_it_as_a_part_is_nearest(
    word: str, choices: list[str], expected: list[str]
) -> None:
    assert nearest(word, choices) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workload: {concurrency: 5_0, lengths: {fixed: 4K}}", "workload.concurrency: '5_0' is not valid"),
        ("workload: {concurrency: 5, lengths: {fixed: 5000_0}}", "'5000_0' is not a number of tokens"),
        ("workload: {concurrency: 5, lengths: {fixed: '1,5k'}}", "'1,5k' is not a number of tokens"),
        ("workload: {concurrency: 5, lengths: {fixed: null}}", "an empty value is not a number of tokens"),
    ],
)
def test_figures_are_written_one_way_only(tmp_path: Path, text: str, said: str) -> None:
    (fault,) = _faults(tmp_path, f"model: llama-3.1-8b\n{text}\n")
    assert said in fault


def test_figures_grouped_in_threes_are_read(tmp_path: Path) -> None:
    text = 'model: llama-3.1-8b\nworkload: {concurrency: 1_000, lengths: {fixed: "4,096"}}\n'
    workload = load_scenario(_write(tmp_path, text)).workload
    assert (workload.concurrency, workload.lengths.maximum_tokens) == (1000, 4096)


@pytest.mark.parametrize(
    ("variants", "said"),
    [
        ("{a: null}", "variants.a: is empty"),
        ("{a: {}}", "variants.a: is empty"),
        ("{'': {rank: quality_first}}", "has no name"),
    ],
)
def test_a_variant_has_a_name_and_says_something(tmp_path: Path, variants: str, said: str) -> None:
    (fault,) = _faults(tmp_path, f"{SMALL}variants: {variants}\n")
    assert said in fault


def _histogram(histogram: str) -> str:
    return f"model: llama-3.1-8b\nworkload: {{concurrency: 4, lengths: {{histogram: {histogram}}}}}\n"


@pytest.mark.parametrize(
    ("histogram", "said"),
    [
        ("null", ["an empty value is not a block"]),
        ("true", ["true is not a block"]),
        ("{cells: [[1, null, 3]]}", ["[1, an empty value, 3] holds something that is not a finite number"]),
        ("{input: {le: [null], count: [1]}, output: {le: [1], count: [1]}}", ["an empty value is not a number of"]),
        ("{input: {le: null, count: [1]}, output: {le: [1], count: [1]}}", ["are not two lists of one length"]),
        ("{input: {le: [.inf], count: [1]}, output: {le: [1], count: [1]}}", ["le[0]: .inf is not a finite number"]),
        ("{input: {le: [1], count: [1e999]}, output: {le: [1], count: [1]}}", ["count[0]: 1e999 is out of any range"]),
        ("{input: {le: [.inf], count: [1]}, output: 4}", ["le[0]: .inf is not a finite", "output: 4 is not a block"]),
    ],
)
def test_faults_of_a_histogram_are_said_once_in_the_words_of_the_file(
    tmp_path: Path, histogram: str, said: list[str]
) -> None:
    faults = _faults(tmp_path, f"{_histogram(histogram)}variants: {{a: {{rank: quality_first}}}}\n")
    assert len(faults) >= len(said)
    assert all(any(each in fault for fault in faults) for each in said)
    assert len(faults) == len(set(faults))
    assert not any("None" in fault or "True" in fault for fault in faults)


@pytest.mark.parametrize(("version", "known"), [("0.1.0", False), ("0.5", False), ("0.6.0", True), ("0.33.0", True)])
def test_a_version_older_than_all_that_is_known_is_a_fault(tmp_path: Path, version: str, known: bool) -> None:
    text = f"{SMALL}engine_version: {version}\n"
    if known:
        assert load_scenario(_write(tmp_path, text)).engine_version == version
        return
    (said,) = _faults(tmp_path, text)
    assert said == f"3: engine_version: vllm {version} is not modelled: constants begin with 0.6.0"


def test_more_tokens_a_step_than_any_engine_takes_are_a_fault(tmp_path: Path) -> None:
    (said,) = _faults(tmp_path, f"{SMALL}max_num_batched_tokens: 100M\n")
    assert "expected tokens from 1 to 1,000,000" in said


@pytest.mark.parametrize(
    ("load", "keys"),
    [
        ("rate_per_s: 0", ["rate_per_s.value"]),
        ("rate_per_s: fast", ["rate_per_s"]),
        ("rate_per_s: {value: .nan, peak_factor: 0.5}", ["rate_per_s.peak_factor", "rate_per_s.value"]),
        ("rate_per_s: {value: 1, hourly: [1, 2, 3]}", ["rate_per_s.hourly"]),
        (f"rate_per_s: {{value: 1, hourly: {[0] * 24}}}", ["rate_per_s.hourly"]),
        ("rate_per_s: {value: 1, burst: 3}", ["rate_per_s.burst"]),
        ("concurrency: 5, shared_prefix: {tokens: 0, share: 2}", ["shared_prefix.share", "shared_prefix.tokens"]),
        (  # a hit rate is no discount
            "concurrency: 5, shared_prefix: {share: 0.5, hit_rate: 0.4}",
            ["shared_prefix.hit_rate", "shared_prefix.tokens"],
        ),
        ("concurrency: 5, shared_prefix: 0.37", ["shared_prefix"]),
    ],
)
def test_loads_that_cannot_be(tmp_path: Path, load: str, keys: list[str]) -> None:
    text = f"model: llama-3.1-8b\nworkload: {{{load}, lengths: {{preset: azure_conv_2023}}}}\n"
    said = _faults(tmp_path, text)
    assert [each.split(": ")[1] for each in said] == [f"workload.{key}" for key in keys]
