import numpy as np
import pytest
from shipped_traces import rows, trace

from recommender.errors import InputError
from recommender.workload import approximations
from recommender.workload.inflight import block_law, inflight_of, sum_of
from recommender.workload.law import token_law
from recommender.workload.lengths import Cell, Lengths, asking, max_model_len_for, served_share

QUANTILES = rows("in_flight_quantiles.csv")
MOMENTS = rows("in_flight_moments.csv")
ERRORS = rows("approximation_errors.csv")
TRACES = sorted({row["trace"] for row in QUANTILES})
TWO = Lengths((Cell(1, 10, 1), Cell(1, 20, 3)), maximum_tokens=23)
CUTS = {  # trace: (max_model_len, tokens of 50 requests at 1 %, computed request by request)
    "azure_conv_2023": (8192, 74_624),
    "azure_code_2023": (8192, 140_752),
    "mooncake_conversation": (8192, 216_864),
    "servegen_deepseek_r1": (8192, 138_112),
    "servegen_m_large": (8192, 85_872),
    "sharegpt_helix": (2048, 15_088),
}
SERVED = {  # trace: shares served at 4096, 8192 and 32768, computed request by request
    "azure_conv_2023": (0.9168, 0.99995, 1),
    "azure_code_2023": (0.8575, 1, 1),
    "mooncake_conversation": (0.3219, 0.5370, 0.9297),
    "servegen_deepseek_r1": (0.8371, 0.9248, 0.9975),
    "servegen_m_large": (0.9838, 0.9949, 1),
    "sharegpt_helix": (1, 1, 1),
}
STATED = {  # trace: the 99 %, 99.9 % and 100 % quantiles of prompt + output
    "azure_conv_2023": (4259, 6345, 14089),
    "azure_code_2023": (7462, 7568, 7841),
    "mooncake_conversation": (85858, 121912, 126527),
    "servegen_deepseek_r1": (25112, 35619, 60326),
    "servegen_m_large": (5611, 12771, 29775),
    "sharegpt_helix": (1028, 1371, 1665),
}


def rounded_up(tokens):
    return -(-tokens // 16) * 16


def test_two_requests_by_hand():
    law = token_law(TWO)
    assert {tokens: share for tokens, share in enumerate(law.pmf) if share} == {10: 0.25, 20: 0.25, 21: 0.25, 22: 0.25}
    assert (law.mean, law.variance) == (18.25, 23.1875)
    assert inflight_of(TWO, 2, 0.1, block_size=1).statistical_tokens == 43
    assert inflight_of(TWO, 2, 0.2, block_size=1).statistical_tokens == 42


def test_one_length_by_hand():
    lengths = Lengths((Cell(1, 100, 4),), maximum_tokens=104)
    law = token_law(lengths)
    assert (law.mean, law.variance) == (pytest.approx(101.5), pytest.approx(1.25))
    assert list(block_law(lengths, 104, 16).pmf.round(12)) == [0, 0, 0, 0, 0, 0, 0, 1]
    assert inflight_of(lengths, 3).statistical_tokens == 3 * 7 * 16


@pytest.mark.parametrize("name", TRACES)
def test_every_reference_quantile_of_the_cells_within_two_per_mille(name):
    for row in (row for row in QUANTILES if row["trace"] == name):
        found = inflight_of(trace(name), int(row["requests"]), float(row["risk"])).statistical_tokens
        assert found == pytest.approx(int(row["tokens_from_cells"]), rel=0.002)


@pytest.mark.parametrize("name", TRACES)
def test_cells_stand_for_the_requests_within_one_and_a_half_percent(name):
    bound = 0.025 if name == "alpaca_helix" else 0.015
    for row in (row for row in QUANTILES if row["trace"] == name):
        found = inflight_of(trace(name), int(row["requests"]), float(row["risk"])).statistical_tokens
        assert found == pytest.approx(int(row["tokens_from_requests"]), rel=bound)


@pytest.mark.parametrize("row", MOMENTS, ids=lambda row: row["trace"])
def test_moments_of_the_cells(row):
    found = inflight_of(trace(row["trace"]), 1)
    assert found.mean_tokens == pytest.approx(float(row["mean_tokens"]), rel=1e-9)
    assert found.deviation_tokens == pytest.approx(float(row["deviation_tokens"]), rel=1e-9)
    assert found.skew == pytest.approx(float(row["skew"]), rel=1e-9)


@pytest.mark.parametrize("name", sorted(CUTS))
def test_max_model_len_cuts_the_need_as_it_cuts_the_requests(name):
    limit, tokens = CUTS[name]
    found = inflight_of(trace(name), 50, max_model_len=limit)
    assert found.statistical_tokens == pytest.approx(tokens, rel=0.015)
    assert found.served_share + found.truncated_share + found.refused_share == pytest.approx(1)


def test_prompts_beyond_max_model_len_are_counted_as_refused():
    assert inflight_of(trace("mooncake_conversation"), 50, max_model_len=8192).refused_share == pytest.approx(
        0.45, abs=0.01
    )


@pytest.mark.parametrize("name", sorted(SERVED))
def test_served_shares_within_one_and_a_half_percent(name):
    for limit, share in zip((4096, 8192, 32768), SERVED[name], strict=True):
        assert served_share(trace(name), limit) == pytest.approx(share, rel=0.015)


@pytest.mark.parametrize("name", sorted(STATED))
def test_max_model_len_is_exact_at_stated_quantiles(name):
    found = [max_model_len_for(trace(name), share, 16) for share in (0.99, 0.999, 1)]
    assert found == [rounded_up(tokens) for tokens in STATED[name]]


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: f"{row['trace']}-{row['requests']}-{row['risk']}")
def test_approximations_err_as_they_do_on_the_requests(row):
    lengths, requests, risk = trace(row["trace"]), int(row["requests"]), float(row["risk"])
    law = block_law(lengths, lengths.maximum_tokens, 16)
    sums = sum_of(lengths, lengths.maximum_tokens, 16, risk)
    exact = sums.quantile(requests)
    tolerance = 0.8 if requests == 10 else 0.2  # percent
    for name in ("normal", "cornish_fisher", "saddlepoint", "chernoff"):
        error = 100 * (getattr(approximations, name)(law, requests, risk) / exact - 1)
        assert error == pytest.approx(float(row[name]), abs=tolerance)
    poisson = 100 * (sums.poisson_quantile(requests) / exact - 1)
    assert poisson == pytest.approx(float(row["poisson"]), abs=2 * tolerance + 0.1)


