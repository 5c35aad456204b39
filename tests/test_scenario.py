from __future__ import annotations

import contextlib
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from recommender import load_scenario
from recommender.catalog.catalog import shipped
from recommender.errors import Fault, InputError
from recommender.scenario import Cap, LogFile, OwnCards, Scenario, Search
from recommender.scenario_file.document import MAX_BYTES, MAX_DEPTH, parse_document
from recommender.scenario_file.forms import ScenarioForm
from recommender.scenario_file.load import load
from recommender.workload.prefix import SharedPrefix
from recommender.workload.rate import Rate
from recommender.workload.replica import StepTime

SMALL = "model: llama-3.1-70b\nworkload: {concurrency: 50, lengths: {fixed: 8192}}\n"


def _write(folder: Path, text: str | bytes) -> Path:
    path = folder / "question.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def _faults(folder: Path, text: str | bytes) -> tuple[Fault, ...]:
    with pytest.raises(InputError) as caught:
        load_scenario(_write(folder, text))
    return caught.value.faults


def _only(folder: Path, text: str | bytes) -> Fault:
    (fault,) = _faults(folder, text)
    return fault


def test_two_lines_are_a_scenario_with_every_default_listed(tmp_path: Path) -> None:
    scenario = load_scenario(_write(tmp_path, SMALL))
    assert (scenario.name, scenario.model, scenario.workload.concurrency) == ("question", "llama-3.1-70b", 50)
    assert scenario.workload.lengths.maximum_tokens == 8192
    assert scenario.workload.lengths.total_only
    assert scenario.search == Search()
    defaults = dict(scenario.defaults)
    assert defaults["engine_version"] == "0.33.0"
    assert defaults["search.segments"] == ["hyperscaler", "neocloud"]
    assert "model" not in defaults
    assert "workload.concurrency" not in defaults


def test_defaults_of_the_file_and_of_the_program_agree(tmp_path: Path) -> None:
    loaded = load_scenario(_write(tmp_path, SMALL))
    bare = Scenario("question", "llama-3.1-70b", loaded.workload, defaults=loaded.defaults)
    assert loaded == bare


def test_every_key_reaches_the_scenario(tmp_path: Path) -> None:
    text = """
model: llama-3.1-8b
workload: {concurrency: 7, lengths: {fixed: {input: 2K, output: 500}}}
sizing: {mode: worst_case}
sla: {served_share: 0.99}
search:
  gpus: [H100-SXM, L4]
  providers: aws
  segments: [hyperscaler]
  regions: us-east-1
  markets: [on_demand, spot]
  offers: all
  placement: anywhere
  uniform_precision: false
  linear_sizes: true
  max_gpus: 16
  weights: [bf16, fp8]
  kv_dtypes: fp8
  tp: [1, 2]
  plans: 3
  max_price_age_days: 30
adjustments: {allow: [max_model_len, gpus]}
rank: quality_first
limits:
  usd_per_month: 5000.10
  watts: 10000
  stock: [{provider: aws, instance_type: p5.48xlarge, gpu: H100-SXM, region: us-east-1, instances: 2}]
  quota: [{gpus: 8, provider: aws}]
hardware: [{gpu: T4, gpus_per_instance: 2, count: 6, usd_per_hour: 0.5, ram_gb: 128}]
engine: vllm
engine_version: 0.20
gpu_memory_utilization: 0.90
enforce_eager: true
max_num_batched_tokens: 4K
memory_model: article
speed: ignore
as_of: 2026-10-01
group_by: gpu
"""
    scenario = load_scenario(_write(tmp_path, text))
    assert scenario.search == Search(
        gpus=("H100-SXM", "L4"),
        providers=("aws",),
        segments=("hyperscaler",),
        regions=("us-east-1",),
        markets=("on_demand", "spot"),
        offers="all",
        placement="anywhere",
        uniform_precision=False,
        linear_sizes=True,
        max_gpus=16,
        weights=("bf16", "fp8"),
        kv_dtypes=("fp8",),
        tp=(1, 2),
        plans=3,
        max_price_age_days=30,
    )
    assert scenario.limits.usd_per_month == Decimal("5000.10")
    assert scenario.limits.caps == (
        Cap(2, "instances", "stock", "aws", "us-east-1", "H100-SXM", "p5.48xlarge"),
        Cap(8, "gpus", "quota", "aws"),
    )
    assert scenario.hardware == (OwnCards("T4", 2, 6, Decimal("0.5"), Decimal(128)),)
    assert scenario.forbidden_rungs == {"kv_dtype", "weights"}
    assert (scenario.rank, scenario.group_by, scenario.memory_model) == ("quality_first", "gpu", "article")
    assert scenario.engine_version == "0.20", "an unquoted version keeps its digits"
    assert scenario.gpu_memory_utilization == Decimal("0.90")
    assert scenario.enforce_eager
    assert scenario.max_num_batched_tokens == 4096
    assert scenario.as_of == date(2026, 10, 1)
    assert scenario.sla.served_share == Decimal("0.99")
    assert not {"model", "rank", "limits.watts", "search.tp"} & set(dict(scenario.defaults))


