"""Plans scaled to the hours: the fewest instances of each hour, against enumeration, and exact money."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from price_list import ask, cells, price_list, trace

from recommender.answer import recommend
from recommender.errors import InputError
from recommender.report.csv_ import answers_csv
from recommender.report.json_ import answer_record, encode
from recommender.report.lengths import lengths_page
from recommender.report.sentence import sentence
from recommender.report.table import answer_page
from recommender.scenario import OwnCards, Scenario, Search, load_scenario
from recommender.search.by_hour import _fewest, _Kind
from recommender.workload.lengths import Arrivals
from recommender.workload.rate import Rate
from recommender.workload.readers import summarise

CATALOG = price_list("L40S", "H100-SXM")
SINGLE = replace(CATALOG, offers=tuple(each for each in CATALOG.offers if each.gpus == 1))
CONVERSATIONS = trace("azure_conv_2023")
DAY = (1.0,) * 8 + (4.0,) * 10 + (2.0,) * 6
TWO = Search(plans=2)
L40S = Search(plans=2, gpus=("L40S",))


def at_once(requests: int, hourly: tuple[float, ...], search: Search = L40S) -> Scenario:
    asked = ask(CONVERSATIONS, requests, search=search)
    return replace(asked, workload=replace(asked.workload, hourly=hourly))


def test_each_hour_holds_the_fewest_replicas_that_carry_it() -> None:
    answer = recommend(at_once(2000, DAY), SINGLE)
    (group,) = answer.plans[0].replicas
    assert answer.by_hour
    first = answer.by_hour.plans[0]
    assert [level.hours for level in first.levels] == [tuple(range(8, 18)), tuple(range(18, 24)), tuple(range(8))]
    for level, requests in zip(first.levels, (2000, 1000, 500), strict=True):
        assert level.replicas == -(-requests // group.concurrency)
        assert level.share == requests / 2000
    hourly = answer.plans[0].micro_usd_per_hour or 0
    assert first.levels[0].micro_usd_per_hour == hourly
    assert first.always_on_micro_usd == 24 * hourly
    each = Fraction(hourly, group.count)
    assert first.micro_usd == sum(len(level.hours) * level.replicas * each for level in first.levels)
    assert answer.by_hour.source == "as stated"


def test_a_flat_profile_saves_nothing_and_no_profile_says_nothing() -> None:
    flat = recommend(at_once(300, (3.0,) * 24), CATALOG)
    assert flat.by_hour
    assert all(each.micro_usd == each.always_on_micro_usd for each in flat.by_hour.plans)
    assert "following your hours would save nothing" in sentence(flat)
    none = recommend(at_once(300, ()), CATALOG)
    assert none.by_hour is None
    assert "autoscaler" not in sentence(none)
    assert none.plans == flat.plans


def test_the_profile_of_a_rate_scales_what_its_busiest_minute_was_sized_for() -> None:
    rate = Rate(80.0, peak_factor=2.0, hourly=DAY)
    answer = recommend(ask(CONVERSATIONS, None, rate=rate, search=L40S), SINGLE)
    assert answer.by_hour
    (group,) = answer.plans[0].replicas
    first = answer.by_hour.plans[0]
    for level, peak in zip(first.levels, (160.0, 80.0, 40.0), strict=True):
        carried = (level.replicas * (group.rate_per_s or 0.0), (level.replicas - 1) * (group.rate_per_s or 0.0))
        assert carried[1] < peak <= carried[0] * 1.001
    assert "20 requests a second" in first.levels[2].asked


def test_hours_without_requests_need_nothing() -> None:
    answer = recommend(at_once(100, (0.0,) * 23 + (1.0,)), CATALOG)
    assert answer.by_hour
    first = answer.by_hour.plans[0]
    assert [level.instances for level in first.levels] == [(answer.plans[0].offers[0].count,), (0,)]
    assert first.micro_usd * 24 == first.always_on_micro_usd


def test_own_cards_are_paid_for_in_every_hour_and_unpriced_ones_have_no_cost() -> None:
    own = replace(at_once(400, DAY, TWO), hardware=(OwnCards("L40S", 1, 8, Decimal("0.5")),))
    answer = recommend(own, CATALOG)
    assert answer.by_hour
    assert answer.by_hour.plans[0].micro_usd == answer.by_hour.plans[0].always_on_micro_usd
    unpriced = recommend(replace(own, hardware=(OwnCards("L40S", 1, 8),)), CATALOG)
    assert unpriced.by_hour is None


def test_it_is_told_in_table_json_csv_and_sentence() -> None:
    answer = recommend(at_once(2000, DAY), SINGLE)
    assert answer.by_hour
    first = answer.by_hour.plans[0]
    page = " ".join(answer_page(answer).split())
    assert "By the hour (24 hours of a day, as stated)" in page
    assert "8-17 100 %" in page
    record = json.loads(encode(answer_record(answer)), parse_float=Decimal)["by_hour"]
    assert record["plans"][0]["scaled_usd"] * 10**6 == first.micro_usd
    month = Decimal(first.micro_usd) * 730 / 24 / 10**6
    assert abs(record["plans"][0]["scaled_usd_per_month"] - month) <= Decimal("0.000001")
    assert f"would pay ${month:,.0f} a month" in sentence(answer)
    assert answers_csv({"": answer}).splitlines()[0].endswith("scaled_usd_per_month")


def test_a_minimum_purchase_is_kept_or_given_up_whole() -> None:
    four = tuple(replace(each, minimum_instances=4) for each in CATALOG.offers if each.gpus == 1)
    answer = recommend(at_once(2000, DAY), replace(CATALOG, offers=four))
    assert answer.by_hour
    assert all(count == 0 or count >= 4 for level in answer.by_hour.plans[0].levels for count in level.instances)


KINDS = st.lists(
    st.builds(
        _Kind,
        count=st.integers(1, 6),
        micro_usd_per_hour=st.integers(1, 50),
        carried=st.integers(1, 60),
        replicas=st.integers(1, 6),
        least=st.integers(1, 2),
        elastic=st.booleans(),
    ).map(lambda kind: replace(kind, least=min(kind.least, kind.count))),
    min_size=1,
    max_size=3,
)


@given(KINDS, st.integers(0, 100))
def test_the_fewest_are_those_of_an_enumeration(kinds: list[_Kind], units: int) -> None:
    def cost(counts: tuple[int, ...]) -> int:
        return sum(kind.micro_usd_per_hour * count for kind, count in zip(kinds, counts, strict=True))

    able = [
        counts
        for counts in product(*(kind.choices for kind in kinds))
        if sum(kind.carries(count) for kind, count in zip(kinds, counts, strict=True)) >= units
    ]
    found = _fewest(kinds, units)
    if able:
        assert cost(found) == min(map(cost, able))
        assert found in able
    else:
        assert found == tuple(kind.count for kind in kinds)


def hours_of(tmp_path: Path, rows: list[str]) -> Arrivals | None:
    log = tmp_path / "log.csv"
    log.write_text("timestamp,prompt_tokens,completion_tokens\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return summarise(log, cache=False).arrivals


def test_a_log_of_days_has_a_profile_of_its_own(tmp_path: Path) -> None:
    """Two days from Monday 2026-10-05 at noon: 6 requests an hour, 18 from 8 to 10 o'clock."""
    rows = [
        f"2026-10-{5 + (12 + hour) // 24:02}T{(12 + hour) % 24:02}:{minute:02}:00Z,100,10"
        for hour in range(48)
        for minute in range(0, 60, 10 if (12 + hour) % 24 not in (8, 9) else 3)
        if minute < 60
    ]
    arrivals = hours_of(tmp_path, [*rows, "2026-10-07T12:00:00Z,100,10"])
    assert arrivals
    assert len(arrivals.hourly) == 24
    quiet, busy = arrivals.hourly[0], arrivals.hourly[8]
    assert busy / quiet == pytest.approx(20 / 6, rel=0.01)
    assert sum(arrivals.hourly) == pytest.approx(24, rel=1e-3)
    page = " ".join(lengths_page(summarise(tmp_path / "log.csv", cache=False), None).split())
    assert f"; by the hour of the day {quiet:.2f} (hour 0) to {busy:.2f} (hour 8) times that." in page


