from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from sample_answers import FIT

from recommender.report.json_ import encode
from recommender.report.ladder import ladder_page, ladder_record
from recommender.search.ladder import Ladder, Step

BASE = Step(
    rung=0,
    name="as it is",
    change="",
    tp=2,
    replicas=1,
    gpus=2,
    weights="bf16",
    kv_dtype="auto",
    max_model_len=131_072,
    kv_cache_tokens=28_864,
    requests=0,
    feasible=False,
    cost="nothing",
    micro_usd_per_hour=4_580_000,
    memory=FIT,
)
LENGTH = replace(BASE, rung=1, name="max_model_len", change="131072 -> 8192", max_model_len=8192, requests=3)
MORE = replace(LENGTH, rung=4, name="gpus", change="tp 2 -> 4", tp=4, gpus=4, requests=54, feasible=True, cost="money")
LADDER = Ladder("sample", "meta-llama/Llama-3.1-70B-Instruct", "H100-SXM", 50, (BASE, LENGTH, MORE))


def test_page_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    golden("table_ladder.txt", ladder_page(LADDER))


def test_each_rung_says_whether_it_serves() -> None:
    page = ladder_page(LADDER)
    assert "50 short" in page
    assert "47 short" in page
    assert "The first that serves all 50: rung 4 (gpus tp 2 -> 4) on 4 GPUs." in page
    assert "No rung serves" in ladder_page(replace(LADDER, steps=(BASE, LENGTH)))


def test_json_has_exact_money() -> None:
    text = encode(ladder_record(LADDER))
    assert '"usd_per_hour": 4.58,' in text
    assert [step["rung"] for step in json.loads(text)["steps"]] == [0, 1, 4]
