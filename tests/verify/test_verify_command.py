from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import startup_logs as logs
from startup_logs import LOGS
from typer.testing import CliRunner, Result

from recommender.cli import app
from recommender.command.verify import read_tolerance
from recommender.errors import InputError
from recommender.memory.calibration import read_calibration


def _run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["verify", *map(str, arguments)])


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "vllm.log"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.log")), ids=lambda path: path.stem)
def test_published_excerpts_need_no_options(log: Path) -> None:
    result = _run(log)
    assert (result.exit_code, "All lines agree within 3 %" in result.stdout) == (0, True), result.output


def test_page_says_what_was_concluded() -> None:
    page = _run(LOGS / "llama-3.1-8b-tp4.log").stdout
    for said in (
        "4 ranks; Worker_TP0 leaves least for the KV cache and binds.",
        "Taken as H100-SXM, by its memory of 79.19 GiB",
        "- tp 4 (configuration line)",
        "- gpu_memory_utilization 0.95 (arguments)",
        "- max_num_seqs 1,024 (not in the log: the default)",
    ):
        assert said in page


def test_page_of_a_refusal(golden: Callable[[str, str], None], written: Callable[[str], Path]) -> None:
    result = _run(written(logs.refusal("0.19.0", logs.NO_FREE_MEMORY)))
    assert result.exit_code == 1
    golden("verify_no_free_memory.txt", result.stdout)


def test_lines_fit_the_page(written: Callable[[str], Path]) -> None:
    for text in (*logs.STARTED.values(), logs.V0_6_4_REFUSES, logs.refusal("0.24.0", logs.NO_REQUEST)):
        page = _run(written(text), "--gpu", "L40S").stdout
        assert max(map(len, page.splitlines())) <= 100, page


def test_json_and_csv_hold_the_same_lines() -> None:
    log = LOGS / "llama-3.1-8b-tp4.log"
    record = json.loads(_run(log, "--format", "json").stdout)
    rows = list(csv.DictReader(io.StringIO(_run(log, "--format", "csv").stdout)))
    assert [row["line"] for row in rows] == [line["line"] for line in record["lines"]]
    assert (record["within_tolerance"], record["log"]["binding_rank"], record["log"]["ranks"]) == (
        True,
        "Worker_TP0",
        4,
    )
    assert record["configuration"]["tp"] == {"value": 4, "from": "configuration line"}
    kv = next(line for line in record["lines"] if line["line"] == "kv_cache")
    assert (kv["difference"], kv["beyond_tolerance"]) == (kv["predicted"] - kv["logged"], False)


def test_beyond_the_tolerance(written: Callable[[str], Path]) -> None:
    log = written(logs.V1_0_24)
    assert _run(log).exit_code == 0
    assert _run(log, "--tolerance", "1%").exit_code == 0
    result = _run(log, "--tolerance", "0.005", "--format", "json")
    assert (result.exit_code, json.loads(result.stdout)["within_tolerance"]) == (1, False)


@pytest.mark.parametrize(("text", "share"), [("0.03", 0.03), ("3%", 0.03), (" 2.5 % ", 0.025)])
def test_tolerance(text: str, share: float) -> None:
    assert read_tolerance(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "0", "1", "3", "-1%", "nan", "inf", "x", "100%", "1e400"])
def test_what_is_no_tolerance(text: str) -> None:
    with pytest.raises(InputError, match="--tolerance"):
        read_tolerance(text)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "Model loading took"),
        (b"GET / 200\n" * 9, "is not a start-up log"),
        (b"\x00\xff" * 999, "is not a start-up log"),
    ],
)
def test_other_files_say_what_was_looked_for(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    result = _run(path)
    assert (result.exit_code, said in result.stderr) == (2, True)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert (_run(tmp_path / "none").exit_code, _run(tmp_path).exit_code) == (2, 2)


def test_calibration_is_saved_and_added_to(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    for name in ("llama-3.3-70b-fp8-tp2", "llama-3.1-8b-tp1", "llama-3.1-8b-tp4"):
        assert _run(LOGS / f"{name}.log", "--save-calibration", file).exit_code == 0
    held = read_calibration(file.read_text(), "mine.json").corrections
    assert [(each.gpu_class, each.tp) for each in held] == [("Hopper", 1), ("Hopper", 2), ("Hopper", 4)]
    assert held[0].measured_on.startswith("llama-3.1-8b-tp1.log: meta-llama/Llama-3.1-8B-Instruct, H100-SXM")
    again = file.read_bytes()
    assert _run(LOGS / "llama-3.1-8b-tp1.log", "--save-calibration", file).exit_code == 0
    assert file.read_bytes() == again


def test_broken_calibration_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text("not json")
    result = _run(LOGS / "llama-3.1-8b-tp1.log", "--save-calibration", file)
    assert (result.exit_code, file.read_text(), "mine.json" in result.stderr) == (2, "not json", True)


def test_disturbed_log_saves_nothing(tmp_path: Path, written: Callable[[str], Path]) -> None:
    file = tmp_path / "mine.json"
    result = _run(written(logs.refusal("0.19.0", logs.NO_FREE_MEMORY)), "--save-calibration", file)
    assert (result.exit_code, file.exists(), "another process" in result.stderr) == (2, False, True)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no device without an end here")
def test_a_device_without_an_end_is_not_read() -> None:
    found = _run("/dev/zero")
    assert found.exit_code == 2
    assert "/dev/zero: is a device" in found.output
    kept = _run(LOGS / "llama-3.1-8b-tp1.log", "--save-calibration", "/dev/zero")
    assert kept.exit_code == 2
    assert "/dev/zero: is longer than" in kept.output


def test_the_measured_table_of_the_page_is_what_is_compared() -> None:
    """docs/verify.md: weights and KV cache as shares of the budget, tokens of the tokens, predicted less logged."""
    page = (LOGS.parents[2] / "docs" / "verify.md").read_text(encoding="utf-8")
    rows = [
        line.strip("| ").split(" | ") for line in page.partition("| log | weights |")[2].splitlines() if "%" in line
    ]
    assert [row[0] for row in rows] == [title for title, _ in _TITLED]
    for (title, name), row in zip(_TITLED, rows, strict=False):
        lines = {line["line"]: line for line in json.loads(_run(LOGS / name, "--format", "json").stdout)["lines"]}
        tokens = lines["pool"]
        shares = [lines["weights"]["share_of_budget"], lines["kv_cache"]["share_of_budget"]]
        shares.append(tokens["predicted"] / tokens["logged"] - 1)
        assert [float(cell.removesuffix(" %")) for cell in row[1:]] == [round(100 * each, 2) for each in shares], title


_TITLED = (
    ("Llama-3.1-8B, tp 1", "llama-3.1-8b-tp1.log"),
    ("Llama-3.1-8B, tp 4", "llama-3.1-8b-tp4.log"),
    ("Llama-3.3-70B FP8, tp 2", "llama-3.3-70b-fp8-tp2.log"),
    ("DeepSeek-V2-Lite, tp 1", "deepseek-v2-lite-tp1.log"),
    ("Gemma-3-27B, tp 1", "gemma-3-27b-tp1.log"),
)