@pytest.mark.parametrize(("written", "tokens"), [("8K", 8192), ("8k", 8192), ("'128k'", 131072), ("8192", 8192)])
def test_k_is_1024_tokens(tmp_path: Path, written: str, tokens: int) -> None:
    scenario = load_scenario(_write(tmp_path, SMALL.replace("8192", written)))
    assert scenario.workload.lengths.maximum_tokens == tokens


def test_all_faults_come_in_one_report_with_line_key_and_nearest_value(tmp_path: Path) -> None:
    text = """model: llama-3.1-70
modle: x
concurrency: 50
workload:
  concurrency: 0
  lengths: {fixed: none}
  rate_per_s: {value: 3, peek_factor: 2}
sizing: {mode: statistic}
search:
  markets: spott
  gpus: [H100-SMX]
  weights: [fp8, fq8]
limits: {usd_per_month: 3.0000001, quota: {gpus: 3}}
engine: sglung
as_of: 2026-13-01
"""
    found = {(fault.line, fault.key): fault for fault in _faults(tmp_path, text)}
    assert set(found) == {
        (1, "model"),
        (2, "modle"),
        (3, "concurrency"),
        (5, "workload.concurrency"),
        (6, "workload.lengths.fixed"),
        (7, "workload.rate_per_s"),
        (7, "workload.rate_per_s.peek_factor"),
        (8, "sizing.mode"),
        (10, "search.markets"),
        (11, "search.gpus[0]"),
        (12, "search.weights[1]"),
        (13, "limits.usd_per_month"),
        (13, "limits.quota"),
        (14, "engine"),
        (15, "as_of"),
    }
    assert all(fault.file == str(tmp_path / "question.yaml") for fault in found.values())
    assert found[2, "modle"].suggestion == "model"
    assert found[3, "concurrency"].suggestion == "workload.concurrency"
    assert found[10, "search.markets"].suggestion == "spot"
    assert found[11, "search.gpus[0]"].suggestion == "H100-SXM"
    assert found[12, "search.weights[1]"].suggestion == "fp8"
    assert found[5, "workload.concurrency"].expected == "a whole number from 1 to 10,000,000"
    assert [fault.line for fault in _faults(tmp_path, text)] == sorted(line for line, _ in found if line)


@pytest.mark.parametrize(
    ("extra", "key", "instead"),
    [
        ("sla: {queueing: 0.1}", "sla.queueing", "workload.concurrency"),
        ("lora: {max_loras: 4}", "lora", "adapter merged"),  # users.md 52: reserve them or refuse
        ("search: {dp: 2}", "search.dp", "data-parallel attention"),
    ],
)
def test_what_comes_later_is_refused_by_name(tmp_path: Path, extra: str, key: str, instead: str) -> None:
    fault = _only(tmp_path, f"{SMALL}{extra}\n")
    assert fault.key == key
    assert "not modelled yet" in fault.what
    assert fault.expected is not None
    assert instead in fault.expected


