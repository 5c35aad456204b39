import json
from pathlib import Path

import pytest

from recommender.errors import Fault, InputError, NotModelledError
from recommender.workload.forms import lengths_from_form
from recommender.workload.lengths import Cell, Lengths, served_share, total_quantile

HERE = Path()
BROKEN_POINTS = '{"cells": [[1, 5, 5]], "total_tokens": {"maximum": 10, "quantiles": [[0.5, 11]]}}'


def read(form, **options):
    return lengths_from_form(form, HERE, **options)


def mean_input(lengths):
    weight = sum(cell.weight for cell in lengths.cells)
    return sum(cell.weight * cell.input_tokens for cell in lengths.cells) / weight


def faults(form):
    with pytest.raises(InputError) as caught:
        read(form)
    return [fault.key for fault in caught.value.faults]


@pytest.mark.parametrize("total", [8192, "8K", "8k", "8,192", 8192.0])
def test_a_fixed_total_has_no_split(total):
    lengths = read({"fixed": total})
    assert lengths.maximum_tokens == 8192
    assert lengths.total_only


def test_a_fixed_pair_keeps_its_split():
    lengths = read({"fixed": {"input": "2K", "output": 512}})
    assert lengths.cells == (Cell(1.0, 2048.0, 512.0),)
    assert lengths.maximum_tokens == 2560
    assert not lengths.total_only


@pytest.mark.parametrize(
    "total", [0, -5, True, None, "many", "8.3", float("nan"), float("inf"), 10**9, "1e400", [], ""]
)
def test_what_is_no_number_of_tokens_is_refused_with_its_key(total):
    assert faults({"fixed": total}) == ["lengths.fixed"]


def test_every_fault_of_a_pair_is_named():
    assert faults({"fixed": {"input": 0, "output": "x"}}) == ["lengths.fixed.input", "lengths.fixed.output"]
    assert faults({"fixed": {"input": 5, "outptu": 6}}) == ["lengths.fixed.outptu", "lengths.fixed.output"]


@pytest.mark.parametrize("form", [{}, {"fixed": 1024, "preset": "x"}])
def test_exactly_one_form_is_asked_for(form):
    assert faults(form) == ["lengths"]


def test_an_unknown_form_gets_a_suggestion():
    with pytest.raises(InputError, match="did you mean quantiles"):
        read({"quantile": {}})


def test_the_key_can_begin_anywhere():
    with pytest.raises(InputError, match=r"^workload\.lengths\.fixed"):
        read({"fixed": 0}, key="workload.lengths")


def test_cells_of_exact_requests_give_their_own_maximum_and_say_so():
    lengths = read({"histogram": {"cells": [[3, 1000, 500], [1, 4000, 100]]}})
    assert lengths.maximum_tokens == 4100
    assert "largest cell" in lengths.notes[0]
    assert served_share(lengths, 1500) == 0.75


def test_a_stated_maximum_replaces_the_largest_cell():
    lengths = read({"histogram": {"cells": [[3, 1000, 500], [1, 4000, 100]], "max": "8K"}})
    assert lengths.maximum_tokens == 8192
    assert lengths.notes == ()
    assert faults({"histogram": {"cells": [[1, 4000, 100]], "max": 4000}}) == ["lengths.histogram.max"]


def test_faulty_cells_are_all_named():
    rows = [[1, 10, 10], [0, 10, 10], [1, 10], "abc", [1, float("nan"), 1], [1, 10**9, 1]]
    assert faults({"histogram": {"cells": rows}}) == [f"lengths.histogram.cells[{place}]" for place in (1, 2, 3, 4, 5)]


def test_a_histogram_spreads_evenly_inside_its_buckets():
    sides = {"input": {"le": [100, 200], "count": [1, 3]}, "output": {"le": [10], "count": [1], "min": 10}}
    lengths = read({"histogram": {**sides, "dependence": "independent"}})
    assert lengths.maximum_tokens == 210
    assert mean_input(lengths) == pytest.approx((50.5 + 3 * 150.5) / 4, rel=1e-6)
    assert total_quantile(lengths, 0.5) == pytest.approx(100 + 100 / 3 + 10, abs=1)


