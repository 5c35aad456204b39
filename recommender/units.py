"""Bytes, tokens and money: the only place where units are converted, parsed or printed.

GB is 1e9 bytes, GiB is 2^30 bytes. Money inside the program is an integer number of micro-dollars an hour;
a month is 730 hours and a year 8,760 (the convention of AWS' and Azure's calculators).
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal, InvalidOperation

GB = 10**9
GIB = 2**30
HOURS_PER_MONTH = 730
HOURS_PER_YEAR = 8760
MICRO = 10**6

_WHOLE = r"(?:[0-9]+|[1-9][0-9]{0,2}(?:(?:,[0-9]{3})+|(?:_[0-9]{3})+))"  # digits alone, or grouped in threes
_DECIMAL = re.compile(rf"{_WHOLE}(?:\.[0-9]+)?|\.[0-9]+")
_TOKENS = re.compile(r"(.*?)\s*([kKmM]?)")
_SCALE = {"": 1, "k": 1024, "m": 1024**2}


def ceil_div(numerator: int, denominator: int) -> int:
    """The quotient rounded up, exact for integers of any size."""
    return -(-numerator // denominator)


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that is at least `value`."""
    return ceil_div(value, multiple) * multiple


def parse_decimal(text: str) -> Decimal:
    """A number with a point before its decimals; `1,500` is grouped in threes, `1,5` is refused. Raises ValueError."""
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a number such as 1500, 1,500 or 1.5")
    return Decimal(text.replace(",", "").replace("_", ""))


def parse_tokens(text: str | int) -> int:
    """Tokens from `8192`, `"8K"` or `"128k"` (K and k are 1,024, M is 1,048,576). Raises ValueError."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = _TOKENS.fullmatch(str(text).strip())
    if match is None or _DECIMAL.fullmatch(match[1]) is None:
        raise ValueError(f"{text!r} is not a number of tokens such as 8192, 8K or 128k")
    tokens = parse_decimal(match[1]) * _SCALE[match[2].lower()]
    if tokens != int(tokens):
        raise ValueError(f"{text!r} is not a whole number of tokens")
    return int(tokens)


def micro_usd(amount: str | int | Decimal) -> int:
    """Micro-dollars from a decimal dollar amount. Raises ValueError where it is finer than a micro-dollar."""
    try:
        micro = Decimal(str(amount)) * MICRO
    except InvalidOperation:
        raise ValueError(f"{amount!r} is not an amount of dollars") from None
    if not micro.is_finite() or micro != int(micro):
        raise ValueError(f"{amount!r} is not a whole number of micro-dollars")
    return int(micro)


def usd(micro: int) -> Decimal:
    """Dollars, exact, from micro-dollars."""
    return Decimal(micro) / MICRO


def usd_per_month(micro_usd_per_hour: int) -> Decimal:
    """Dollars a month of 730 hours, exact, from micro-dollars an hour."""
    return usd(micro_usd_per_hour * HOURS_PER_MONTH)


def usd_per_month_of(micro: int, hours: int) -> Decimal:
    """Dollars a month of 730 hours from micro-dollars over so many hours, rounded half up to the micro-dollar."""
    return usd(int((Decimal(micro) * HOURS_PER_MONTH / hours).to_integral_value(ROUND_HALF_UP)))


def hourly_micro_usd(usd_a_month: Decimal) -> int:
    """The largest whole micro-dollars an hour that a monthly budget pays for."""
    return int((usd_a_month * MICRO / HOURS_PER_MONTH).to_integral_value(ROUND_FLOOR))


def show_usd(amount: Decimal, places: int = 2) -> str:
    """Dollars with thousands separators, rounded half up: `1,234.50`."""
    return f"{amount.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP):,}"


def plural(count: int, noun: str) -> str:
    """A count with its noun: `1 request`, `2,048 requests`, `3 replicas`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def show_figures(value: float) -> str:
    """A measured or derived number to four figures, never with an exponent where it is large: `13,060`, `0.03333`."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def show_number(value: float, figures: int = 10) -> str:
    """A number to paste into a scenario, of so many figures at most, rounded down: `0.814467`, `1000000`."""
    exact = Decimal(repr(value))
    unit = Decimal(1).scaleb(exact.adjusted() - figures + 1)
    return f"{exact.quantize(unit, ROUND_FLOOR).normalize():f}"


def show_seconds(value: float) -> str:
    """Seconds to three figures, never with an exponent where they are many: `0.109`, `43.3`, `57,900`."""
    return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def show_gb(count_bytes: int) -> str:
    """Bytes as GB and GiB side by side: `85.03 GB (79.19 GiB)`."""
    return f"{count_bytes / GB:.2f} GB ({count_bytes / GIB:.2f} GiB)"


def ceil_decimal(value: Decimal) -> int:
    """The smallest integer that is at least `value`."""
    return int(value.to_integral_value(ROUND_CEILING))