@pytest.mark.parametrize(
    ("lengths", "extra", "mode"),
    [
        ("fixed: 8192", "", "worst_case"),
        ("fixed: {input: 6K, output: 2K}", "", "worst_case"),
        ("fixed: {input: 6K, output: 2K}", "sizing: {mode: statistical}", "statistical"),
        ("preset: azure_conv_2023", "", "statistical"),
        ("preset: azure_conv_2023", "sizing: {epsilon: 0.05}", "statistical"),
        ("preset: azure_conv_2023", "sizing: {mode: worst_case}", "worst_case"),
        ("preset: azure_conv_2023", "memory_model: article", "worst_case"),
        ("preset: azure_conv_2023", "sizing: {mode: trace_replay}", "trace_replay"),
    ],
)
def test_a_distribution_is_sized_statistically_unless_written(
    tmp_path: Path, lengths: str, extra: str, mode: str
) -> None:
    scenario = load_scenario(_write(tmp_path, f"{SMALL.replace('fixed: 8192', lengths)}{extra}\n"))
    assert scenario.sizing == mode
    assert dict(scenario.defaults).get("sizing.mode", mode) == mode
    assert ("sizing.mode" in dict(scenario.defaults)) == ("sizing: {mode" not in extra)


def test_a_rate_a_prefix_and_what_clients_ask_for_reach_the_scenario(tmp_path: Path) -> None:
    profile = ", ".join(["1"] * 23 + ["3"])
    text = f"""model: llama-3.1-8b
workload:
  rate_per_s: {{value: 5.5, peak_factor: 1.5, hourly: [{profile}], request_s: 8}}
  lengths: {{preset: azure_conv_2023}}
  shared_prefix: {{tokens: 1K, share: 0.25}}
  max_tokens: 2K
sizing: {{epsilon: 0.05}}
"""
    work = load_scenario(_write(tmp_path, text)).workload
    assert work.rate == Rate(5.5, 1.5, (1.0,) * 23 + (3.0,))
    assert (work.concurrency, work.request_s) == (None, 8.0)
    assert work.shared_prefix == SharedPrefix(1024, 0.25)
    assert work.lengths.asked_tokens == 2048
    assert work.lengths.maximum_tokens == 14_050 + 2048
    plain = text.replace(text.splitlines()[2], "  rate_per_s: 3")
    scenario = load_scenario(_write(tmp_path, plain))
    assert scenario.workload.rate == Rate(3.0)
    defaults = dict(scenario.defaults)
    assert "workload.concurrency" not in defaults
    assert "sizing.step_ms.base" not in defaults  # how long requests take is predicted, with this confidence
    assert defaults["sla.confidence"] == Decimal("0.9")
    assumed = dict(load_scenario(_write(tmp_path, plain + "speed: ignore\n")).defaults)
    assert assumed["sizing.step_ms.base"] == 20
    assert "sla.confidence" not in assumed
    assert load_scenario(_write(tmp_path, plain + "sla: {confidence: 0.8}\n")).sla.confidence == Decimal("0.8")


def test_step_times_are_stated_in_milliseconds(tmp_path: Path) -> None:
    text = "workload: {rate_per_s: 3, lengths: {fixed: {input: 6K, output: 2K}}}\nsizing: {step_ms: {base: 5}}\n"
    scenario = load_scenario(_write(tmp_path, f"model: llama-3.1-8b\n{text}"))
    assert scenario.step_time == StepTime(0.005, 0.0001, 0.00005)


