"""The command `speed`: how fast one configuration serves, over its load, and what its tokens cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from recommender.catalog.catalog import Catalog, load_catalog
from recommender.command.flags import as_typed, flag
from recommender.errors import Fault, InputError
from recommender.report.forecast import forecast_page
from recommender.report.forecast_record import forecast_csv, forecast_json
from recommender.speed.benchmarked import benchmarked
from recommender.speed.cost import Api
from recommender.speed.forecast import Forecast, forecast
from recommender.speed.price import STATED, Hosts, Price, cheapest_price, named_price
from recommender.speed.setup import MOST_REQUESTS, MOST_TOKENS, Setup, look_up
from recommender.units import micro_usd, parse_decimal, parse_tokens

_SETUP = ("tp", "pp", "ep", "dp", "replicas", "weights", "kv_dtype", "engine", "engine_version")
_OPTIONS = (*_SETUP, "isl", "osl", "concurrency", "offer", "benchmark")
_MOST_LOADS = 64
_MOST_USD = 10**9


def forecast_of(asked: Mapping[str, Any], overlays: tuple[str, ...]) -> Forecast:
    """What the options ask. Raises InputError with every fault of them."""
    faults: list[Fault] = []
    prompts, outputs = (_tokens(key, asked[key], faults) for key in ("isl", "osl"))
    loads = _loads(asked["concurrency"], faults)
    api = _api(asked, faults)
    stated = _dollars("usd_per_hour", asked["usd_per_hour"], faults)
    if stated is not None and asked["offer"] is not None:
        faults.append(Fault("cannot stand beside --offer", key="--usd-per-hour", expected="one of the two"))
    if faults:
        raise InputError(faults)
    setup = Setup(asked["model"], asked["gpu"], **{key: asked[key] for key in _SETUP})
    catalog = load_catalog(overlays)
    try:
        found = look_up(setup, catalog)
        hosts = Hosts(found.gpu.name, setup.tp * setup.pp * found.dp, setup.replicas)
        price = _price(hosts, catalog, stated, asked["offer"])
        measured = benchmarked(asked["benchmark"], setup, catalog) if asked["benchmark"] else None
        return forecast(setup, prompts, outputs, loads, catalog, price, api, measured)
    except InputError as error:
        raise as_typed(error, _OPTIONS) from None


def _price(hosts: Hosts, catalog: Catalog, stated: Decimal | None, offer: str | None) -> Price | None:
    if stated is not None:
        return Price(micro_usd(stated), STATED)
    return named_price(hosts, catalog, offer) if offer is not None else cheapest_price(hosts, catalog)


def _tokens(key: str, text: str, faults: list[Fault]) -> int:
    try:
        tokens = parse_tokens(text)
    except ValueError:
        tokens = 0
    if not 1 <= tokens <= MOST_TOKENS:
        faults.append(_invalid(key, text, f"tokens from 1 to {MOST_TOKENS:,}, such as 1024 or 8K"))
    return tokens


def _loads(text: str | None, faults: list[Fault]) -> Sequence[int] | None:
    """Whole numbers from `64` or `1,8,64`, ascending, each once; None where none was asked for."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    usable = [int(word) for word in words if re.fullmatch(r"[1-9][0-9]{0,14}", word)]
    if len(usable) < len(words) or max(usable) > MOST_REQUESTS or len(usable) > _MOST_LOADS:
        expected = f"a whole number from 1 to {MOST_REQUESTS:,}, or up to {_MOST_LOADS} of them such as 1,8,64"
        faults.append(_invalid("concurrency", text, expected))
        return None
    return sorted(set(usable))


def _api(asked: Mapping[str, Any], faults: list[Fault]) -> Api | None:
    """The price of a hosted API, where one was given: one side alone is unknown, not free."""
    keys = ("api_usd_per_million_input", "api_usd_per_million_output")
    given = [key for key in keys if asked[key] is not None]
    if not given:
        return None
    prompts, outputs = (_dollars(key, asked[key], faults, free=True) for key in keys)
    if len(given) == 1:
        (missing,) = set(keys) - set(given)
        faults.append(Fault("is needed too", key=flag(missing), expected="dollars per million tokens; 0 where free"))
    elif prompts == 0 == outputs:
        faults.append(Fault("an API that costs nothing is never dearer", key=flag(keys[0]), expected="a price above 0"))
    return Api(prompts or Decimal(0), outputs or Decimal(0))


def _dollars(key: str, text: str | None, faults: list[Fault], *, free: bool = False) -> Decimal | None:
    """Dollars to the micro-dollar; None where none were given, or none that can be."""
    if text is None:
        return None
    try:
        amount = parse_decimal(text.strip().removeprefix("$").lstrip())
        micro_usd(amount)
    except ValueError:
        amount = Decimal(-1)
    if 0 <= amount <= _MOST_USD and (free or amount > 0):
        return amount
    faults.append(_invalid(key, text, "dollars such as 12.50, to the micro-dollar"))
    return None


def _invalid(key: str, text: str, expected: str) -> Fault:
    shown = text if len(text) <= 40 else f"{text[:37]}..."
    return Fault(f"{shown!r} is not valid", key=flag(key), expected=expected)


def show_forecast(found: Forecast, written: str) -> str:
    """The forecast as text of one format."""
    show = {"json": forecast_json, "csv": forecast_csv}.get(written, forecast_page)
    return show(found)
