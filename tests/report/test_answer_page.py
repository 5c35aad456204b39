from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from sample_answers import ANSWER, CHEAPEST, INFEASIBLE, MIX, UNPRICED

from recommender.report.table import answer_page, answers_page, plan_lines, proof
from recommender.search.plan import Recommendation, Refusal

ALL = {"answer": ANSWER, "infeasible": INFEASIBLE, "unpriced": UNPRICED}


@pytest.mark.parametrize("name", ALL)
def test_page_is_the_golden_one(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"table_{name}.txt", answer_page(ALL[name]))


@pytest.mark.parametrize("answer", ALL.values(), ids=ALL)
def test_no_line_is_wider_than_100_columns(answer: Recommendation) -> None:
    assert [line for line in answer_page(answer).splitlines() if len(line) > 100] == []


def test_expensive_fleets_fit_the_page_too() -> None:
    dear = replace(CHEAPEST, micro_usd_per_hour=99_999 * 10**6, gpus=100_000)
    assert max(map(len, plan_lines([dear, MIX]))) <= 100


def test_a_mix_has_a_line_for_each_kind_of_replica_and_names_idle_cards() -> None:
    lines = plan_lines([MIX])
    assert "5.2844" in lines[2]
    assert "L40S" in lines[3]
    assert "?" in lines[3], "an unknown speed bound is shown as unknown"
    assert "1 GPU idle" in " ".join(" ".join(lines).split())


def test_the_proof_says_the_bound_or_that_there_is_none() -> None:
    assert proof(ANSWER).startswith("OPTIMAL (no set-up costs less than $4.58 an hour)")
    assert proof(INFEASIBLE).startswith("INFEASIBLE: 12,345 candidates")


def test_gpus_refused_for_the_same_reason_share_a_line() -> None:
    names = ("L4", "A10", "T4")
    refusals = tuple(
        Refusal(name, "memory", f"{name}: too small" if name == "A10" else "too small", None) for name in names
    )
    assert "- L4, A10, T4: too small" in answer_page(replace(INFEASIBLE, refusals=refusals))


def test_variants_stand_side_by_side_before_each_in_full() -> None:
    page = answers_page({"": ANSWER, "poor": INFEASIBLE})
    overview, *_ = page.split("\n\n")
    assert "as written" in overview
    assert "infeasible" in overview
    assert page.index("== as written ==") < page.index("== poor ==")


def test_a_single_answer_has_no_heading() -> None:
    assert answers_page({"": ANSWER}) == answer_page(ANSWER)


def test_pages_carry_no_colour_codes_and_only_plain_characters() -> None:
    assert answer_page(ANSWER).isascii()
    assert "\x1b" not in answer_page(ANSWER)


def test_a_plan_that_holds_no_cheaper_load_says_its_cost_once() -> None:
    speed = CHEAPEST.speed
    assert speed is not None
    full = replace(CHEAPEST, speed=replace(speed, full_cost=speed.cost))
    said = " ".join(answer_page(replace(ANSWER, plans=(full,))).split())
    assert "A million tokens cost $0.1061 on rank 1 at this load (" in said
    assert "spend on each). The hosted API" in said


def test_more_requests_at_once_are_not_called_the_nearest_change() -> None:
    more = Refusal(None, "concurrency", "2 requests at once cannot reach the total", "workload.concurrency: 2 -> 512")
    said = " ".join(answer_page(replace(INFEASIBLE, refusals=(more, *INFEASIBLE.refusals))).split())
    assert "serves that; more requests at once would do: workload.concurrency: 2 -> 512." in said
