from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from decimal import Decimal

import pytest
from sample_answers import ANSWER, INFEASIBLE

from recommender.report.csv_ import answers_csv
from recommender.report.json_ import answer_record, encode
from recommender.report.sentence import sentence
from recommender.report.table import answer_page
from recommender.report.words import share_text
from recommender.search.plan import RateSizing, Served, Sizing
from recommender.workload.replica import StepTime

RATE = RateSizing(5.53, 13.825, 2.5, "default", 12.0, False, StepTime(0.02, 0.0001, 0.00005), 165.9)
SIZING = Sizing(
    mode="statistical",
    epsilon=Decimal("0.01"),
    at_risk=True,
    served=(Served(8192, 0.99995, 0.00003, 0.00002),),
    mean_tokens_in_flight=61_646.4,
    statistical_tokens=74_496,
    worst_case_tokens=409_600,
    statistical_micro_usd_per_hour=4_580_000,
    worst_case_micro_usd_per_hour=9_160_000,
    compared=True,
    looked_at=50,
    rate=None,
)
SIZED = replace(ANSWER, sizing=SIZING)


def page(sizing: Sizing) -> str:
    return " ".join(answer_page(replace(ANSWER, sizing=sizing)).split())


def test_the_sentence_says_what_real_lengths_save() -> None:
    assert "; sizing by your real lengths saves $3,343 a month; " in sentence(SIZED)
    worst = replace(SIZED, sizing=replace(SIZING, mode="worst_case"))
    assert "; sizing by your real lengths would save $3,343 a month; " in sentence(worst)
    same = replace(SIZED, sizing=replace(SIZING, worst_case_micro_usd_per_hour=4_580_000))
    assert "; sizing by the worst case would cost the same; " in sentence(same)
    alone = replace(SIZED, sizing=replace(SIZING, compared=False))
    assert sentence(alone) == sentence(ANSWER)


def test_an_optimum_that_only_one_sizing_has_is_no_saving() -> None:
    none = replace(SIZED, sizing=replace(SIZING, worst_case_micro_usd_per_hour=None))
    said = "sized by the worst case no set-up in this search would serve, sized by the real lengths one does"
    assert said in sentence(none)
    assert none.sizing is not None
    assert none.sizing.saved_micro_usd_per_hour is None


def test_the_page_says_whom_it_serves_and_what_is_held() -> None:
    said = page(SIZING)
    assert "of the requests 99.995 % are served whole, 0.003 % are cut, 0.002 % are refused (max-model-len" in said
    whole = replace(SIZING.served[0], served_share=1.0, truncated_share=0.0, refused_share=0.0)
    assert "Lengths: all requests are served whole (max-model-len" in page(replace(SIZING, served=(whole,)))
    assert "hold 61,646 tokens on average, in all but 1 % of each engine's steps at most 74,496; all at full" in said
    assert "costs $3,343 a month sized by the real lengths, $6,687 by the worst case." in said
    assert "(at least 57 fit)" in said
    assert "(up to 57 fit)" in page(replace(SIZING, looked_at=100))


def test_a_rate_says_everything_it_assumes() -> None:
    said = page(replace(SIZING, rate=RATE))
    assert "Rate: 5.53 requests a second on average, 13.82 in the busiest minute (2.5 times: default)." in said
    assert "takes 12 s (at 20 ms a step, 0.1 ms more for each request that decodes and 0.05 ms for each prompt" in said
    assert "assumed, not measured" in said
    assert "165.9 are in flight on average" in said
    stated = page(replace(SIZING, rate=replace(RATE, request_s_stated=True)))
    assert "takes 12 s (as stated)" in stated


def test_json_has_money_and_shares() -> None:
    record = json.loads(encode(answer_record(replace(SIZED, sizing=replace(SIZING, rate=RATE)))))["sizing"]
    assert record["statistical_usd_per_hour"] == 4.58
    assert record["saved_usd_per_month"] == 3343.4
    assert record["served"][0]["served_share"] == 0.99995
    assert record["rate"]["step_time"]["base_s"] == 0.02


def test_csv_has_the_shares_of_each_plan() -> None:
    rows = list(csv.DictReader(io.StringIO(answers_csv({"": SIZED, "x": INFEASIBLE}))))
    assert [row["served_share"] for row in rows] == ["0.99995"] * 3 + [""]
    assert rows[0]["worst_case_usd_per_hour"] == "9.16"
    assert rows[0]["epsilon"] == "0.01"


@pytest.mark.parametrize(
    ("share", "text"), [(1.0, "100 %"), (0.0, "0 %"), (0.999, "99.9 %"), (0.9999999, "99.99999 %"), (1e-7, "1e-05 %")]
)
def test_shares_are_never_rounded_to_nothing(share: float, text: str) -> None:
    assert share_text(share) == text
