"""What a million tokens cost on hardware paid by the hour, exact from a rate in whole tokens an hour."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from recommender.errors import InputError
from recommender.units import HOURS_PER_MONTH, usd

MILLION = 10**6
_SECONDS_PER_HOUR = 3600
_CENTS_OF_A_CENT = Decimal("0.0001")


@dataclass(frozen=True, slots=True)
class TokenCost:
    """Dollars per million tokens at one load.

    `blended` spreads the price over prompt and output tokens alike. `input` and `output` share it by the engine's time:
    what prompts take against what decoding takes. `output_alone` puts all of it on output tokens.
    """

    input: Decimal
    output: Decimal
    blended: Decimal
    output_alone: Decimal


@dataclass(frozen=True, slots=True)
class Api:
    """What a hosted API asks, in dollars per million tokens."""

    input_usd: Decimal
    output_usd: Decimal


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Against a hosted API: its dollars an hour at the same load, and the share of that load at which both cost alike.

    `share_of_load` above 1 means the API is cheaper even at this load; `million_tokens_a_month` is the traffic (prompt
    and output together) at which the hardware pays off, kept running all month.
    """

    api_usd_per_hour: Decimal
    share_of_load: Decimal
    million_tokens_a_month: Decimal


def token_cost(
    micro_usd_per_hour: int, requests_per_s: float, prompt_tokens: float, output_tokens: float, prompt_share: float
) -> TokenCost:
    """Dollars per million tokens; `prompt_share` is the part of the engine's time that prompts take."""
    prompts, outputs = _tokens_per_hour(requests_per_s, prompt_tokens, output_tokens)
    share = _ratio(prompt_share)
    price = usd(micro_usd_per_hour)
    return TokenCost(
        input=_per_million(price * share, prompts),
        output=_per_million(price * (1 - share), outputs),
        blended=_per_million(price, prompts + outputs),
        output_alone=_per_million(price, outputs),
    )


def break_even(
    micro_usd_per_hour: int,
    requests_per_s: float,
    prompt_tokens: float,
    output_tokens: float,
    api: Api,
) -> BreakEven:
    """When hardware at this price beats an API that asks so many dollars per million prompt and output tokens."""
    prompts, outputs = _tokens_per_hour(requests_per_s, prompt_tokens, output_tokens)
    asked = (api.input_usd * prompts + api.output_usd * outputs) / MILLION
    if asked <= 0:
        raise InputError("an API that costs nothing is never dearer: give its dollars per million tokens")
    share = usd(micro_usd_per_hour) / asked
    millions = share * (prompts + outputs) * HOURS_PER_MONTH / MILLION
    return BreakEven(_rounded(asked), _rounded(share), _rounded(millions))


def _tokens_per_hour(requests_per_s: float, prompt_tokens: float, output_tokens: float) -> tuple[int, int]:
    """Whole prompt and output tokens an hour, rounded down: costs err on the dear side."""
    if not math.isfinite(requests_per_s) or requests_per_s <= 0:
        raise InputError("a cost per token needs a rate above 0")
    an_hour = Decimal(repr(requests_per_s)) * _SECONDS_PER_HOUR
    tokens = int(an_hour * Decimal(repr(prompt_tokens))), int(an_hour * Decimal(repr(output_tokens)))
    if min(tokens) <= 0:
        raise InputError("less than one token an hour has no cost per million")
    return tokens


def _ratio(share: float) -> Decimal:
    return Decimal(repr(min(max(share, 0.0), 1.0)))


def _per_million(price: Decimal, tokens_per_hour: int) -> Decimal:
    return _rounded(price * MILLION / tokens_per_hour)


def _rounded(amount: Decimal) -> Decimal:
    return amount.quantize(_CENTS_OF_A_CENT, ROUND_HALF_UP)
