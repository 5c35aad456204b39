"""What a buyer should know before trusting a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from recommender.scenario import Scenario
from recommender.search.columns import Column, matches
from recommender.search.plan import Purchase, ReplicaGroup
from recommender.units import plural, show_gb, show_usd, usd


def warnings_of(
    scenario: Scenario,
    columns: Sequence[Column],
    purchases: Sequence[Purchase],
    replicas: Sequence[ReplicaGroup],
    medians: Mapping[str, int],
) -> tuple[str, ...]:
    """The plan's warnings, price first, then hosts, then memory."""
    as_of = scenario.as_of
    found = [text for purchase in purchases for text in _price(purchase, medians, as_of, scenario)]
    found += _stock(scenario, columns)
    for group in replicas:
        found += _host(columns[group.offer_index], group)
        found += _checkpoint(group)
        found += [f"memory constants extrapolated: {reason}" for reason in group.memory.extrapolated]
        found += group.memory.warnings
    return tuple(dict.fromkeys(found))


def _price(purchase: Purchase, medians: Mapping[str, int], as_of: date | None, scenario: Scenario) -> Iterable[str]:
    what = f"{purchase.provider} {purchase.instance_type}"
    if purchase.micro_usd_per_hour is None:
        return
    per_gpu = purchase.micro_usd_per_hour / purchase.gpus_per_instance
    median = medians.get(purchase.gpu)
    if median and 2 * per_gpu < median:
        half = f"${show_usd(usd(round(per_gpu)))} against ${show_usd(usd(median))} per GPU-hour"
        yield f"{what}: less than half the median price of {purchase.gpu} ({half})"
    if _too_old(purchase.as_of, as_of, scenario):
        age = plural(_age_days(purchase.as_of, as_of), "day")
        yield f"{what}: price of {purchase.as_of}, {age} before the answer's date"
    if not purchase.listed:
        yield f"{what}: an indicative price, not an instance type one can order under that name"
    if purchase.assumed_size:
        yield f"{what}: the size is assumed from a 1-GPU listing"
    if purchase.market == "spot":
        yield f"{what}: spot instances can be taken away at short notice"


def doubts_of(
    scenario: Scenario, gpu: str, gpus: int, price: int | None, priced_on: date, medians: Mapping[str, int]
) -> tuple[str, ...]:
    """What speaks against the price of a purchase, in a few words each."""
    if price is None:
        return ()
    age_days = _age_days(priced_on, scenario.as_of)
    return price_doubts(price / gpus, medians.get(gpu), age_days, scenario.search.max_price_age_days)


def price_doubts(price: float, median: int | None, age_days: int, most_days: int) -> tuple[str, ...]:
    """What speaks against a price of one GPU, in a few words each: its age, or that it is far below the median."""
    found = [f"{plural(age_days, 'day')} old"] if age_days > most_days else []
    if median and 2 * price < median:
        found.append(f"{price / median:.1f} x the median price")
    return tuple(found)


def _too_old(priced_on: date, as_of: date | None, scenario: Scenario) -> bool:
    return _age_days(priced_on, as_of) > scenario.search.max_price_age_days


def _age_days(priced_on: date, as_of: date | None) -> int:
    return 0 if as_of is None else (as_of - priced_on).days


def _stock(scenario: Scenario, columns: Sequence[Column]) -> Iterable[str]:
    caps = [cap for cap in scenario.limits.caps if cap.kind == "stock"]
    unknown = [c for c in columns if c.market != "owned" and not any(matches(cap, c) for cap in caps)]
    return ["stock unknown: the catalog knows prices, not what is available today"] if unknown else []


def _host(column: Column, group: ReplicaGroup) -> Iterable[str]:
    offer = next(iter(column.offers.values()))
    needed = group.memory.total.weights_bytes
    if offer.ram_bytes is None:
        yield f"{column.instance_type}: host RAM unknown; loading reads {show_gb(needed)} of weights"
    elif offer.ram_bytes < needed:
        yield f"{column.instance_type}: host RAM {show_gb(offer.ram_bytes)} is below the {show_gb(needed)} of weights"


def _checkpoint(group: ReplicaGroup) -> Iterable[str]:
    if group.weights_how == "to_make":
        yield f"checkpoint needed: no published {group.weights} checkpoint of this model is in the catalog"
    if group.weights_how == "online":
        yield f"weights are quantised to {group.weights} while loading: evaluate them as you would a checkpoint"
