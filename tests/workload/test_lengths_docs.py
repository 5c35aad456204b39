"""The SQL of docs/lengths.md makes the cells that the reader makes."""

import json
import math
import random
import re
import sqlite3
from pathlib import Path

import pytest
from shipped_traces import trace

from recommender.workload.forms import lengths_from_form
from recommender.workload.inflight import inflight_of
from recommender.workload.lengths import Cell, Lengths, max_model_len_for
from recommender.workload.readers import summarise

PAGE = (Path(__file__).parents[2] / "docs" / "lengths.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_sql_makes_the_same_cells(tmp_path):
    chance = random.Random(2)
    rows = [(int(chance.lognormvariate(5, 2)), int(chance.lognormvariate(3, 2))) for _ in range(3000)]
    (tmp_path / "log.csv").write_text("prompt_tokens,completion_tokens\n" + "\n".join(f"{i},{o}" for i, o in rows))
    with sqlite3.connect(":memory:") as database:
        database.create_function("ln", 1, math.log)
        database.create_function("ceil", 1, math.ceil)
        database.execute("CREATE TABLE requests (prompt_tokens INTEGER, completion_tokens INTEGER)")
        database.executemany("INSERT INTO requests VALUES (?, ?)", rows)
        found = sorted(database.execute(blocks("sql")[0]))
    cells = sorted(summarise(tmp_path / "log.csv").cells)
    assert len(found) == len(cells) > 200
    for (count, prompt, output), (expected, *means) in zip(found, cells, strict=True):
        assert count == expected
        assert [prompt, output] == pytest.approx(means, abs=0.51)


def test_the_smallest_cell_file_is_read(tmp_path):
    (tmp_path / "cells.json").write_text(json.dumps(json.loads(blocks("json")[0])))
    lengths = lengths_from_form({"trace": "cells.json"}, tmp_path)
    assert lengths.spread
    assert max_model_len_for(lengths, 0.99) == 4272


def test_what_the_page_says_of_the_ladder_and_of_halves_is_so():
    lengths = trace("azure_conv_2023")
    longest, cut = (max_model_len_for(lengths, share) for share in (1, 0.99))
    assert (longest, cut) == (14_096, 4_272)
    assert 1 - cut / longest == pytest.approx(0.70, abs=0.005)
    needs = [inflight_of(lengths, 50, max_model_len=limit).statistical_tokens for limit in (longest, cut)]
    assert 1 - needs[1] / needs[0] == pytest.approx(0.03, abs=0.005)
    assert inflight_of(Lengths((Cell(1, 100, 100),), 200), 1, block_size=1).mean_tokens == pytest.approx(149.5)
