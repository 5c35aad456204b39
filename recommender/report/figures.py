"""Figures that are known to so many digits and no more."""

from __future__ import annotations

import math
from decimal import Decimal

from recommender.units import show_usd


def figure(value: float, digits: int) -> str:
    """A number to so many digits, never with an exponent: `1,400`, `12.3`, `0.84`."""
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    return f"{rounded:,.{max(places, 0)}f}"


def cents(amount: Decimal) -> str:
    """Dollars: four decimals below one dollar, cents above."""
    return show_usd(amount, 2 if amount >= 1 else 4)
