"""Dollars per million tokens, exact."""

from __future__ import annotations

from decimal import Decimal

import pytest

from recommender.errors import InputError
from recommender.speed.cost import Api, break_even, token_cost


def test_shares_add_up_to_the_price() -> None:
    """$3.60 an hour, 2 requests a second of 1,000 + 500 tokens: 7.2 M prompt and 3.6 M output tokens an hour."""
    found = token_cost(3_600_000, 2.0, 1000, 500, prompt_share=0.25)
    assert found.blended == Decimal("0.3333")
    assert found.output_alone == Decimal("1.0000")
    assert found.input == Decimal("0.1250")
    assert found.output == Decimal("0.7500")
    assert found.input * Decimal("7.2") + found.output * Decimal("3.6") == Decimal("3.6")


def test_break_even_with_an_api() -> None:
    """The same load costs 7.2 x $0.50 + 3.6 x $1.50 = $9 an hour from an API: own cards pay off from 40 % of it."""
    found = break_even(3_600_000, 2.0, 1000, 500, Api(Decimal("0.50"), Decimal("1.50")))
    assert found.api_usd_per_hour == Decimal("9.0000")
    assert found.share_of_load == Decimal("0.4000")
    assert found.million_tokens_a_month == Decimal("3153.6000")


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf"), 1e-9])
def test_no_rate_has_no_cost(rate: float) -> None:
    with pytest.raises(InputError):
        token_cost(1_000_000, rate, 1, 1, 0.5)


def test_a_free_api_is_refused() -> None:
    with pytest.raises(InputError, match="costs nothing"):
        break_even(1_000_000, 1.0, 10, 10, Api(Decimal(0), Decimal(0)))
