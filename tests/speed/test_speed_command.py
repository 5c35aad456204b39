"""The command `speed`: its options, its formats, and the files that must never move a figure."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from recommender.cli import app

LLAMA = ("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM", "--isl", "1024", "--osl", "128")
SOUND: dict[str, Any] = {
    "model_id": "meta-llama/Llama-3.1-8B-Instruct", "duration": 10.0, "completed": 100, "failed": 0,
    "total_input_tokens": 102_400, "total_output_tokens": 12_800, "request_throughput": 10.0,
    "output_throughput": 1280.0, "mean_ttft_ms": 100.0, "mean_tpot_ms": 10.0, "max_concurrency": 16,
}  # fmt: skip


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["speed", *arguments])


def record(*arguments: str) -> Any:
    found = run(*arguments, "--format", "json")
    assert found.exit_code == 0, found.stderr
    return json.loads(found.stdout)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "result.json"


def test_a_curve_in_each_format(tmp_path: Path) -> None:
    table = run(*LLAMA)
    found, rows = record(*LLAMA), list(csv.DictReader(io.StringIO(run(*LLAMA, "--format", "csv").stdout)))
    assert table.exit_code == 0
    assert max(map(len, table.stdout.splitlines())) <= 100
    assert [point["concurrency"] for point in found["points"]][:3] == [1, 2, 4]
    assert [float(row["concurrency"]) for row in rows] == [*(p["concurrency"] for p in found["points"]), found["holds"]]
    assert [row["saturated"] for row in rows][-1] == "true"
    assert float(rows[0]["tpot_ms"]) == found["points"][0]["tpot_ms"]
    written = run(*LLAMA, "--format", "csv", "--output", str(tmp_path / "x.csv"))
    assert (written.exit_code, written.stdout) == (0, "")
    assert (tmp_path / "x.csv").read_text(encoding="utf-8").startswith("model,gpu,")


def test_a_list_of_loads_is_sorted_and_each_counted_once() -> None:
    assert [point["concurrency"] for point in record(*LLAMA, "--concurrency", "64, 8,64")["points"]] == [8, 64]


def test_one_load_is_told_in_blocks() -> None:
    page = run(*LLAMA, "--concurrency", "32").stdout
    assert "32 in flight" in page
    assert "80 % of such cases lie in" in page
    assert "at once  TTFT" not in page


def test_names_in_any_case_and_the_sizes_that_were_asked() -> None:
    options = ("--isl", "1K", "--osl", "256", "--concurrency", "4", "--tp", "2", "--pp", "2", "--replicas", "2")
    found = record("LLAMA-3.1-70B", "h100-sxm", *options)
    assert (found["model"], found["gpu"]) == ("meta-llama/Llama-3.1-70B-Instruct", "H100-SXM")
    assert (found["gpus"], found["tp"], found["pp"], found["replicas"], found["prompt_tokens"]) == (8, 2, 2, 2, 1024)


def test_a_stated_price_is_the_whole_setup() -> None:
    (point,) = record(*LLAMA, "--concurrency", "8", "--usd-per-hour", "$2.50")["points"]
    assert point["output_tokens_per_s_per_usd_per_hour"] == pytest.approx(point["output_tokens_per_s"] / 2.5, rel=1e-4)


def test_a_price_of_the_catalog_has_its_date_and_source() -> None:
    price = record(*LLAMA, "--concurrency", "8")["price"]
    assert price["how"] == "cheapest listed"
    assert price["offer"]["as_of"] > "2025"
    assert price["offer"]["source"]
    named = record(*LLAMA, "--concurrency", "8", "--offer", "{provider}/{instance_type}".format(**price["offer"]))
    assert named["price"]["usd_per_hour"] == price["usd_per_hour"]


def test_without_an_offer_the_price_is_unknown() -> None:
    unsold = ("qwen3-8b", "H20", "--isl", "100", "--osl", "100", "--concurrency", "1")
    found = record(*unsold)
    assert found["price"] is None
    assert found["points"][0]["usd_per_million_tokens"] is None
    assert "costs are unknown until" in run(*unsold).stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--concurrency", "0"], "--concurrency: '0' is not valid"),
        (["--concurrency", "1,000"], "--concurrency: '1,000' is not valid"),
        (["--concurrency", ""], "--concurrency"),
        (["--concurrency", "9" * 12], "--concurrency"),
        (["--concurrency", ",".join(map(str, range(1, 99)))], "up to 64 of them"),
        (["--isl", "nan"], "--isl: 'nan' is not valid"),
        (["--isl", "0"], "--isl: '0' is not valid"),
        (["--osl", "1e9"], "--osl: '1e9' is not valid"),
        (["--usd-per-hour", "-1"], "--usd-per-hour: '-1' is not valid"),
        (["--usd-per-hour", "0"], "--usd-per-hour: '0' is not valid"),
        (["--usd-per-hour", "1", "--offer", "a/b"], "--usd-per-hour: cannot stand beside --offer"),
        (["--offer", "a/b"], "--offer: unknown offer 'a/b'"),
        (["--api-usd-per-million-input", "1"], "--api-usd-per-million-output: is needed too"),
        (["--api-usd-per-million-input", "0", "--api-usd-per-million-output", "0"], "never dearer"),
        (["--weights", "fp3"], "--weights: no fp3 weights"),
        (["--kv-dtype", "fp3"], "--kv-dtype: 'fp3' is not known"),
        (["--ep", "3"], "--ep: meta-llama/Llama-3.1-8B-Instruct has no experts to spread"),
        (["--engine", "lmdeploy"], "'lmdeploy' is not modelled"),
        (["--benchmark", "/nowhere.json"], "/nowhere.json: cannot be read"),
    ],
)
def test_wrong_options_are_refused(options: list[str], said: str) -> None:
    found = run(*LLAMA, *options)
    assert (found.exit_code, found.stdout) == (2, "")
    assert said in found.stderr
    assert "Traceback" not in found.stderr


def test_every_fault_is_reported_at_once() -> None:
    found = run("x", "y", "--isl", "0", "--osl", "z", "--concurrency", "q", "--usd-per-hour", "w")
    assert found.stderr.startswith("4 faults:")


@pytest.mark.parametrize(
    ("names", "said"),
    [(("llama-3.1-8b", "H1OO-SXM"), "unknown gpu"), (("nobody/x", "H100-SXM"), "unknown model")],
)
def test_unknown_names(names: tuple[str, str], said: str) -> None:
    found = run(*names, "--isl", "10", "--osl", "10")
    assert (found.exit_code, said in found.stderr) == (2, True)


def test_a_sound_run_moves_every_figure(file: Path) -> None:
    file.write_text(json.dumps(SOUND), encoding="utf-8")
    before, after = record(*LLAMA), record(*LLAMA, "--benchmark", str(file))
    factor = after["benchmarks"]["tpot_factor"]
    assert factor != 1
    for old, new in zip(before["points"], after["points"], strict=False):
        assert new["tpot_ms"] == pytest.approx(factor * old["tpot_ms"], rel=1e-4)


def test_a_run_that_agrees_moves_nothing(file: Path) -> None:
    """This group was measured and published: a run that meets the prediction must leave it where it is."""
    options = ("deepseek-ai/DeepSeek-R1", "B200", "--isl", "1024", "--osl", "1024", "--tp", "8", "--engine", "sglang")
    (point,) = record(*options, "--concurrency", "32")["points"]
    seconds = (point["ttft_ms"] + 1023 * point["tpot_ms"]) / 1e3
    result = {
        "duration": seconds, "completed": 32, "failed": 0, "total_input_tokens": 32 * 1024,
        "total_output_tokens": 32 * 1024, "request_throughput": 32 / seconds,
        "output_throughput": 32 * 1024 / seconds, "mean_ttft_ms": point["ttft_ms"], "mean_tpot_ms": point["tpot_ms"],
        "max_concurrency": 32,
    }  # fmt: skip
    file.write_text(json.dumps(result), encoding="utf-8")
    found = record(*options, "--concurrency", "32", "--benchmark", str(file))
    assert found["benchmarks"]["tpot_factor"] == pytest.approx(1, abs=1e-4)
    assert found["benchmarks"]["ttft_factor"] == pytest.approx(1, abs=1e-3)
    assert found["points"][0]["evidence"] == "anchored"


HOSTILE: dict[str, tuple[Any, str]] = {
    "negative": ({**SOUND, "mean_tpot_ms": -10}, "mean_tpot_ms: -10 cannot be"),
    "no duration": ({**SOUND, "duration": 0}, "duration: 0 cannot be"),
    "hardly a duration": ({**SOUND, "duration": 1e-320}, "contradicts completed over duration"),
    "huge": ({**SOUND, "mean_ttft_ms": 1e308}, "mean_ttft_ms: 1e+308 cannot be"),
    "nan": ({**SOUND, "mean_tpot_ms": float("nan")}, "mean_tpot_ms: nan cannot be"),
    "infinite": ({**SOUND, "duration": float("inf")}, "duration: inf cannot be"),
    "contradictory": ({**SOUND, "output_throughput": 9.0}, "contradicts total_output_tokens over duration"),
    "too many at once": ({**SOUND, "max_concurrency": 1}, "contradicts rate times latency"),
    "failed": ({**SOUND, "failed": 50}, "50 of 150 requests failed"),
    "another model": ({**SOUND, "model_id": "Qwen/Qwen3-8B"}, "was measured with Qwen/Qwen3-8B, not meta-llama"),
    "other weights": (
        {**SOUND, "model_id": "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8"},
        "(fp8 weights) (expected bf16 weights, as asked for)",
    ),
    "another card": (
        {**SOUND, "duration": 1e3, "request_throughput": 0.1, "output_throughput": 12.8, "mean_tpot_ms": 99},
        "factor of 4",
    ),
    "text": ("GET / 200", "is not readable as JSON"),
    "empty": ("", "is not readable as JSON"),
    "cut off": (json.dumps(SOUND)[:-40], "is not readable as JSON"),
    "a list": ("[1]", "is not a JSON object"),
    "something else": ("{}", "is not a known result"),
    "deep": ('{"mean_tpot_ms": ' + "[" * 5000 + "]" * 5000 + "}", "is nested too deeply"),
    "twice": ('{"duration": 1, "duration": 2}', "appears twice"),
    "digits": ('{"duration": ' + "9" * 5000 + "}", "is not readable as JSON"),
    "no runs": ('{"benchmarks": [{"metrics": {}}]}', "requests_per_second"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_files_that_never_move_a_figure(file: Path, name: str) -> None:
    content, said = HOSTILE[name]
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    found = run(*LLAMA, "--concurrency", "8", "--benchmark", str(file))
    assert (found.exit_code, found.stdout) == (2, "")
    assert said in found.stderr
    assert str(file) in found.stderr
    assert "Traceback" not in found.stderr


def test_a_name_of_ones_own_is_warned_of(file: Path) -> None:
    file.write_text(json.dumps({**SOUND, "model_id": "/models/" + "x" * 500}), encoding="utf-8")
    found = record(*LLAMA, "--concurrency", "8", "--benchmark", str(file))
    (warning,) = (each for each in found["warnings"] if "names its model" in each)
    assert "Llama-3.1-8B-Instruct is taken to be meant" in warning
    assert len(warning) < 300 + len(str(file))


def test_binary_and_lines(file: Path, tmp_path: Path) -> None:
    file.write_bytes(b"\x00\xff" * 999)
    lines = tmp_path / "requests.jsonl"
    lines.write_text('{"error": "x"}\n{"metadata": 3, "metrics": []}\n', encoding="utf-8")
    for path in (file, lines, tmp_path):
        found = run(*LLAMA, "--concurrency", "8", "--benchmark", str(path))
        assert found.exit_code == 2, path
        assert "Traceback" not in found.stderr


def test_a_file_counts_once(file: Path) -> None:
    file.write_text(json.dumps(SOUND), encoding="utf-8")
    found = run(*LLAMA, "--benchmark", str(file), "--benchmark", str(file))
    assert (found.exit_code, "is given twice" in found.stderr) == (2, True)


def test_faults_of_all_files_are_reported(file: Path, tmp_path: Path) -> None:
    file.write_text("{}", encoding="utf-8")
    other = tmp_path / "other.json"
    other.write_text("[]", encoding="utf-8")
    found = run(*LLAMA, "--benchmark", str(file), "--benchmark", str(other))
    assert found.stderr.startswith("2 faults:")