def test_the_chernoff_bound_is_never_below_the_quantile():
    for row in ERRORS:
        law = block_law(trace(row["trace"]), trace(row["trace"]).maximum_tokens, 16)
        requests, risk = int(row["requests"]), float(row["risk"])
        exact = sum_of(trace(row["trace"]), trace(row["trace"]).maximum_tokens, 16, risk).quantile(requests)
        assert approximations.chernoff(law, requests, risk) >= exact


def steps_of(lengths, random, requests):
    """Tokens held in every step of `requests` random requests, one after another, in blocks of 16."""
    weights = np.array([cell.weight for cell in lengths.cells])
    chosen = random.choice(len(weights), requests, p=weights / weights.sum())
    prompt = np.array([cell.input_tokens for cell in lengths.cells], dtype=np.int64)[chosen]
    output = np.array([cell.output_tokens for cell in lengths.cells], dtype=np.int64)[chosen]
    starts = np.repeat(np.cumsum(output) - output, output)
    tokens = np.repeat(prompt, output) + np.arange(output.sum()) - starts
    return -(-tokens // 16)


@pytest.mark.parametrize("name", ["sharegpt_helix", "azure_code_2023", "mooncake_conversation"])
@pytest.mark.parametrize("requests", [10, 50, 200])
def test_quantiles_against_brute_force(name, requests):
    random = np.random.default_rng(7)
    steps = steps_of(trace(name), random, 20_000)
    samples = 60_000
    held = sum(steps[random.integers(0, len(steps), samples)] for _ in range(requests))
    for risk in (0.05, 0.01, 0.001):
        found = inflight_of(trace(name), requests, risk).statistical_tokens // 16
        exceeded = np.count_nonzero(held > found) / samples
        noise = 4 * (risk / samples) ** 0.5
        assert exceeded == pytest.approx(risk, abs=noise + 0.05 * risk)


def test_a_closed_loop_of_clients_holds_what_the_law_says():
    random = np.random.default_rng(3)
    lengths, clients, steps = trace("sharegpt_helix"), 50, 40_000
    total = np.zeros(steps, dtype=np.int64)
    for _ in range(clients):
        held = steps_of(lengths, random, 400)
        start = random.integers(5_000, 20_000)
        total += held[start : start + steps]
    found = inflight_of(lengths, clients)
    assert total.mean() * 16 == pytest.approx(found.total_mean_tokens, rel=0.02)
    assert np.quantile(total, 0.99) * 16 == pytest.approx(found.statistical_tokens, rel=0.03)


def test_pools_that_are_split_need_more():
    """200 conversations in one pool, and in four: 10 % more, each sized for its own fifty."""
    one, each = (inflight_of(trace("azure_conv_2023"), requests).statistical_tokens for requests in (200, 50))
    assert 4 * each / one - 1 == pytest.approx(0.10, abs=0.005)


def test_statistical_sizing_is_a_small_part_of_the_worst_case_on_real_traces():
    shares = {}
    for name in TRACES:
        found = inflight_of(trace(name), 50)
        shares[name] = found.statistical_tokens / found.worst_case_tokens
    assert 0.06 < min(shares[name] for name in STATED) < 0.08
    assert max(shares[name] for name in STATED) == shares["azure_code_2023"] == pytest.approx(0.359, abs=0.003)


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 1, "epsilon": 0}, "epsilon"),
        ({"concurrency": 1, "epsilon": 1}, "epsilon"),
        ({"concurrency": 1, "epsilon": float("nan")}, "epsilon"),
        ({"concurrency": 1, "max_model_len": 1}, "max_model_len"),
        ({"concurrency": 1, "block_size": 0}, "block_size"),
    ],
)
def test_what_cannot_be_is_refused(arguments, key):
    with pytest.raises(InputError, match=key):
        inflight_of(TWO, **arguments)


def test_a_fixed_total_has_no_statistics():
    with pytest.raises(InputError, match="how much of it is prompt"):
        inflight_of(Lengths((Cell(1, 8192, 0),), 8192, total_only=True), 50)


def test_a_max_model_len_that_serves_nothing_is_refused():
    with pytest.raises(InputError, match="no request is shorter"):
        inflight_of(TWO, 1, max_model_len=8)


def test_requests_that_ask_for_more_than_is_left_are_refused():
    lengths = asking(Lengths((Cell(3, 100, 10), Cell(1, 300, 10)), 310), 200)
    found = inflight_of(lengths, 5, max_model_len=320, block_size=1)
    assert (found.served_share, found.truncated_share, found.refused_share) == (0.75, 0, 0.25)
    assert found.mean_tokens == 104.5
    assert found.worst_case_tokens == 5 * 320
    assert inflight_of(lengths, 5).max_model_len == 500
