from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from recommender.catalog.catalog import shipped
from recommender.cli import app

HEAVY = ("pandas", "numpy", "ortools", "pydantic", "yaml")
SMALL = "model: llama-3.1-8b\nworkload: {concurrency: 4, lengths: {fixed: 4K}}\nsearch: {gpus: L4, plans: 2}\n"


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def _process(*arguments: str, cwd: Path | None = None, seed: str = "0") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent), "PYTHONHASHSEED": seed}
    command = [sys.executable, "-m", "recommender", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=cwd, timeout=60)


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return str(path)


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    code = "import sys, recommender, recommender.cli; print([m for m in sys.argv[1:] if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code, *HEAVY], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"
    before = os.times()
    shown = _process("--help")
    after = os.times()
    assert shown.returncode == 0
    assert after.children_user - before.children_user + after.children_system - before.children_system < 0.3


def test_every_command_explains_itself() -> None:
    commands = ["run", "ask", "budget", "ladder", "fit", "models", "gpus", "offers", "schema", "init", "catalog"]
    text = _run("--help").output
    for command in commands:
        assert command in text
        assert _run(command, "--help").exit_code == 0


def test_run_answers_in_each_format(small: str) -> None:
    table, record, rows = (_run("run", small, "--format", kind) for kind in ("table", "json", "csv"))
    assert (table.exit_code, record.exit_code, rows.exit_code) == (0, 0, 0)
    answer = json.loads(record.stdout)
    best = answer["plans"][0]
    assert answer["status"] == "optimal"
    assert {group["gpu"] for group in best["replicas"]} == {"L4"}
    assert best["served_concurrency"] >= 4
    assert best["offers"][0]["instance_type"] in table.stdout
    assert max(map(len, table.stdout.splitlines())) <= 100
    assert [row["rank"] for row in csv.DictReader(io.StringIO(rows.stdout))] == ["1", "2"]


def test_two_runs_give_the_same_bytes(small: str) -> None:
    first, second = (_process("run", small, "--format", "json", seed=seed) for seed in "12")
    assert first.stdout
    assert first.stdout == second.stdout


