from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from sample_answers import FIT

from recommender.report.json_ import encode
from recommender.report.ladder import ladder_page, ladder_record
from recommender.search.ladder import Ladder, Step
from recommender.search.rung_one import LengthRung

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
    short="50 requests at once",
    cost="nothing",
    micro_usd_per_hour=4_580_000,
    memory=FIT,
)
LENGTH = replace(
    BASE,
    rung=1,
    name="max_model_len",
    change="131072 -> 8192",
    max_model_len=8192,
    requests=3,
    short="47 requests at once",
)
MORE = replace(LENGTH, rung=4, name="gpus", change="tp 2 -> 4", tp=4, gpus=4, requests=54, feasible=True, cost="money")
RUNG = LengthRung(131_072, 8192, False, None, 50, (6_553_600, 409_600), None)
LADDER = Ladder(
    "sample",
    "meta-llama/Llama-3.1-70B-Instruct",
    "H100-SXM",
    "50 requests at once",
    50,
    (BASE, LENGTH, MORE),
    RUNG,
)


def test_page_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    golden("table_ladder.txt", ladder_page(LADDER))


def test_each_rung_says_whether_it_serves() -> None:
    page = ladder_page(LADDER)
    assert "50 short" in page
    assert "47 short" in page
    assert "The first that serves 50 requests at once: rung 4 (gpus tp 2 -> 4) on 4 GPUs." in page
    assert "No rung serves" in ladder_page(replace(LADDER, steps=(BASE, LENGTH)))


def test_the_first_rung_says_what_it_saves_under_either_sizing() -> None:
    assert "not even at that do all fit here. In the worst case it frees 94 % (6,553,600 -> 409,600" in _flat(LADDER)
    real = replace(RUNG, holds=True, holds_up_to=9_488, statistical_tokens=(131_072, 120_000))
    said = _flat(replace(LADDER, length_rung=real))
    assert "8,192 is the least that serves the promised share; up to 9,488 all would still fit here." in said
    assert "of what 50 requests in flight really need, 8 % (131,072 -> 120,000 tokens)." in said


def _flat(ladder: Ladder) -> str:
    return " ".join(ladder_page(ladder).split())


def test_json_has_exact_money() -> None:
    text = encode(ladder_record(LADDER))
    assert '"usd_per_hour": 4.58,' in text
    assert [step["rung"] for step in json.loads(text)["steps"]] == [0, 1, 4]