@pytest.mark.parametrize(
    ("side", "key"),
    [
        ({"le": [100, 50], "count": [1, 1]}, "le"),
        ({"le": [100], "count": [0]}, "count"),
        ({"le": [100, 200], "count": [1, -1]}, "count"),
        ({"le": [100, 200], "count": [1]}, ""),
    ],
)
def test_a_broken_histogram_is_refused(side, key):
    good = {"le": [10], "count": [1]}
    assert faults({"histogram": {"input": side, "output": good}}) == [f"lengths.histogram.input.{key}".rstrip(".")]


QUANTILES = {"p50": 1000, "p90": 3000, "p99": 8000, "max": 16000}


def test_quantiles_pass_through_their_points_and_end_at_the_maximum():
    lengths = read({"quantiles": {"input": QUANTILES, "output": {"min": 1, "max": 1}}})
    assert lengths.maximum_tokens == 16001
    assert total_quantile(lengths, 0.5) == pytest.approx(1001, abs=2)
    assert total_quantile(lengths, 0.99) == pytest.approx(8001, rel=0.002)
    assert "independent" in lengths.notes[0]


def test_comonotone_totals_are_sums_of_quantiles():
    form = {"input": QUANTILES, "output": {"p50": 200, "p99": 900, "max": 1000}, "dependence": "comonotone"}
    lengths = read({"quantiles": form})
    assert lengths.notes == ()
    assert total_quantile(lengths, 0.99) == pytest.approx(8900, rel=0.005)
    assert total_quantile(lengths, 0.5) == pytest.approx(1200, rel=0.005)


@pytest.mark.parametrize(
    ("side", "key"),
    [
        ({"p50": 10}, "lengths.quantiles.input.max"),
        ({"p50": 100, "p90": 50, "max": 200}, "lengths.quantiles.input"),
        ({"median": 100, "max": 200}, "lengths.quantiles.input.median"),
        ({"p0": 1, "max": 200}, "lengths.quantiles.input.p0"),
        ({"p101": 1, "max": 200}, "lengths.quantiles.input.p101"),
    ],
)
def test_broken_quantiles_are_refused(side, key):
    assert faults({"quantiles": {"input": side, "output": QUANTILES}}) == [key]


def test_dependence_words_are_checked():
    with pytest.raises(InputError, match="did you mean comonotone"):
        read({"quantiles": {"input": QUANTILES, "output": QUANTILES, "dependence": "comonoton"}})


@pytest.mark.parametrize(
    "law",
    [
        {"type": "lognormal", "median": 1000, "p95": 5000, "max": 32768},
        {"lognormal": {"mu": 6.907755, "sigma": 0.978461, "max": 32768}},
        {"lognormal": {"mean": 1614.046, "std_dev": 2048.62, "max": 32768}},
    ],
)
def test_a_lognormal_law_is_stated_in_any_of_its_three_ways(law):
    lengths = read({"parametric": {"input": law, "output": {"fixed": {"value": 1}}, "correlation": 0}})
    assert lengths.maximum_tokens == 32769
    assert total_quantile(lengths, 0.5) == pytest.approx(1001, rel=0.003)
    assert total_quantile(lengths, 0.95) == pytest.approx(5001, rel=0.003)


def test_a_law_without_an_end_is_cut_and_says_where():
    lengths = read({"parametric": {"input": {"normal": {"mean": 500, "std_dev": 50}}, "output": 100}})
    assert lengths.maximum_tokens == 838
    assert any("738" in note for note in lengths.notes)


def test_a_clipped_normal_puts_what_lies_beyond_at_its_ends():
    law = {"type": "normal", "mean": 100, "std_dev": 50, "min": 100, "max": 120}
    lengths = read({"parametric": {"input": law, "output": 1, "correlation": 0}})
    assert served_share(lengths, 101) == pytest.approx(0.5, abs=0.01)
    assert mean_input(lengths) == pytest.approx(100 + 0.3446 * 20 + 0.1554 * 10, abs=0.2)


def test_guidellm_spelling_means_the_same():
    flat = {"prompt_tokens": 512, "prompt_tokens_stdev": 64, "prompt_tokens_min": 256, "prompt_tokens_max": 768}
    nested = {"input": {"type": "normal", "mean": 512, "std_dev": 64, "min": 256, "max": 768}, "output": {"fixed": 128}}
    assert read({"parametric": {**flat, "output_tokens": 128}}) == read({"parametric": nested})