def test_a_shipped_scenario_answers_by_name_from_an_empty_folder(tmp_path: Path) -> None:
    answer = _process("run", "scenarios/own-cards-6xa6000.yaml", "--format", "json", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["scenario"] == "own-cards-6xa6000"
    assert list(tmp_path.iterdir()) == []


def test_a_file_on_disk_comes_before_a_shipped_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spot.yaml").write_text(SMALL, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert json.loads(_run("run", "spot.yaml", "--format", "json").stdout)["concurrency"] == 4


def test_variants_are_answered_in_one_object(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(f"{SMALL}variants: {{more: {{workload: {{concurrency: 8}}}}}}\n", encoding="utf-8")
    answer = json.loads(_run("run", str(path), "--format", "json").stdout)
    assert answer["concurrency"] == 4
    assert answer["variants"]["more"]["concurrency"] == 8


def test_no_feasible_plan_ends_in_1_with_the_reasons(tmp_path: Path) -> None:
    path = tmp_path / "poor.yaml"
    path.write_text(f"{SMALL}limits: {{usd_per_month: 1}}\n", encoding="utf-8")
    result = _run("run", str(path))
    assert result.exit_code == 1
    assert "would do: limits.usd_per_month" in result.stdout


def test_wrong_input_ends_in_2_on_standard_error_only(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("model: llama-3.1-70\nworkload: {concurrency: 0, lengths: {fixed: 8192}}\n", encoding="utf-8")
    result = _process("run", str(path))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("2 faults:\n")
    assert f"error: {path}:1: model" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_unknown_scenario_suggests_a_shipped_one() -> None:
    result = _run("run", "lama70b-50x8k")
    assert result.exit_code == 2
    assert "did you mean llama70b-50x8k?" in result.stderr


def test_output_is_written_whole_and_only_then(small: str, tmp_path: Path) -> None:
    target = tmp_path / "answer.json"
    target.write_text("old", encoding="utf-8")
    assert _run("run", small, "--format", "json", "--output", str(target)).exit_code == 0
    assert json.loads(target.read_text(encoding="utf-8"))["status"] == "optimal"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answer.json", "small.yaml"]


def test_output_that_cannot_be_written_is_a_clear_error(small: str, tmp_path: Path) -> None:
    result = _run("run", small, "--output", str(tmp_path / "absent" / "answer.txt"))
    assert result.exit_code == 2
    assert "cannot be written: No such file or directory" in result.stderr


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--max-model-len", "1,5k"),
        ("--max-model-len", "5000_0"),
        ("--max-num-batched-tokens", "4,5k"),
        ("--max-num-seqs", "5_0"),
        ("--tp", "1,0"),
        ("--gpu-memory-utilization", "0_9"),
        ("--gpu-memory-utilization", "nan"),
        ("--kv-cache-memory-bytes", "1_0"),
    ],
)
def test_numbers_are_written_one_way_only(option: str, value: str) -> None:
    result = _run("fit", "--model", "llama-3.1-8b", "--gpu", "L4", option, value)
    assert result.exit_code == 2
    assert f"{value!r} is not" in result.stderr


def test_group_by_keeps_the_best_of_each(tmp_path: Path) -> None:
    path = tmp_path / "cards.yaml"
    path.write_text(SMALL.replace("gpus: L4, plans: 2", "gpus: [L4, L40S], plans: 5"), encoding="utf-8")
    plans = json.loads(_run("run", str(path), "--group-by", "gpu", "--format", "json").stdout)["plans"]
    assert len({plan["replicas"][0]["gpu"] for plan in plans}) == len(plans) == 2


def test_ask_gives_the_answer_of_the_scenario(small: str) -> None:
    asked = json.loads(
        _run("ask", "4 concurrent 4K requests on L4", "--model", "llama-3.1-8b", "--format", "json").stdout
    )
    answered = json.loads(_run("run", small, "--format", "json").stdout)
    assert asked["plans"][0]["offers"] == answered["plans"][0]["offers"]
    assert asked["catalog"] == answered["catalog"]


def test_ask_without_a_model_answers_both_and_says_so() -> None:
    result = _run("ask", "4 concurrent 4K requests on H100", "--format", "json")
    assert list(json.loads(result.stdout)["variants"]) == ["llama-3.1-8b", "llama-3.1-70b"]
    assert "no model is named" in result.stderr


def test_ask_lists_what_it_does_not_understand_and_partial_ignores_it() -> None:
    question = "4 concurrent 4K requests on L4 with low latency"
    refused = _run("ask", question, "--model", "llama-3.1-8b")
    assert refused.exit_code == 2
    assert "'low latency' is not understood" in refused.stderr
    partial = _run("ask", question, "--model", "llama-3.1-8b", "--partial")
    assert partial.exit_code == 0
    assert "note: ignored: 'low latency'" in partial.stderr


def test_budget_turns_the_question_round(small: str) -> None:
    result = _run("budget", small, "--usd-per-month", "$1,000", "--format", "json")
    answer = json.loads(result.stdout)
    assert answer["question"].startswith("The most that $1,000.00 a month buys")
    assert answer["concurrency"] > 4
    assert answer["plans"][0]["usd_per_month"] <= 1000


@pytest.mark.parametrize("amount", ["much", "nan", "-5", "1e99", "0", "1,5", "2,50", "5000_0", "4,5k", "1,0000"])
def test_a_budget_must_be_an_amount(small: str, amount: str) -> None:
    result = _run("budget", small, f"--usd-per-month={amount}")
    assert result.exit_code == 2
    assert "is not an amount of dollars" in result.stderr


def test_ladder_takes_the_card_from_the_scenario_or_asks_for_it(small: str) -> None:
    steps = json.loads(_run("ladder", small, "--format", "json").stdout)["steps"]
    assert [step["rung"] for step in steps][:2] == [0, 1]
    assert "--gpu" in _run("ladder", "llama70b-50x8k").stderr
    rows = list(csv.DictReader(io.StringIO(_run("ladder", small, "--format", "csv").stdout)))
    assert len(rows) == len(steps)
    assert "memory.kv_cache_tokens" in rows[0]


def test_fit_answers_like_the_article() -> None:
    arguments = "--model llama-3.1-70b --gpu H100-SXM --tp 4 --max-model-len 8K --memory-model article --format json"
    fit = json.loads(_run("fit", *arguments.split()).stdout)
    assert fit["kv_cache_tokens"] == 443_398
    assert fit["starts"] is True


def test_fit_that_does_not_start_ends_in_1() -> None:
    result = _run("fit", "--model", "llama-3.1-70b", "--gpu", "H100-SXM")
    assert result.exit_code == 1
    assert "It does not start" in result.stdout


def test_fit_refuses_all_wrong_options_at_once() -> None:
    arguments = ["--kv-dtype", "fp4", "--max-model-len", "many", "--gpu-memory-utilization", "2"]
    result = _run("fit", "--model", "llama-3.1-8b", "--gpu", "L4", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("3 faults:")


@pytest.mark.parametrize("kind", ["models", "gpus", "offers"])
def test_listings_in_each_format(kind: str) -> None:
    table = _run(kind)
    assert table.exit_code == 0
    assert max(map(len, table.stdout.splitlines())) <= 100
    record = json.loads(_run(kind, "--format", "json").stdout)
    rows = list(csv.DictReader(io.StringIO(_run(kind, "--format", "csv").stdout)))
    assert len(record[kind]) == len(rows) > 50
    assert (
        _run(kind, "no such thing").stdout.endswith(f"0 {kind.replace('gpus', 'GPUs')} with 'no such thing'. ") is False
    )


def test_offers_are_found_by_several_words() -> None:
    found = json.loads(_run("offers", "aws h100", "--format", "json").stdout)["offers"]
    assert {offer["provider"] for offer in found} == {"aws"}
    assert all(offer["gpu"].startswith("H100") for offer in found)


def test_catalog_validates() -> None:
    result = _run("catalog", "validate")
    assert result.exit_code == 0, result.stderr


def test_schema_is_json_schema() -> None:
    schema = json.loads(_run("schema").stdout)
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == {"model", "workload"}


def test_init_writes_a_scenario_that_runs_and_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    assert _run("init", str(path)).exit_code == 0
    assert path.read_bytes() == (shipped("scenarios") / "llama70b-50x8k.yaml").read_bytes()
    again = _run("init", str(path))
    assert again.exit_code == 2
    assert "exists already" in again.stderr


def test_version() -> None:
    assert _run("--version").stdout.startswith("recommender 0.")
