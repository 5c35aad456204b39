from __future__ import annotations

from dataclasses import replace

from sample_answers import ANSWER, CHEAPEST, INFEASIBLE, UNPRICED, UNTOUCHED

from recommender.report.sentence import sentence


def test_answer_alternative_and_what_was_left_out_in_one_sentence() -> None:
    said = sentence(ANSWER)
    assert said == (
        "The cheapest set-up is 2 H100-SXM (1 x hyperstack n3-H100x2 in CANADA-1), 1 replica of tp 2, fp8 weights and "
        "fp8 KV cache for $4.58 an hour ($3,343 a month); with quality untouched it is 4 H100-SXM (1 x hyperstack "
        "n3-H100x4 in CANADA-1), $3,343 more a month; left out by default, and cheaper: spot prices (from $2.10 an "
        "hour); left out by default, and no cheaper: marketplace offers."
    )


def test_nothing_is_called_cheapest_without_a_proof() -> None:
    said = sentence(replace(ANSWER, status="feasible"))
    assert "The cheapest" not in said
    assert said.startswith("The best set-up found, not proven cheapest, is")


def test_quality_first_says_so() -> None:
    said = sentence(replace(ANSWER, rank="quality_first", plans=(UNTOUCHED,)))
    assert said.startswith("With quality first, the cheapest set-up is 4 H100-SXM")
    assert "weights and KV cache stay as published" in said


def test_own_cards_have_no_price() -> None:
    said = sentence(UNPRICED)
    assert said.startswith("On your own cards, the set-up that adjusts least is 6 RTXA6000")
    assert "an hour (" not in said


def test_no_untouched_set_up_is_said() -> None:
    said = sentence(replace(ANSWER, plans=(CHEAPEST,), cheapest_quality_untouched=None))
    assert "no set-up in this search leaves weights and KV cache untouched" in said


def test_infeasible_names_the_nearest_change() -> None:
    assert sentence(INFEASIBLE) == (
        "No set-up in this search serves that; the nearest change that would do: limits.usd_per_month: 3,344 or more."
    )


def test_unknown_is_not_called_infeasible() -> None:
    assert "none was ruled out" in sentence(replace(INFEASIBLE, status="unknown"))
