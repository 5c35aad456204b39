import math

import pytest

from recommender.workload.poisson import poisson_mean, poisson_quantile


def beyond(mean, count):
    return 1 - math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(count + 1))


@pytest.mark.parametrize("risk", [0.05, 0.01, 1e-6])
@pytest.mark.parametrize("count", [1, 2, 7, 50, 400, 4096])
def test_the_mean_is_the_largest_at_which_more_are_rare(count, risk):
    mean = poisson_mean(count, risk)
    assert beyond(mean, count) == pytest.approx(risk, rel=1e-4)
    assert poisson_quantile(mean, risk) == count
    assert poisson_quantile(mean * 1.000_1, risk) == count + 1


def test_a_high_risk_never_means_more_on_average_than_may_run():
    assert poisson_mean(3, 0.5) == pytest.approx(3)
    assert poisson_mean(1, 0.99) == pytest.approx(1)
