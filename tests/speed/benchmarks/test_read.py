"""Result files of load-test tools: what is read from sound ones, and why the others are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recommender.errors import InputError
from recommender.speed.benchmarks.read import read_runs

# The fields of vllm/benchmarks/serve.py, with the figures of a public question about calibrating from such a file.
VLLM: dict[str, Any] = {
    "duration": 10.0,
    "completed": 20,
    "failed": 1,
    "total_input_tokens": 20480,
    "total_output_tokens": 2560,
    "request_throughput": 2.0,
    "output_throughput": 256.0,
    "mean_ttft_ms": 180.0,
    "p99_ttft_ms": 420.0,
    "mean_tpot_ms": 24.0,
}
Write = Callable[[Any], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(found: Any) -> Path:
        path = tmp_path / "result.json"
        path.write_text(json.dumps(found), encoding="utf-8")
        return path

    return to_file


def metric(mean: float, count: int = 100, errored: int = 0) -> dict[str, Any]:
    return {"successful": {"mean": mean, "count": count}, "errored": {"mean": 0.0, "count": errored}}


def guidellm(**changed: dict[str, Any]) -> dict[str, Any]:
    metrics = {
        "requests_per_second": metric(2.0),
        "request_concurrency": metric(6.5),
        "request_latency": metric(3.2),
        "prompt_token_count": metric(1024.0),
        "output_token_count": metric(128.0),
        "time_to_first_token_ms": metric(180.0),
        "time_per_output_token_ms": metric(25.2),
        "inter_token_latency_ms": metric(24.0),
        "output_tokens_per_second": metric(256.0),
    } | changed
    return {"metadata": {"version": 2}, "benchmarks": [{"metrics": metrics}]}


AIPERF: dict[str, Any] = {
    "request_throughput": {"unit": "requests/sec", "avg": 2.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 256.0},
    "input_sequence_length": {"unit": "tokens", "avg": 1024.0},
    "output_sequence_length": {"unit": "tokens", "avg": 128.0},
    "time_to_first_token": {"unit": "ms", "avg": 180.0},
    "inter_token_latency": {"unit": "ms", "avg": 24.0},
    "request_count": {"unit": "requests", "avg": 20},
    "input_config": {"endpoint": {"model_names": ["meta-llama/Llama-3.1-8B-Instruct"]}},
}


def test_vllm_result(write: Write) -> None:
    (run,) = read_runs(write(VLLM))
    assert run.output_tokens_per_s == 256
    assert (run.prompt_tokens, run.output_tokens) == (1024, 128)
    assert (run.ttft_ms, run.tpot_ms) == (180, 24)
    assert run.concurrency == pytest.approx(2 * (0.180 + 127 * 0.024))
    assert run.warnings == ("1 of 21 requests failed",)


def test_a_burst_has_no_time_to_first_token(write: Write) -> None:
    """All requests at once: the first token waits for the whole queue, which says nothing of a steady load."""
    (run,) = read_runs(write({**VLLM, "request_rate": "inf"}))
    assert run.ttft_ms is None
    (run,) = read_runs(write({**VLLM, "request_rate": "inf", "max_concurrency": 8}))
    assert run.ttft_ms == 180


def test_guidellm_result(write: Write) -> None:
    (run,) = read_runs(write(guidellm()))
    assert (run.prompt_tokens, run.output_tokens, run.concurrency) == (1024, 128, 6.5)
    assert (run.ttft_ms, run.tpot_ms, run.output_tokens_per_s) == (180, 24, 256)


def test_aiperf_summary_in_its_own_units(write: Write) -> None:
    (run,) = read_runs(write({**AIPERF, "inter_token_latency": {"unit": "ns", "avg": 24e6}}))
    assert run.tpot_ms == pytest.approx(24)
    assert run.model == "meta-llama/Llama-3.1-8B-Instruct"
    assert run.concurrency == pytest.approx(6.456)


def test_aiperf_requests(tmp_path: Path) -> None:
    path = tmp_path / "profile_export.jsonl"
    values = {
        "time_to_first_token": {"value": 0.5, "unit": "s"},
        "inter_token_latency": {"value": 20, "unit": "ms"},
        "input_sequence_length": {"value": 1000, "unit": "tokens"},
        "output_sequence_length": {"value": 100, "unit": "tokens"},
    }
    lines = [
        {"metadata": {"request_start_ns": start, "request_end_ns": start + 4_000_000_000}, "metrics": values}
        for start in (1_000_000_000, 3_000_000_000)
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    (run,) = read_runs(path)
    assert (run.ttft_ms, run.tpot_ms) == (500, 20)
    assert run.concurrency == pytest.approx(8 / 6)
    assert run.output_tokens_per_s == pytest.approx(200 / 6)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"mean_tpot_ms": -1}, "mean_tpot_ms.*-1 cannot be"),
        ({"mean_tpot_ms": 0}, "mean_tpot_ms.*0 cannot be"),
        ({"duration": 0}, "duration.*0 cannot be"),
        ({"mean_ttft_ms": 1e308}, r"mean_ttft_ms.*1e\+308 cannot be"),
        ({"mean_ttft_ms": float("nan")}, "mean_ttft_ms.*nan cannot be"),
        ({"total_output_tokens": 10**400}, "total_output_tokens.*a number of that size cannot be"),
        ({"completed": "20"}, "completed.*is not a number"),
        ({"completed": True}, "completed.*is not a number"),
        ({"completed": None}, "completed.*is missing"),
        ({"output_throughput": 512.0}, "output_throughput.*512 contradicts total_output_tokens over duration, 256"),
        ({"request_throughput": 3.0}, "request_throughput.*3 contradicts completed over duration, 2"),
        ({"failed": 5}, "failed.*5 of 25 requests failed"),
        ({"max_concurrency": 2}, "max_concurrency.*2 contradicts rate times latency, 6.456 in flight"),
    ],
)
def test_refused_with_the_reason(write: Write, changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=f"(?s){reason}"):
        read_runs(write({**VLLM, **changed}))


def test_every_fault_is_reported_at_once(write: Write) -> None:
    with pytest.raises(InputError) as refused:
        read_runs(write({**VLLM, "duration": 0, "mean_tpot_ms": -3, "mean_ttft_ms": 1e308}))
    assert len(refused.value.faults) == 3


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"request_concurrency": metric(60.0)}, "60 contradicts rate times latency"),
        ({"request_latency": metric(3.2, 10, 90)}, "90 of 100 requests failed"),
        ({"inter_token_latency_ms": metric(-24.0)}, "inter_token_latency_ms.*-24 cannot be"),
    ],
)
def test_guidellm_refused_with_the_reason(write: Write, changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_runs(write(guidellm(**changed)))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"benchmarks": "x"}', "{" * 50, '{"mean_tpot_ms": 1}'])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        read_runs(path)


def test_a_unit_that_is_none_is_refused(write: Write) -> None:
    with pytest.raises(InputError, match="'tokens' is not a unit of time"):
        read_runs(write({**AIPERF, "inter_token_latency": {"unit": "tokens", "avg": 3}}))


def test_a_summary_with_its_failures_only_in_the_list_of_errors(write: Write) -> None:
    """aiperf docs/tutorials/working-with-profile-exports.md: `error_request_count` null beside 81 + 3 errors."""
    errors = [{"error_details": {"code": 499}, "count": 81}, {"error_details": {"code": 500}, "count": 3}]
    summary = AIPERF | {"request_count": {"unit": "requests", "avg": 200.0}, "error_request_count": None}
    with pytest.raises(InputError, match="84 of 284 requests failed"):
        read_runs(write(summary | {"error_summary": errors, "was_cancelled": True}))
    (run,) = read_runs(write(summary | {"error_summary": errors[1:], "was_cancelled": True}))
    assert (run.completed, run.failed) == (200, 3)
    assert run.warnings == ("3 of 203 requests failed", "was stopped before its end")


def test_a_run_that_did_not_stream_is_told_what_it_lacks(write: Write) -> None:
    plain = {key: value for key, value in AIPERF.items() if key not in ("time_to_first_token", "inter_token_latency")}
    with pytest.raises(InputError, match=r"inter_token_latency.avg: is missing \(expected a run that streams"):
        read_runs(write(plain | {"request_latency": {"unit": "ms", "avg": 3228.0}}))


def test_a_time_without_its_unit_is_not_guessed(write: Write) -> None:
    with pytest.raises(InputError, match=r"time_to_first_token\.unit: '' is not a unit of time"):
        read_runs(write(AIPERF | {"time_to_first_token": {"avg": 180.0}}))


def request(number: int, output: int, **metrics: Any) -> dict[str, Any]:
    """One line: it starts so many seconds after the first and takes 500 ms, then 20 ms a token."""
    start = 10**18 + number * 10**9
    lengths = {"input_sequence_length": {"value": 1000, "unit": "tokens"}}
    lengths["output_sequence_length"] = {"value": output, "unit": "tokens"}
    times = {"time_to_first_token": {"value": 500, "unit": "ms"}} | metrics
    end = start + 500_000_000 + (output - 1) * 20_000_000
    return {"metadata": {"request_start_ns": start, "request_end_ns": end}, "metrics": lengths | times}


def lines(path: Path, *found: dict[str, Any]) -> Path:
    path.write_text("\n".join(json.dumps(line) for line in found), encoding="utf-8")
    return path


def test_answers_of_one_token_have_no_time_between_tokens(tmp_path: Path) -> None:
    between = {"inter_token_latency": {"value": 20, "unit": "ms"}}
    (run,) = read_runs(lines(tmp_path / "a.jsonl", request(0, 101, **between), request(1, 1)))
    assert (run.completed, run.output_tokens, run.ttft_ms, run.tpot_ms) == (2, 51, 500, 20)
    assert run.output_tokens_per_s == pytest.approx(102 / 2.5)
    with pytest.raises(InputError, match="no request has a second token"):
        read_runs(lines(tmp_path / "b.jsonl", request(0, 1), request(1, 1)))


def test_a_file_of_one_kind_of_fault_says_it_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read_runs(lines(tmp_path / "a.jsonl", *(request(number, 101) for number in range(200))))
    (fault,) = refused.value.faults
    assert fault.key == "inter_token_latency.avg"


def test_guidellm_requests_cut_off_at_the_end_are_said(write: Write) -> None:
    """guidellm benchmark/outputs/csv.py: request_totals has successful, incomplete, errored and total."""
    totals = {"successful": 586, "errored": 0, "incomplete": 23, "total": 609}
    (run,) = read_runs(write(guidellm(request_totals=totals)))
    assert (run.completed, run.failed) == (586, 0)
    assert run.warnings == ("23 of 609 requests were cut off at its end",)
    with pytest.raises(InputError, match="20 requests were answered, 0 failed, 64 were cut off at its end"):
        read_runs(write(guidellm(request_totals=totals | {"successful": 20, "incomplete": 64})))
    with pytest.raises(InputError, match="0 requests were answered, 609 failed"):
        read_runs(write(guidellm(request_totals={"successful": 0, "errored": 609, "incomplete": 0, "total": 609})))


@pytest.mark.parametrize("settings", ["config", "args"])
def test_a_guidellm_burst_has_no_time_to_first_token(write: Write, settings: str) -> None:
    """Its `throughput` strategy sends all at once, as a vLLM run at an infinite rate does; a sweep has one."""
    steady, burst = guidellm(), guidellm()
    burst["benchmarks"][0][settings] = {"strategy": {"type_": "throughput"}}
    steady["benchmarks"][0][settings] = {"strategy": {"type_": "constant", "rate": 2.0}}
    runs = read_runs(write({"benchmarks": burst["benchmarks"] + steady["benchmarks"]}))
    assert [run.ttft_ms for run in runs] == [None, 180]
    assert [run.tpot_ms for run in runs] == [24, 24]
