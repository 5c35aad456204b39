from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass

from sample_answers import ANSWER, INFEASIBLE

from recommender.report.csv_ import answers_csv, flat_csv


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    golden("csv_answers.csv", answers_csv({"": ANSWER, "poor": INFEASIBLE}))


def test_one_row_a_plan_and_one_for_a_scenario_without() -> None:
    rows = _rows(answers_csv({"": ANSWER, "poor": INFEASIBLE}))
    assert [row["rank"] for row in rows] == ["1", "2", "3", ""]
    assert rows[-1]["status"] == "infeasible"


def test_a_mix_joins_its_parts_and_unknown_stays_empty() -> None:
    mix = _rows(answers_csv({"": ANSWER}))[2]
    assert mix["instance_types"] == "n3-H100x2 + l40s"
    assert mix["counts"] == "1 + 3"
    assert mix["usd_per_hour"] == "5.2844"
    assert mix["output_tokens_per_s_upper_bound"] == "93.0 + "


@dataclass(frozen=True)
class _Inner:
    size: int


@dataclass(frozen=True)
class _Outer:
    name: str
    inner: _Inner
    notes: tuple[str, ...]
    known: bool | None


def test_nested_records_get_dotted_heads() -> None:
    text = flat_csv([_Outer("a", _Inner(1), ("x", "y"), True), _Outer("b", _Inner(2), (), None)])
    assert text == "name,inner.size,notes,known\na,1,x; y,true\nb,2,,\n"
