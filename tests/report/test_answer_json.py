from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_answers import ANSWER, FIT, INFEASIBLE, UNPRICED

from recommender.report.json_ import answer_record, answers_record, decimal_text, encode, fit_record

ALL = {"answer": ANSWER, "infeasible": INFEASIBLE, "unpriced": UNPRICED}
KEYS = (
    "schema_version scenario question model concurrency rank as_of status certificate plans cheapest_quality_untouched "
    "cheapest_no_checkpoint_needed cheapest_on_fresh_prices left_out refusals defaults catalog warnings sizing replays "
    "by_hour"
)
PLAN_KEYS = (
    "rank usd_per_hour usd_per_month gpus replicas_total served_concurrency headroom quality_untouched adjustments "
    "offers replicas speed warnings"
)


@pytest.mark.parametrize("name", ALL)
def test_json_is_the_golden_one(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"json_{name}.json", encode(answer_record(ALL[name])))


def test_keys_are_stable() -> None:
    record = json.loads(encode(answer_record(ANSWER)))
    assert " ".join(record) == KEYS
    assert " ".join(record["plans"][0]) == PLAN_KEYS
    offer, replica = record["plans"][0]["offers"][0], record["plans"][0]["replicas"][0]
    assert {"provider", "instance_type", "region", "count", "market", "usd_per_hour", "as_of", "source"} <= set(offer)
    assert {"workload", "offer_index", "gpu", "tp", "weights", "checkpoint", "memory", "speed", "launch"} <= set(
        replica
    )
    assert replica["memory"]["kv_cache_tokens"] == FIT.kv_cache_tokens


def test_money_keeps_its_digits() -> None:
    text = encode(answer_record(ANSWER))
    assert '"usd_per_hour": 4.58,' in text
    assert '"usd_per_month": 3343.4,' in text
    assert '"usd_per_hour": 5.2844,' in text
    assert json.loads(encode(answer_record(UNPRICED)))["plans"][0]["usd_per_hour"] is None


def test_variants_lie_under_their_names() -> None:
    record = answers_record({"": ANSWER, "poor": INFEASIBLE})
    assert record["scenario"] == "sample"
    assert record["variants"]["poor"]["status"] == "infeasible"
    assert "variants" not in answers_record({"": ANSWER})
    assert list(answers_record({"a": ANSWER, "b": ANSWER})) == ["schema_version", "variants"]


def test_fit_has_the_keys_of_its_dataclass() -> None:
    record = json.loads(encode(fit_record(FIT)))
    assert record["total"]["kv_bytes_per_token"] == 163_840
    assert {"memory_bytes", "kv_cache_tokens", "max_concurrency", "starts", "refusal", "sources"} <= set(record)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_encoding_reads_back_as_what_it_was(value: Any) -> None:
    assert json.loads(encode(value)) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=6))
def test_decimals_are_exact_and_plain(amount: Decimal) -> None:
    text = decimal_text(amount)
    assert Decimal(text) == amount
    assert "E" not in text
    assert json.loads(encode(amount)) == float(amount)


def test_dates_are_iso_and_infinity_is_refused() -> None:
    assert encode({"day": date(2026, 10, 1)}) == '{\n  "day": "2026-10-01"\n}\n'
    with pytest.raises(ValueError, match="JSON"):
        encode(float("inf"))
    with pytest.raises(ValueError, match="no JSON form"):
        encode(Decimal("NaN"))
