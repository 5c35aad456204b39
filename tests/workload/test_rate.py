from dataclasses import replace

import pytest
from shipped_traces import trace

from recommender.errors import InputError
from recommender.workload.inflight import inflight_of
from recommender.workload.lengths import Arrivals
from recommender.workload.rate import (
    PeakFactor,
    Rate,
    inflight_at_rate,
    mean_output_tokens,
    peak_factor_of,
    poisson_quantile,
    request_seconds,
    requests_in_flight,
)

CONVERSATION = trace("azure_conv_2023")


def test_littles_law_with_a_stated_time():
    assert requests_in_flight(5.53, lambda _: 8.12) == pytest.approx(44.9, abs=0.01)
    assert mean_output_tokens(CONVERSATION) == pytest.approx(211.1, rel=0.001)
    assert request_seconds(211, 0.5, 0.03) == pytest.approx(0.5 + 210 * 0.03)
    assert request_seconds(1, 0.5, 0.03) == 0.5


def test_the_time_may_grow_with_the_number_in_flight():
    in_flight = requests_in_flight(2.0, lambda running: 4.0 + 0.1 * running)
    assert in_flight == pytest.approx(2.0 * 4.0 / (1 - 0.2), rel=0.005)


def test_a_rate_beyond_what_can_be_answered_is_refused():
    with pytest.raises(InputError, match="more than this replica can answer"):
        requests_in_flight(11.0, lambda running: 4.0 + 0.1 * running)


@pytest.mark.parametrize(
    ("mean", "risk", "count"), [(0.0, 0.01, 1), (1.0, 0.05, 3), (50.0, 0.01, 67), (1000.0, 0.01, 1074)]
)
def test_poisson_quantiles(mean, risk, count):
    assert poisson_quantile(mean, risk) == count


HOUR = Arrivals(3500.0, 5.53, ((10, 1.771), (60, 1.521), (300, 1.324)))


@pytest.mark.parametrize(
    ("rate", "arrivals", "value", "why"),
    [
        (Rate(5.0, peak_factor=3.0), HOUR, 3.0, "as stated"),
        (Rate(5.0), None, 2.5, "default"),
        (Rate(5.0), HOUR, 2 * 1.521, "shorter than a day"),
        (Rate(5.0), replace(HOUR, duration_s=90_000.0), 1.521, "busiest 60 s of the log"),
        (Rate(5.0), trace("servegen_deepseek_r1").arrivals, 2.655, "busiest 600 s of the log"),
        (Rate(5.0, hourly=(1.0,) * 12 + (3.0,) * 12), None, 1.5, "busiest hour of the stated profile"),
        (Rate(5.0, hourly=(1.0,) * 12 + (3.0,) * 12), HOUR, 1.5 * 1.521, "x busiest 60 s of the log"),
        (Rate(5.0), Arrivals(20.0, 1.0), 2.5, "default"),
    ],
)
def test_peak_factors_say_where_they_come_from(rate, arrivals, value, why):
    found = peak_factor_of(rate, arrivals)
    assert found.value == pytest.approx(value)
    assert why in found.why


def test_a_peak_of_few_requests_is_called_chance() -> None:
    """A minute of 0.96 requests on average holds six some time, however even the rate is."""
    sparse = Arrivals(duration_s=125_000.0, rate_per_s=0.016, peak_to_mean=((60, 6.25),))
    found = peak_factor_of(Rate(5.0), sparse)
    assert found.value == 6.25
    assert "much of it chance where 0.96 requests come in such a time" in found.why
    assert "chance" not in peak_factor_of(Rate(5.0), replace(sparse, rate_per_s=1.0)).why


def test_a_profile_keeps_its_mean():
    by_hour = Rate(6.0, hourly=(1.0,) * 12 + (3.0,) * 12).by_hour()
    assert by_hour == (3.0,) * 12 + (9.0,) * 12
    assert Rate(6.0).by_hour() == (6.0,)


def test_need_at_a_rate_is_that_of_a_random_number_in_flight():
    found = inflight_at_rate(CONVERSATION, Rate(5.53, peak_factor=1.0), 8.12)
    assert found.peak_factor == PeakFactor(1.0, "as stated")
    assert found.mean_in_flight == pytest.approx(44.9, abs=0.01)
    assert found.max_num_seqs == 61
    fixed = inflight_of(CONVERSATION, 45).statistical_tokens
    assert 1.12 < found.statistical_tokens / fixed < 1.25
    assert found.worst_case_tokens == 61 * 14_096
    assert found.request_s == pytest.approx(8.12)


def test_the_busiest_minute_covers_what_a_real_hour_held():
    """A published hour of conversations held 139,000 tokens at 1 %; its busiest minute as a Poisson number is near."""
    busiest = 5.5304 * 1.521
    found = inflight_at_rate(CONVERSATION, Rate(busiest, peak_factor=1.0), 84.6 / busiest)  # in flight peaked at 84.6
    assert found.statistical_tokens == pytest.approx(139_000, rel=0.04)