def test_correlation_lengthens_the_tail_between_independent_and_comonotone():
    law = {"lognormal": {"median": 500, "p95": 2000, "max": 16384}}
    tails = [
        total_quantile(read({"parametric": {"input": law, "output": law, "correlation": rho}}), 0.99)
        for rho in (-1, -0.5, 0, 0.5, 1)
    ]
    assert tails == sorted(tails)
    assert tails[-1] == pytest.approx(
        2 * total_quantile(read({"parametric": {"input": law, "output": 1}}), 0.99), rel=0.01
    )


@pytest.mark.parametrize(
    ("law", "keys"),
    [
        ({"type": "gamma", "mean": 1}, ["lengths.parametric.input.gamma"]),
        ({"type": "normal", "mean": 10}, ["lengths.parametric.input.std_dev"]),
        ({"type": "normal", "mean": 10, "std_dev": -1}, ["lengths.parametric.input.std_dev"]),
        ({"type": "uniform", "min": 10, "max": 5}, ["lengths.parametric.input"]),
        ({"type": "lognormal", "median": 10, "p95": 5}, ["lengths.parametric.input.p95"]),
        ({"type": "lognormal", "median": 10, "mu": 5}, ["lengths.parametric.input"]),
        ({"type": "normal", "mean": 1e308, "std_dev": 1}, ["lengths.parametric.input.mean"]),
    ],
)
def test_broken_laws_are_refused(law, keys):
    assert faults({"parametric": {"input": law, "output": 1}}) == keys


def test_a_law_that_is_known_but_not_modelled_is_refused_by_name():
    with pytest.raises(NotModelledError, match="skew_normal"):
        read({"parametric": {"input": {"type": "skew_normal", "mean": 5}, "output": 1}})


def test_a_preset_is_looked_up_and_a_fault_gets_the_key():
    shipped = Lengths((Cell(1.0, 10.0, 5.0),), 15)
    assert read({"preset": "chat"}, trace_lookup={"chat": shipped}.__getitem__) is shipped

    def refuse(name):
        raise InputError(Fault(f"{name} is unknown", suggestion="chat"))

    with pytest.raises(InputError, match=r"lengths\.preset: chta is unknown; did you mean chat"):
        read({"preset": "chta"}, trace_lookup=refuse)


def test_a_cell_file_is_read_relative_to_the_scenario(tmp_path):
    document = {
        "source": "our gateway, 2026-09",
        "total_tokens": {"minimum": 20, "quantiles": [[0.5, 300], [0.999, 900]], "maximum": 1000},
        "arrivals": {"duration_s": 3600, "rate_per_s": 2.5, "peak_to_mean_60s": 1.5, "peak_to_mean_10s": 3.0},
        "bucketing": "half octaves",
        "cells": [[3, 200, 50], [1, 500, 200]],
    }
    (tmp_path / "cells.json").write_text(json.dumps(document))
    lengths = lengths_from_form({"trace": "cells.json"}, tmp_path)
    assert lengths.maximum_tokens == 1000
    assert lengths.totals == ((19.0, 0.0), (300.0, 0.5), (900.0, 0.999))
    assert lengths.spread
    assert lengths.arrivals.peak_to_mean == ((10, 3.0), (60, 1.5))
    assert lengths == lengths_from_form({"trace": {"path": "cells.json"}}, tmp_path)


@pytest.mark.parametrize("text", ["", "[1, 2]", "{}", '{"cells": []}', '{"cells": [[1, 5, 5]]}', BROKEN_POINTS])
def test_a_broken_cell_file_is_refused(tmp_path, text):
    (tmp_path / "cells.json").write_text(text)
    with pytest.raises(InputError, match=r"cells\.json"):
        lengths_from_form({"trace": "cells.json"}, tmp_path)


def test_max_tokens_stands_beside_any_form():
    lengths = read({"fixed": {"input": 1000, "output": 200}, "max_tokens": "4K"})
    assert (lengths.maximum_tokens, lengths.asked_tokens) == (5096, 4096)
    assert lengths.cells == (Cell(1.0, 1000.0, 200.0),)
    assert faults({"fixed": {"input": 1000, "output": 200}, "max_tokens": 0}) == ["lengths.max_tokens"]
    assert faults({"fixed": 1200, "max_tokens": 100}) == ["lengths.max_tokens"]
    assert faults({"max_tokens": 100}) == ["lengths"]
