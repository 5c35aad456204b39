"""Plans replayed: which requests they get, that they stand, and that a crowded one is rejected by name."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from price_list import ask, price_list, trace

from recommender.answer import recommend
from recommender.report.sentence import sentence
from recommender.report.table import answer_page
from recommender.scenario import LogFile, OwnCards, Search
from recommender.workload.rate import Rate
from recommender.workload.source import lengths_of

CATALOG = price_list("L40S", "H100-SXM")
CONVERSATIONS = trace("azure_conv_2023")
TWO = Search(plans=2)


@pytest.fixture(autouse=True)
def _cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_best_plan_and_the_runner_up_are_replayed_and_stand() -> None:
    told: list[tuple[int, int]] = []
    asked = ask(CONVERSATIONS, 120, sizing="trace_replay", search=Search(plans=3))
    answer = recommend(asked, CATALOG, lambda done, whole: told.append((done, whole)))
    assert {each.rank for each in answer.replays} == {1, 2}
    for each in answer.replays:
        group = answer.plans[each.rank - 1].replicas[each.replica]
        assert each.accepted
        assert each.result
        assert each.result.requests == max(1000, 20 * group.max_num_seqs)
        assert each.result.peak_kv_tokens <= each.kv_tokens <= group.memory.blocks * 16
        assert each.result.ttft.p50_s <= each.result.latency.p50_s
    assert told[-1][0] == told[-1][1]
    assert recommend(asked, CATALOG).replays == answer.replays
    statistical = recommend(replace(asked, sizing="statistical"), CATALOG)
    assert statistical.replays == ()
    assert statistical.plans == answer.plans
    assert "it stands. 120 clients" in " ".join(answer_page(answer).split())


def test_a_crowded_plan_is_rejected_with_the_reason() -> None:
    """Filled to the brim at a risk of one half, the cache overflows in half of the steps."""
    own = ask(CONVERSATIONS, 120, epsilon=Decimal("0.5"), memory_margin="expected", hardware=(OwnCards("L40S", 1, 1),))
    brim = recommend(own, CATALOG).plans[0].replicas[0].capacity
    full = replace(own, sizing="trace_replay", workload=replace(own.workload, concurrency=brim))
    answer = recommend(full, CATALOG)
    rejected = [each for each in answer.replays if each.accepted is False]
    assert rejected
    assert rejected[0].reason
    assert "preemptions a request, more than 0.01" in rejected[0].reason
    assert rejected[0].rank == 1
    assert "; but a replay rejects it: " in sentence(answer)
    assert "REJECTED" in answer_page(answer)
    assert answer.plans


def test_at_a_rate_requests_arrive_at_random() -> None:
    asked = ask(CONVERSATIONS, None, sizing="trace_replay", rate=Rate(5.0, peak_factor=1.0), search=TWO)
    answer = recommend(asked, CATALOG)
    first = answer.replays[0]
    (group,) = answer.plans[0].replicas
    assert first.how.startswith(f"random arrivals at {group.rate_per_s:.4g} a second")
    assert first.result
    assert answer.sizing
    assert answer.sizing.rate
    expected = answer.sizing.rate.mean_in_flight / group.count
    assert first.result.mean_running == pytest.approx(expected, rel=0.15)


def test_a_logs_own_arrivals_are_replayed_at_the_busiest_minutes_rate(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = [f"{1_700_000_000 + 0.5 * row},{200 + row % 700},{20 + row % 50}" for row in range(4000)]
    log.write_text("timestamp,prompt_tokens,completion_tokens\n" + "\n".join(rows) + "\n", encoding="utf-8")
    lengths = lengths_of(log)
    asked = ask(lengths, None, sizing="trace_replay", rate=Rate(10.0, peak_factor=1.0), log=LogFile(log), search=TWO)
    first = recommend(asked, CATALOG).replays[0]
    assert first.how.startswith("the log's arrivals, their busiest minute at")
    assert first.result
    (group,) = recommend(asked, CATALOG).plans[0].replicas
    assert first.result.requests == pytest.approx(4000 / group.count, rel=0.1)


def test_layers_that_keep_windows_are_not_replayed() -> None:
    asked = ask(CONVERSATIONS, 50, "google/gemma-3-27b-it", sizing="trace_replay", search=TWO)
    answer = recommend(asked, CATALOG)
    assert {each.result for each in answer.replays} == {None}
    assert all("does not model" in (each.reason or "") for each in answer.replays)
    assert "not replayed: its layers keep windows" in " ".join(answer_page(answer).split())
