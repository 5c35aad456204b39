from __future__ import annotations

from decimal import Decimal

import pytest

from recommender.units import parse_decimal, parse_tokens, show_number, show_seconds


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1500", "1500"),
        ("1,500", "1500"),
        ("1_500", "1500"),
        ("1.5", "1.5"),
        (".03", "0.03"),
        ("1,234,567.50", "1234567.50"),
        ("0", "0"),
    ],
)
def test_numbers(text: str, number: str) -> None:
    assert parse_decimal(text) == Decimal(number)


@pytest.mark.parametrize(
    "text",
    [
        "1,5",
        "2,50",
        "5,0",
        "5000_0",
        "1,0000",
        "0,500",
        "1.500,00",
        "1_000,000",
        "1e3",
        "nan",
        "-5",
        "",
        ".",
        "5.",
        "\u0665",
    ],
)
def test_what_may_be_another_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        parse_decimal(text)
    with pytest.raises(ValueError, match="is not a number"):
        parse_tokens(f"{text}k")


@pytest.mark.parametrize(
    ("text", "tokens"), [("8K", 8192), ("8 k", 8192), ("1.5k", 1536), ("8,192", 8192), ("1M", 2**20)]
)
def test_tokens(text: str, tokens: int) -> None:
    assert parse_tokens(text) == tokens


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1e6, "1000000"), (0.8144679, "0.814467"), (1e-6, "0.000001"), (1234567.8, "1234560"), (3.0, "3")],
)
def test_numbers_to_paste_have_no_exponent_and_are_rounded_down(value: float, shown: str) -> None:
    assert show_number(value, 6) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0.10912, "0.109"), (43.34, "43.3"), (999.4, "999"), (999.6, "1,000"), (57_912.0, "57,900")]
)
def test_seconds_have_no_exponent(value: float, shown: str) -> None:
    assert show_seconds(value) == shown
