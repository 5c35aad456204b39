import pytest
from shipped_traces import trace

from recommender.errors import InputError
from recommender.workload.rate import requests_in_flight
from recommender.workload.replay import replay_arrivals
from recommender.workload.replica import Server, StepTime
from recommender.workload.service import ASSUMED_STEP_TIME, Service
from recommender.workload.traffic import drawn

ENDLESS = Server(blocks=10**7, max_num_seqs=10**5, max_num_batched_tokens=10**6)


@pytest.mark.parametrize(
    ("name", "in_flight", "high"),
    [
        ("azure_conv_2023", 5, 1.05),
        ("azure_conv_2023", 100, 1.08),
        ("azure_code_2023", 5, 1.10),  # 40 % of the time goes to prompts
        ("azure_code_2023", 30, 1.30),  # 75 %
        ("sharegpt_helix", 100, 1.05),
        ("servegen_deepseek_r1", 30, 1.05),
    ],
)
def test_in_flight_is_what_a_replay_of_arrivals_shows_or_a_little_more(name, in_flight, high):
    lengths = trace(name)
    rate = Service.of(lengths, ASSUMED_STEP_TIME).rate_per_s(in_flight)
    requests = drawn(lengths, 200 * in_flight, seed=3, rate_per_s=rate)
    shown = replay_arrivals(requests, ENDLESS, ASSUMED_STEP_TIME, lengths.maximum_tokens).mean_running
    assert 0.97 <= in_flight / shown <= high


def test_rate_and_number_in_flight_are_two_sides_of_one_law():
    service = Service.of(trace("azure_conv_2023"), ASSUMED_STEP_TIME)
    for in_flight in (0.1, 1, 30, 500):
        assert service.in_flight(service.rate_per_s(in_flight)) == pytest.approx(in_flight)
    times = [service.request_s(in_flight) for in_flight in (0, 1, 10, 100)]
    assert times == sorted(times)
    assert requests_in_flight(3.0, service.request_s) == pytest.approx(service.in_flight(3.0), rel=0.01)


def test_a_stated_time_is_taken_as_it_is():
    service = Service.of(trace("azure_conv_2023"), ASSUMED_STEP_TIME, 8.0)
    assert (service.request_s(50), service.in_flight(5), service.rate_per_s(40)) == (8.0, 40, 5)


def test_what_no_engine_keeps_up_with_is_refused():
    service = Service.of(trace("azure_code_2023"), ASSUMED_STEP_TIME)
    with pytest.raises(InputError, match="more than one engine answers"):
        service.in_flight(10)  # 10 x 2,048 tokens a second against 20,000
    slow = Service.of(trace("sharegpt_helix"), StepTime(0.02, 0.01, 0.0))
    with pytest.raises(InputError, match="more than one engine answers"):
        slow.in_flight(1)
