"""How fast one configuration serves over its load, and what its tokens cost: everything the command `speed` says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from recommender.catalog.catalog import Catalog
from recommender.errors import Fault, InputError
from recommender.speed.answer import Speed, curve, prepared_for
from recommender.speed.benchmarked import Benchmarked
from recommender.speed.build import columns
from recommender.speed.cost import Api, BreakEven, TokenCost, break_even, token_cost
from recommender.speed.price import Price
from recommender.speed.setup import MOST_REQUESTS, Found, Load, Setup, look_up, row_of
from recommender.units import usd

_TPS = (2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Point:
    """One load: how fast, and what tokens cost there; None where no price is known.

    `blended_interval` is the cost at the ends of the throughput's 80 % band.
    """

    speed: Speed
    cost: TokenCost | None = None
    blended_interval: tuple[Decimal, Decimal] | None = None
    output_tokens_per_s_per_usd_per_hour: float | None = None
    break_even: BreakEven | None = None

    @property
    def output_tokens_per_s_each(self) -> float:
        """Tokens a second that one request sees once its first has come."""
        return 1e3 / self.speed.tpot_ms


@dataclass(frozen=True, slots=True)
class Forecast:
    """A setup over its load. `holds` requests are in flight at most over all replicas; more of them queue.

    `saturated` is the point there. `asked` is False where the loads of `points` were not asked for: a curve.
    """

    setup: Setup
    prompt_tokens: int
    output_tokens: int
    asked: bool
    points: tuple[Point, ...]
    saturated: Point
    holds: int
    price: Price | None
    api: Api | None
    benchmarked: Benchmarked | None
    warnings: tuple[str, ...]
    sources: tuple[str, ...]


def forecast(
    setup: Setup,
    prompt_tokens: int,
    output_tokens: int,
    concurrencies: Sequence[int] | None,
    catalog: Catalog,
    price: Price | None = None,
    api: Api | None = None,
    measured: Benchmarked | None = None,
) -> Forecast:
    """The forecast at these loads, else over a curve that doubles from 1 to what the replicas hold at once.

    Raises InputError for what cannot be, NotModelledError for what is not modelled.
    """
    found, load = look_up(setup, catalog), Load(prompt_tokens, output_tokens, 1)
    _check_experts(setup, found)
    _check_fits(setup, found, load)
    anchors = (measured.anchor,) if measured else ()
    prepared, _ = prepared_for(setup, found, load, anchors)
    holds = min(int(prepared.rows.sequences[0]) * setup.replicas, MOST_REQUESTS)
    speeds = curve(setup, load, concurrencies, anchors, catalog)
    (full,) = curve(setup, load, [holds], anchors, catalog)
    largest = max(speeds, key=lambda each: each.concurrency)
    return Forecast(
        setup=replace(setup, model=found.model.id, gpu=found.gpu.name, weights=found.weights, dp=found.dp),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        asked=concurrencies is not None,
        points=tuple(_point(each, load, price, api) for each in speeds),
        saturated=_point(full, load, price, api),
        holds=holds,
        price=price,
        api=api,
        benchmarked=measured,
        warnings=tuple(dict.fromkeys((*largest.warnings, *_warnings(output_tokens, price, measured)))),
        sources=tuple(dict.fromkeys((*largest.sources, *_sources(price)))),
    )


def _check_fits(setup: Setup, found: Found, load: Load) -> None:
    """Raise InputError where the weights do not fit, with the smallest tensor parallel size at which they would."""
    if _has_room(setup, found, load):
        return
    gpus = setup.tp * setup.pp * found.dp
    larger = (tp for tp in _TPS if tp > setup.tp and found.model.heads % tp == 0 and setup.ep == 1)
    least = next((tp for tp in larger if _has_room(replace(setup, tp=tp), found, load)), None)
    what = f"{found.model.id} in {found.weights} does not fit {gpus} x {found.gpu.name}"
    expected = f"at least {least}" if least else "more memory: other GPUs, or weights of fewer bits"
    raise InputError(Fault(what, key="tp", expected=expected))


def _check_experts(setup: Setup, found: Found) -> None:
    """Raise InputError where experts cannot be spread as asked."""
    if setup.ep > 1 and not found.model.experts:
        raise InputError(Fault(f"{found.model.id} has no experts to spread", key="ep", expected="1"))
    together = setup.tp * found.dp
    if setup.ep not in (1, together):
        what = f"experts are spread over all {together} GPUs of a stage, or over none"
        raise InputError(Fault(f"{setup.ep} cannot be: {what}", key="ep", expected=f"1 or {together}"))


def _has_room(setup: Setup, found: Found, load: Load) -> bool:
    return bool(columns([row_of(setup, found, load)])[0].sequences[0] >= 1)


def _point(speed: Speed, load: Load, price: Price | None, api: Api | None) -> Point:
    """The speed with what its tokens cost."""
    if price is None:
        return Point(speed)
    micro, prompts, outputs = price.micro_usd_per_hour, int(load.prompt_tokens), int(load.output_tokens)
    low, high = (rate / outputs for rate in speed.output_tokens_per_s_interval)

    def cost(requests_per_s: float) -> TokenCost:
        return token_cost(micro, requests_per_s, prompts, outputs, speed.prompt_share)

    return Point(
        speed,
        cost=cost(speed.requests_per_s),
        blended_interval=(cost(high).blended, cost(low).blended),
        output_tokens_per_s_per_usd_per_hour=speed.output_tokens_per_s / float(usd(micro)) if micro else None,
        break_even=None if api is None else break_even(micro, speed.requests_per_s, prompts, outputs, api),
    )


def _warnings(output_tokens: int, price: Price | None, measured: Benchmarked | None) -> list[str]:
    """What to know about the request, the benchmarks and the price."""
    found = ["one output token: there is no time per output token, disregard it"] if output_tokens == 1 else []
    if measured is not None:
        found += [warning for each in measured.benchmarks for warning in each.warnings]
    if price is not None and price.offer is not None:
        what = f"{price.offer.provider} {price.offer.instance_type}"
        if price.doubts:
            found.append(f"the price of {what} is {', '.join(price.doubts)}")
        if not price.offer.listed:
            found.append(f"the price of {what} is indicative: it cannot be ordered under that name")
        if price.idle_gpus:
            found.append(f"{price.idle_gpus} of its GPUs are paid for and idle: more replicas would lower all costs")
    return found


def _sources(price: Price | None) -> list[str]:
    if price is None or price.offer is None:
        return []
    return [f"price: {price.offer.source}, {price.offer.as_of}"]
