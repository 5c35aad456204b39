"""The command `lengths` and the public `inflight`."""

import csv
import io
import json

import pytest
from shipped_traces import rows
from typer.testing import CliRunner

from recommender import inflight, load_scenario
from recommender.cli import app
from recommender.workload.source import lengths_of


def run(*arguments):
    return CliRunner().invoke(app, ["lengths", *map(str, arguments)])


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    lines = [f"2026-10-01T00:{row // 60:02d}:{row % 60:02d}Z,{100 + 7 * row},{10 + row % 90}" for row in range(500)]
    path.write_text("timestamp,prompt_tokens,completion_tokens\n" + "\n".join([*lines, ",5,0"]) + "\n")
    return path


@pytest.mark.parametrize("row", rows("in_flight_quantiles.csv")[::9], ids=lambda row: f"{row['trace']} {row['risk']}")
def test_need_in_flight_is_that_of_an_independent_computation(row):
    found = inflight(row["trace"], int(row["requests"]), float(row["risk"]))
    assert found.statistical_tokens == pytest.approx(int(row["tokens_from_cells"]), rel=0.002, abs=16)


def test_json_has_the_need_and_is_a_cell_file(tmp_path):
    arguments = ("azure_conv_2023", "--concurrency", 50, "--epsilon", 0.01, "--format", "json")
    record = json.loads(run(*arguments).stdout)
    direct = inflight("azure_conv_2023", 50)
    assert record["statistical_tokens"] == direct.statistical_tokens == 74_496
    assert record["worst_case_tokens"] == direct.worst_case_tokens
    assert record["served_share"] == 1
    assert record["mean_tokens"] == direct.mean_tokens
    cells = tmp_path / "cells.json"
    assert run(*arguments, "--output", cells).stdout == ""
    assert inflight(cells, 50) == direct


def test_page_of_a_log_says_what_was_read_and_dropped(log):
    page = run(log, "--concurrency", 20, "--max-model-len", "2K").stdout
    assert "log.csv: 500 requests of 501 rows read. Not counted: 1 " in page
    assert "input from prompt_tokens, output from completion_tokens" in page
    assert "Arrivals: 1.002 a second on average over 0.1 hours; the busiest 10 s" in page
    assert "At max-model-len 2,048" in page
    assert "% are cut" in page
    assert max(map(len, page.splitlines())) <= 100


@pytest.mark.parametrize("name", ["alpaca_helix", "mooncake_conversation", "servegen_m_mid"])
def test_pages_of_shipped_traces_fit_the_page(name):
    result = run(name, "--concurrency", 200)
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_output_is_a_cell_file_that_a_scenario_uses_in_place_of_the_log(log, tmp_path):
    shown = run(log, "--output", tmp_path / "cells.json").stdout
    assert "prompt + output" in shown
    scenario = tmp_path / "ask.yaml"
    text = "model: llama-3.1-8b\nworkload: {concurrency: 20, lengths: {trace: cells.json}}\n"
    scenario.write_text(text + "sizing: {mode: worst_case}\n")
    assert load_scenario(scenario).workload.lengths.cells == lengths_of(log).cells


def test_csv_is_one_row_of_figures(log):
    (row,) = csv.DictReader(io.StringIO(run(log, "--concurrency", 20, "--format", "csv").stdout))
    assert (row["rows"], row["requests"], row["input_tokens.maximum"]) == ("501", "500", "3593")
    assert int(row["statistical_tokens"]) == inflight(log, 20).statistical_tokens


def test_metrics_keep_the_lengths_they_state(tmp_path):
    """Cells of a server's histograms are exact lengths, not half-octave buckets; a cell file of them says so."""
    edges = {"100.0": 50, "1000.0": 90, "+Inf": 100}
    lines = [
        f'vllm:{side}_bucket{{le="{edge}",model_name="m"}} {count}'
        for side in ("request_prompt_tokens", "request_generation_tokens")
        for edge, count in edges.items()
    ]
    for side in ("request_prompt_tokens", "request_generation_tokens"):
        lines += [f'vllm:{side}_sum{{model_name="m"}} 30000', f'vllm:{side}_count{{model_name="m"}} 100']
    metrics = tmp_path / "metrics.txt"
    metrics.write_text("\n".join(lines) + "\n")
    assert run(metrics, "--output", tmp_path / "cells.json").exit_code == 2  # beyond the last bucket: how long?
    bounded = run(metrics, "--max-model-len", "8K")
    assert (bounded.exit_code, "8,192" in bounded.stdout) == (0, True)
    metrics.write_text(metrics.read_text().replace(" 100\n", " 90\n"))
    assert run(metrics, "--output", tmp_path / "cells.json").exit_code == 0
    from_cells, from_metrics = (inflight(path, 50, max_model_len=600) for path in (tmp_path / "cells.json", metrics))
    assert from_cells.statistical_tokens == from_metrics.statistical_tokens
    assert not lengths_of(tmp_path / "cells.json").spread


def test_columns_and_units_by_name(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("when,a,b\n0,10,5\n60,20,5\n")
    assert run(path).exit_code == 2
    page = run(path, "--columns", "input=a,output=b,timestamp=when", "--timestamp-unit", "s").stdout
    assert "2 requests" in page
    assert "0.03333 a second" in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("azure_conv_2032",), "did you mean azure_conv_2023"),
        (("azure_conv_2023", "--concurrency", 5, "--epsilon", 2), "epsilon"),
        (("azure_conv_2023", "--columns", "prompt=a"), "input=NAME"),
        (("azure_conv_2023", "--max-model-len", "long"), "8192 or 8K"),
        (("nowhere.csv",), "cannot be read"),
    ],
)
def test_faults_end_in_exit_2(arguments, said):
    result = run(*arguments)
    assert (result.exit_code, said in result.stderr) == (2, True), result.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--epsilon", "0.02"), "--epsilon: has no effect on its own (expected --concurrency beside it)"),
        (("--max-model-len", "8K"), "--max-model-len: has no effect on its own (expected --concurrency beside it)"),
        (("--max-model-len", "1,5K", "--concurrency", "3"), "--max-model-len: '1,5K' is not valid"),
        (("--max-model-len", "1", "--concurrency", "3"), "--max-model-len: 1 holds no request"),
        (("--epsilon", "2", "--concurrency", "3"), "--epsilon: 2.0 is no risk"),
        (("--timestamp-unit", "h"), "--timestamp-unit: 'h' is no unit (expected s, ms, us, ns, auto)"),
    ],
)
def test_options_that_cannot_be_meant_are_named_as_they_are_typed(options: tuple[str, ...], said: str) -> None:
    result = run("azure_conv_2023", *options)
    assert result.exit_code == 2
    assert said in result.stderr