def test_a_log_with_its_columns_is_kept_for_a_replay(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("when,a,b\n0,10,5\n60,20,5\n", encoding="utf-8")
    trace = "trace: {path: log.csv, timestamp_unit: s, columns: {input: a, output: b, timestamp: when}}"
    work = load_scenario(_write(tmp_path, SMALL.replace("fixed: 8192", trace))).workload
    columns = (("input", "a"), ("output", "b"), ("timestamp", "when"))
    assert work.log == LogFile(tmp_path / "log.csv", columns, "s")
    assert work.lengths.arrivals is not None


@pytest.mark.parametrize(
    ("workload", "extra", "key"),
    [
        ("lengths: {fixed: 8K}", "", "workload.concurrency"),
        ("concurrency: 5, rate_per_s: 5, lengths: {fixed: {input: 6K, output: 2K}}", "", "workload.rate_per_s"),
        ("rate_per_s: 5, lengths: {fixed: 8K}", "", "workload.rate_per_s"),
        ("rate_per_s: fast, lengths: {preset: azure_conv_2023}", "", "workload.rate_per_s"),
        ("rate_per_s: {value: 0}, lengths: {preset: azure_conv_2023}", "", "workload.rate_per_s.value"),
        (
            "rate_per_s: {value: 1, hourly: [1, 2]}, lengths: {fixed: {input: 1, output: 1}}",
            "",
            "workload.rate_per_s.hourly",
        ),
        ("concurrency: 5, max_tokens: 2K, lengths: {fixed: 8K}", "", "workload.max_tokens"),
        ("concurrency: 5, lengths: {preset: azure_conv_2023, max_tokens: 2K}", "", "workload.lengths.max_tokens"),
        ("concurrency: 5, lengths: {fixed: 8K}", "sizing: {mode: statistical}", "sizing.mode"),
        ("concurrency: 5, lengths: {fixed: 8K}", "sizing: {mode: trace_replay}", "sizing.mode"),
        (
            "concurrency: 5, lengths: {preset: azure_conv_2023}",
            "sizing: {mode: statistical}\nmemory_model: article",
            "sizing.mode",
        ),
        ("concurrency: 5, lengths: {preset: azure_conv_2023}", "sizing: {epsilon: 1e-12}", "sizing.epsilon"),
        ("concurrency: 5, lengths: {preset: azure_conv_2023}", "sizing: {step_ms: {base: 5}}", "sizing.step_ms"),
        ("concurrency: 5, shared_prefix: {tokens: 1K}, lengths: {fixed: 8K}", "", "workload.shared_prefix"),
        (
            "concurrency: 5, shared_prefix: {tokens: 1K}, lengths: {preset: azure_conv_2023}",
            "sizing: {mode: trace_replay}",
            "workload.shared_prefix",
        ),
        ("concurrency: 5, shared_prefix: 1K, lengths: {preset: azure_conv_2023}", "", "workload.shared_prefix"),
        ("concurrency: 5, lengths: {prometheus: absent.txt}", "", "workload.lengths.prometheus"),
    ],
)
def test_load_and_sizing_that_clash_are_one_fault_each(tmp_path: Path, workload: str, extra: str, key: str) -> None:
    assert _only(tmp_path, f"model: llama-3.1-8b\nworkload: {{{workload}}}\n{extra}\n").key == key


@pytest.mark.parametrize(
    ("extra", "key"),
    [
        ("sizing: {mode: worst_case, epsilon: 0.01}", "sizing.epsilon"),
        ("adjustments: {allow: gpus, forbid: weights}", "adjustments.forbid"),
        ("hardware: [{gpu: T4, gpus_per_instance: 4, count: 6}]", "hardware[0].count"),
        ("search: {tp: [1, 1]}", "search.tp"),
        ("gpu_memory_utilization: 0", "gpu_memory_utilization"),
        ("gpu_memory_utilization: 1.5", "gpu_memory_utilization"),
        ("limits: {stock: [{instances: -1}]}", "limits.stock[0].instances"),
        ("enforce_eager: yes", "enforce_eager"),
        ("engine_version: latest", "engine_version"),
        ("search: {max_gpus: 2.0}", "search.max_gpus"),
        ("search: {providers: [aws, amazon]}", "search.providers[1]"),
        ("search: {regions: us-east}", "search.regions"),
        ("limits: {quota: [{gpus: 1, gpu: H100}]}", "limits.quota[0].gpu"),
        ("variants: {a: {catalog: x.csv}}", "variants.a.catalog"),
        ("variants: {a: 3}", "variants.a"),
        ("search: 3", "search"),
    ],
)
def test_one_fault_each(tmp_path: Path, extra: str, key: str) -> None:
    assert _only(tmp_path, f"{SMALL}{extra}\n").key == key


@pytest.mark.parametrize(
    "number", [".nan", ".inf", "-.inf", "1e400", "9" * 60, "-1", "1e30", "0.5", "true", "5_", "0x20", "010"]
)
def test_impossible_numbers(tmp_path: Path, number: str) -> None:
    fault = _only(tmp_path, SMALL.replace("50", number))
    assert fault.key == "workload.concurrency"
    assert len(str(fault)) < 300


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"", "is empty"),
        (b"# only a comment\n", "is empty"),
        (b"\xff\xfe\x00m", "not UTF-8"),
        (b"model: \x00", "binary"),
        (b"model: a\n---\nmodel: b\n", "several YAML documents"),
        (b"model: a\n\tworkload: 1\n", "tab"),
        (b"model: [a\n", "is not YAML"),
        (b"model: !!python/object:os.system x\n", "tag"),
        (b"? [a, b]\n: 1\n", "plain word"),
        (b"model: *nothing\n", "stands for nothing"),
        (b"a: &a [*a]\n", "stands for nothing"),
        (b"[" * (MAX_DEPTH + 1), "nested more than"),
        (b"a: \x01\n", "control characters"),
        (b"a" * (MAX_BYTES + 1), "larger than"),
        (b"model: " + b"9" * 5000 + b"K\n", "text of more than"),
        (b"k" * 5000 + b": 1\n", "text of more than"),
        (b"- a\n- b\n", "is not valid"),
        (b"just text\n", "is not valid"),
    ],
)
def test_what_is_no_scenario_at_all(tmp_path: Path, text: bytes, what: str) -> None:
    assert any(what in fault.what for fault in _faults(tmp_path, text))