def test_a_week_begins_on_monday_and_less_than_a_day_has_no_profile(tmp_path: Path) -> None:
    start = 1_791_158_400  # 2026-10-05, a Monday
    week = [f"{start + 1800 * half},100,10" for half in range(2 * 169) if half % 48 != 0 or half == 0]
    arrivals = hours_of(tmp_path, week)
    assert arrivals
    assert len(arrivals.hourly) == 168
    assert arrivals.hourly[24] == pytest.approx(arrivals.hourly[30] / 2, rel=0.01)
    short = hours_of(tmp_path, week[:40])
    assert short
    assert short.hourly == ()


def test_a_profile_survives_the_cell_file_and_reaches_the_answer(tmp_path: Path) -> None:
    rows = [f"{1_791_158_400 + 600 * step},100,10" for step in range(300) if (step // 72) % 2 == 0 or step % 6 == 0]
    log = tmp_path / "log.csv"
    log.write_text("timestamp,prompt_tokens,completion_tokens\n" + "\n".join(rows) + "\n", encoding="utf-8")
    summary = summarise(log, cache=False)
    lengths = summary.lengths()
    assert lengths.arrivals == summary.arrivals
    assert type(summary).from_document(summary.document()).arrivals == summary.arrivals
    assert lengths.arrivals
    assert lengths.arrivals.hourly
    answer = recommend(ask(lengths, 4000, search=L40S), CATALOG)
    assert answer.by_hour
    assert answer.by_hour.source == "the log's own arrivals"


def scenario(tmp_path: Path, work: str) -> Scenario:
    path = tmp_path / "asked.yaml"
    path.write_text(f"model: llama-3.1-8b\nworkload: {work}\n", encoding="utf-8")
    return load_scenario(path)


def test_a_scenario_states_its_hours(tmp_path: Path) -> None:
    hours = list(range(1, 25))
    read = scenario(tmp_path, f"{{concurrency: 48, hourly: {hours}, lengths: {{fixed: 4K}}}}")
    assert read.workload.hourly == tuple(map(float, hours))
    answer = recommend(replace(read, search=L40S), CATALOG)
    assert answer.by_hour
    assert answer.by_hour.plans[0].levels[0].share == 1.0


@pytest.mark.parametrize(
    "hourly", ["[1, 2, 3]", "[" + ", ".join(["0"] * 24) + "]", "[-1" + ", 1" * 23 + "]", "24", "{}"]
)
def test_a_broken_profile_is_named(tmp_path: Path, hourly: str) -> None:
    with pytest.raises(InputError, match="24 or 168 numbers from 0"):
        scenario(tmp_path, f"{{concurrency: 48, hourly: {hourly}, lengths: {{fixed: 4K}}}}")
    with pytest.raises(InputError, match="24 or 168 numbers from 0"):
        scenario(tmp_path, f"{{rate_per_s: {{value: 48, hourly: {hourly}}}, lengths: {{preset: azure_conv_2023}}}}")


def test_hours_of_a_rate_stand_in_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="stands beside rate_per_s, not in it"):
        scenario(tmp_path, f"{{rate_per_s: 48, hourly: {[1] * 24}, lengths: {{preset: azure_conv_2023}}}}")


def test_a_plan_of_unequal_replicas_is_scaled_too() -> None:
    answer = recommend(
        replace(
            at_once(700, DAY, Search(plans=6)), workload=replace(ask(cells((1, 900, 90)), 700).workload, hourly=DAY)
        ),
        price_list("L40S", "A100-80GB-SXM", "H100-SXM"),
    )
    assert answer.by_hour
    for scaled in answer.by_hour.plans:
        costs = [level.micro_usd_per_hour for level in scaled.levels]
        assert costs == sorted(costs, reverse=True)
        assert scaled.micro_usd <= scaled.always_on_micro_usd
    assert answer.by_hour.cheapest.micro_usd == min(each.micro_usd for each in answer.by_hour.plans)


def test_thousands_of_instances_are_scaled_at_once() -> None:
    """5,000 requests a second of a million seconds each took a minute and 4 GB, one count after the other."""
    alone = _Kind(count=10**8, micro_usd_per_hour=3, carried=7 * 10**8, replicas=10**8, least=1, elastic=True)
    assert _fewest([alone], 10**8 + 1) == (14_285_715,)
    dearer = replace(alone, count=10**7, micro_usd_per_hour=30, carried=7 * 10**7)
    assert _fewest([alone, dearer], 10**8) == (14_285_715, 0)
