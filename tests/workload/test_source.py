import json

import pytest
from shipped_traces import trace

from recommender.errors import InputError
from recommender.workload.forms import lengths_from_form
from recommender.workload.inflight import inflight_of
from recommender.workload.lengths import Cell
from recommender.workload.plot import plot
from recommender.workload.readers import summarise
from recommender.workload.source import describe, inflight, lengths_of
from recommender.workload.summary import written


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    rows = [f"{100 + 7 * row},{10 + row % 90}" for row in range(500)]
    path.write_text("prompt_tokens,completion_tokens\n" + "\n".join(rows) + "\n")
    return path


def test_a_shipped_trace_by_its_name():
    assert inflight("azure_conv_2023", 50) == inflight_of(trace("azure_conv_2023"), 50)
    assert inflight("azure_conv_2023", 50).statistical_tokens == 74_496
    with pytest.raises(InputError, match="did you mean azure_conv_2023"):
        inflight("azure_conv_2032", 50)


def test_a_log_and_its_cell_file_size_the_same(log, tmp_path):
    cells = tmp_path / "cells.json"
    cells.write_text(written(summarise(log).document()))
    from_log, from_cells = inflight(log, 20), inflight(str(cells), 20)
    assert from_log == from_cells
    assert from_log.worst_case_tokens == 20 * -(-lengths_of(log).maximum_tokens // 16) * 16
    assert lengths_from_form({"trace": {"path": "cells.json"}}, tmp_path) == lengths_of(cells)
    assert lengths_from_form({"trace": "log.csv"}, tmp_path) == lengths_of(log)


def test_a_scenario_names_columns_and_units(tmp_path):
    (tmp_path / "log.csv").write_text("when,a,b\n0,10,5\n60,20,5\n")
    columns = {"input": "a", "output": "b", "timestamp": "when"}
    form = {"trace": {"path": "log.csv", "columns": columns, "timestamp_unit": "s"}}
    assert lengths_from_form(form, tmp_path).arrivals.duration_s == 60
    form["trace"]["columns"] = {"input": "x", "output": "b"}
    with pytest.raises(InputError, match=r"lengths\.trace: columns\.input: no column 'x'"):
        lengths_from_form(form, tmp_path)


def test_a_cell_file_fits_the_catalog(log, tmp_path):
    from recommender.catalog.traces import read_trace

    document = summarise(log).document()
    (tmp_path / "cells.json").write_text(written(document))
    assert read_trace(tmp_path / "cells.json").lengths().cells == lengths_of(tmp_path / "cells.json").cells
    assert len(json.dumps(document)) < 8_000


def test_the_need_from_cells_is_that_of_the_requests(tmp_path):
    """A log of the shipped trace's own cells reads back as the same law."""
    lengths = trace("sharegpt_helix")
    rows = [
        f"{cell.input_tokens:.0f},{cell.output_tokens:.0f}" for cell in lengths.cells for _ in range(int(cell.weight))
    ]
    (tmp_path / "log.csv").write_text("prompt_tokens,completion_tokens\n" + "\n".join(rows) + "\n")
    for requests in (10, 200):
        found = inflight(tmp_path / "log.csv", requests).statistical_tokens
        assert found == pytest.approx(inflight_of(lengths, requests).statistical_tokens, rel=0.002)


def test_a_trace_is_described_by_its_exact_quantiles():
    summary = describe("azure_conv_2023")
    assert (summary.input.quantile(0.99), summary.output.quantile(0.99), summary.total.quantile(0.99)) == (
        4142,
        601,
        4259,
    )
    assert summary.requests == 19_366
    assert summary.lengths().maximum_tokens == 14_089


def test_logs_and_cell_files_are_described_alike(log, tmp_path):
    (tmp_path / "cells.json").write_text(written(describe(log).document()))
    assert describe(tmp_path / "cells.json") == describe(log) == summarise(log)
    document = json.loads((tmp_path / "cells.json").read_text())
    del document["log"]["columns"]
    (tmp_path / "cells.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="log: broken or incomplete"):
        describe(tmp_path / "cells.json")
    del document["log"]
    (tmp_path / "cells.json").write_text(json.dumps(document))
    assert describe(tmp_path / "cells.json").total.quantile(0.99) == describe(log).total.quantile(0.99)


def test_the_plot_shows_every_octave_and_fits_a_terminal():
    text = plot(describe("mooncake_conversation").cells)
    assert all(len(line) <= 100 for line in text.splitlines())
    assert "65,537-131,072" in text.splitlines()[-1]
    assert "46%" in text
    assert plot([Cell(1, 1, 1)]).splitlines()[1].split() == ["1", "100%", "█" * 21, "100%", "█" * 21]