def test_an_alias_bomb_is_refused_before_it_expands(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join(f'*a{n - 1}' for _ in range(9))}]" for n in range(1, 10)]
    assert "holds more than" in _only(tmp_path, "\n".join(lines)).what
    many = "\n".join(["a: &a 1", *(f"b{n}: *a" for n in range(200))])
    assert "aliases" in _only(tmp_path, many).what


def test_an_honest_alias_is_fine(tmp_path: Path) -> None:
    text = f"{SMALL}search: {{gpus: &cards [L4]}}\nlimits: {{quota: [{{gpu: L4, gpus: 2}}]}}\n"
    text += "variants: {same: {search: {gpus: *cards}}}\n"
    assert load(_write(tmp_path, text)).variants["same"].search.gpus == ("L4",)


def test_a_key_written_twice_names_both_lines(tmp_path: Path) -> None:
    fault = _only(tmp_path, f"{SMALL}rank: cost\nrank: quality_first\n")
    assert (fault.line, fault.key) == (4, "rank")
    assert "first in line 3" in fault.what


def test_unreadable_paths(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_scenario(tmp_path)
    with pytest.raises(InputError, match="there is no such scenario"):
        load_scenario(tmp_path / "absent.yaml")


def test_an_empty_key_means_its_default(tmp_path: Path) -> None:
    scenario = load_scenario(_write(tmp_path, f"{SMALL}search:\nlimits: {{watts: }}\n"))
    assert scenario.search == Search()
    assert scenario.limits.watts is None


def test_variants_are_patches_on_the_base(tmp_path: Path) -> None:
    text = f"""{SMALL}search: {{gpus: [H100-SXM], markets: [on_demand]}}
adjustments: {{forbid: weights}}
variants:
  spot: {{search: {{markets: [spot]}}}}
  split: {{workload: {{lengths: {{fixed: {{input: 100, output: 50}}}}}}, adjustments: {{allow: gpus}}}}
"""
    loaded = load(_write(tmp_path, text))
    spot, split = loaded.variants["spot"], loaded.variants["split"]
    assert loaded.scenario.search.markets == ("on_demand",)
    assert (spot.search.markets, spot.search.gpus) == (("spot",), ("H100-SXM",))
    assert (split.workload.concurrency, split.workload.lengths.maximum_tokens) == (50, 150)
    assert split.forbidden_rungs == {"max_model_len", "kv_dtype", "weights"}
    assert spot.name == "question: spot"


def test_faults_of_a_variant_point_into_the_variant_and_come_once(tmp_path: Path) -> None:
    text = f"{SMALL}modle: x\nvariants:\n  a: {{search: {{marketts: [spot]}}}}\n  b: {{rank: costs}}\n"
    assert [(fault.line, fault.key) for fault in _faults(tmp_path, text)] == [
        (3, "modle"),
        (5, "search.marketts"),
        (6, "rank"),
    ]


def test_overlays_are_found_beside_the_file(tmp_path: Path) -> None:
    fault = _only(tmp_path, f"{SMALL}catalog: mine.csv\n")
    assert fault.file == str(tmp_path / "mine.csv")


@pytest.mark.parametrize("path", sorted(shipped("scenarios").glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_scenarios_load_and_explain_themselves(path: Path) -> None:
    assert load_scenario(path).name == path.stem
    assert path.read_text(encoding="utf-8").startswith("# ")


PLAIN = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text("abcé: -#'\"\n", max_size=12)
TREES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text("abc", max_size=3), inner))


@given(TREES)
def test_reading_agrees_with_the_yaml_library(value: object) -> None:
    text = yaml.safe_dump({"key": value}, allow_unicode=True)
    assert parse_document(text, "f").value == {"key": value}


KEYS = st.sampled_from([*ScenarioForm.model_fields, "fixed", "concurrency", "lengths", "gpus", "count", "nonsense"])
VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["8K", "5_", "1__0", "cost", "H100-SXM", "x", "[", "*a"])
)
NESTED = st.recursive(VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))


