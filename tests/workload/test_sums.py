import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shipped_traces import trace

from recommender.workload.inflight import inflight_of, sum_of
from recommender.workload.law import Law, token_law
from recommender.workload.lengths import Cell, Lengths
from recommender.workload.sums import Sum

CELLS = st.lists(
    st.tuples(st.integers(1, 100), st.integers(1, 30_000), st.integers(1, 3_000)), min_size=1, max_size=6
).map(lambda rows: tuple(Cell(*row) for row in rows))
RISKS = st.sampled_from([0.2, 0.05, 0.01, 0.001])


def lengths_of(cells):
    return Lengths(cells, int(max(cell.input_tokens + cell.output_tokens for cell in cells)))


def exact_quantile(law, requests, risk):
    """By convolving one request after another, with no grid and no window."""
    held = np.array([1.0])
    for _ in range(requests):
        held = np.convolve(held, law.pmf)
    beyond = np.cumsum(held[::-1])[::-1] - held
    return int(np.argmax(beyond <= risk))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=2, max_size=60).filter(lambda w: w[-1] > 0), st.integers(1, 12), RISKS)
def test_short_laws_are_exact(weights, requests, risk):
    law = Law(np.array(weights) / sum(weights))
    assert Sum(law, risk).quantile(requests) == exact_quantile(law, requests, risk)


@settings(max_examples=25, deadline=None)
@given(CELLS, st.integers(1, 8), RISKS)
def test_long_laws_are_within_half_a_step_a_request(cells, requests, risk):
    law = token_law(lengths_of(cells)).in_blocks(8)
    found, exact = Sum(law, risk).quantile(requests), exact_quantile(law, requests, risk)
    step = max(1, 2 ** int(np.ceil(np.log2(law.top / 1024))))
    assert abs(found - exact) <= requests * step


@settings(max_examples=60, deadline=None)
@given(CELLS, st.integers(1, 400), RISKS)
def test_never_more_than_the_worst_case(cells, requests, risk):
    found = inflight_of(lengths_of(cells), requests, risk)
    assert 0 < found.statistical_tokens <= found.worst_case_tokens


@settings(max_examples=60, deadline=None)
@given(CELLS, st.integers(1, 400), RISKS)
def test_more_requests_and_less_risk_never_need_less(cells, requests, risk):
    lengths = lengths_of(cells)
    found = inflight_of(lengths, requests, risk).statistical_tokens
    assert inflight_of(lengths, requests + 1, risk).statistical_tokens >= found
    assert inflight_of(lengths, requests, risk / 2).statistical_tokens >= found


@settings(max_examples=60, deadline=None)
@given(CELLS, st.integers(1, 200), RISKS, st.integers(0, 5), st.integers(1, 2_000))
def test_longer_prompts_never_need_less(cells, requests, risk, which, more):
    longer = list(cells)
    cell = longer[which % len(cells)]
    longer[which % len(cells)] = Cell(cell.weight, cell.input_tokens + more, cell.output_tokens)
    room = 2 * (33_000 + 2_000)  # both laws on the same grid
    short = Lengths((*cells, Cell(1e-12, room, 1)), room + 1)
    long = Lengths((*longer, Cell(1e-12, room, 1)), room + 1)
    found = inflight_of(long, requests, risk).statistical_tokens
    assert found >= inflight_of(short, requests, risk).statistical_tokens


@settings(max_examples=40, deadline=None)
@given(CELLS, st.integers(1, 200), RISKS)
def test_everything_twice_as_long_never_needs_less(cells, requests, risk):
    twice = tuple(Cell(cell.weight, 2 * cell.input_tokens, 2 * cell.output_tokens) for cell in cells)
    found = inflight_of(lengths_of(twice), requests, risk).statistical_tokens
    assert found >= inflight_of(lengths_of(cells), requests, risk).statistical_tokens


@pytest.mark.parametrize("longest", [513, 8193, 131_073])
def test_requests_that_are_all_prompt_need_the_worst_case(longest):
    found = inflight_of(Lengths((Cell(1, longest - 1, 1),), longest), 50, max_model_len=longest - 1 + 16)
    assert found.statistical_tokens == 50 * (longest - 1)
    found = inflight_of(Lengths((Cell(1, longest - 1, 1),), longest), 50, block_size=1)
    assert found.statistical_tokens == found.worst_case_tokens - 50  # the last token's cache is never written


@pytest.mark.parametrize("name", ["azure_conv_2023", "mooncake_conversation", "servegen_m_mid"])
def test_the_search_reads_the_same_quantiles(name):
    lengths = trace(name)
    sums = sum_of(lengths, lengths.maximum_tokens, 16, 0.01)
    requests = np.array([0, 1, 2, 50, 50, 64, 65, 99, 257, 999, 3_000, 4_096, 4_097, 100_000])
    found = sums.quantiles(requests)
    assert list(found[:6]) == [sums.quantile(int(n)) for n in requests[:6]]
    for count, need in zip(requests[6:], found[6:], strict=True):
        assert -1e-6 <= need / sums.quantile(int(count)) - 1 < 2e-4
    assert (np.diff(sums.quantiles(np.arange(600))) >= 0).all()


def test_the_closed_form_joins_the_transform_where_it_takes_over():
    sums = sum_of(trace("servegen_m_mid"), 124_852, 16, 0.01)
    below, above = sums.quantile(4_096), sums.quantile(4_097)
    assert below <= above <= below * (1 + 2 / 4_096)


def test_a_random_number_of_requests_needs_more_than_a_fixed_one():
    sums = sum_of(trace("azure_conv_2023"), 14_089, 16, 0.01)
    assert sums.poisson_quantile(50) > sums.quantile(50)
    assert sums.poisson_quantile(0) == 0