@settings(max_examples=60, deadline=None)
@given(tree=st.dictionaries(KEYS, NESTED, max_size=6))
def test_any_mapping_is_a_scenario_or_an_input_error(
    tree: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = _write(tmp_path_factory.mktemp("any"), yaml.safe_dump(tree))
    with contextlib.suppress(InputError):
        assert load_scenario(path).model


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_refused_or_read(raw: bytes) -> None:
    with contextlib.suppress(InputError):
        assert parse_document(raw.decode("utf-8", errors="replace"), "f").value is not None


SPLIT = SMALL.replace("fixed: 8192", "fixed: {input: 7K, output: 1K}")


@pytest.mark.parametrize(
    ("text", "key", "what"),
    [
        (SMALL + "sla: {tpot_ms: 30}\n", "sla.tpot_ms", "how much of it is prompt"),
        (SPLIT + "sla: {tpot_ms: 30}\nspeed: ignore\n", "speed", "leaves sla.tpot_ms without effect"),
        (SPLIT + "sla: {percentile: 99, tpot_ms: 30}\n", "sla.percentile", "has no effect"),
        (SPLIT + "sla: {confidence: 0.8}\n", "sla.confidence", "has no effect"),
        (SPLIT + "sla: {ttft_ms: 0}\n", "sla.ttft_ms", "is not valid"),
        (SPLIT + "sla: {ttft_ms: 500, percentile: 100}\n", "sla.percentile", "is not valid"),
        (SPLIT + "sla: {tpot_ms: .nan}\n", "sla.tpot_ms", "is not a finite number"),
        (SPLIT + "sla: {tpot_ms: 20}\nmemory_model: article\n", "sla.tpot_ms", "memory alone"),
        (
            SPLIT.replace("concurrency: 50", "rate_per_s: 2") + "sizing: {step_ms: {base: 5}}\nspeed: model\n",
            "sizing.step_ms",
            "stands beside speed: model",
        ),
        (
            SPLIT.replace("concurrency: 50", "rate_per_s: 2") + "sla: {requests_per_s: 2}\n",
            "sla.requests_per_s",
            "asks for a throughput already",
        ),
    ],
)
def test_limits_on_speed_that_say_nothing_are_faults(tmp_path: Path, text: str, key: str, what: str) -> None:
    fault = _only(tmp_path, text)
    assert fault.key == key
    assert what in fault.what


@pytest.mark.parametrize(
    ("extra", "speed"),
    [
        ("", "ignore"),
        ("sla: {ttft_ms: 500}\n", "model"),
        ("speed: model\n", "model"),
        ("sla: {served_share: 0.9}\n", "ignore"),
    ],
)
def test_speed_takes_part_where_something_limits_it(tmp_path: Path, extra: str, speed: str) -> None:
    assert load_scenario(_write(tmp_path, SPLIT + extra)).speed == speed


@pytest.mark.parametrize(
    ("rate", "extra", "speed"),
    [
        ("2", "", "model"),
        ("{value: 2, request_s: 8}", "", "ignore"),
        ("2", "sizing: {step_ms: {base: 12}}\n", "ignore"),
        ("2", "speed: ignore\n", "ignore"),
    ],
)
def test_a_rate_is_paced_by_the_speed_model_unless_times_are_stated(
    tmp_path: Path, rate: str, extra: str, speed: str
) -> None:
    text = SPLIT.replace("concurrency: 50", f"rate_per_s: {rate}") + extra
    assert load_scenario(_write(tmp_path, text)).speed == speed
