"""Prices, purchases and replicas in words; the same words wherever they are shown."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal

from recommender.search.plan import Plan, Purchase, ReplicaGroup
from recommender.units import MICRO, plural, show_usd, usd, usd_per_month

UNPRICED = "-"
_MARKETS = {
    "spot": "spot",
    "reserved_1y": "reserved 1 year",
    "reserved_3y": "reserved 3 years",
    "owned": "owned",
}


def hourly(micro: int | None) -> str:
    """Dollars an hour with two to four decimals: `4.58`, `0.2348`."""
    if micro is None:
        return UNPRICED
    amount = usd(micro).quantize(Decimal("0.0001"), ROUND_HALF_UP)
    return show_usd(amount, 2 if amount == amount.quantize(Decimal("0.01")) else 4)


def monthly(micro: int | None) -> str:
    """Whole dollars a month of 730 hours: `3,343`."""
    return UNPRICED if micro is None else show_usd(usd_per_month(micro), 0)


def dollars(micro: int) -> str:
    """A price an hour for running text: cents, or four decimals below a dollar: `$5.99`, `$0.2348`."""
    return f"${show_usd(usd(micro)) if micro >= MICRO else hourly(micro)}"


def per_hour_and_month(micro: int) -> str:
    """`$4.58 an hour ($3,343 a month)`."""
    return f"{dollars(micro)} an hour (${monthly(micro)} a month)"


def percent(share: Decimal) -> str:
    """A share as signed whole percent: `+14 %`."""
    return f"{(share * 100).quantize(Decimal(1), ROUND_HALF_UP):+} %"


def share_text(share: float) -> str:
    """A share in per cent, never rounded to 0 or to 100 where it is not: `99.9 %`."""
    text = f"{100 * share:.2f}"
    if (text == "100.00" and share < 1) or (text == "0.00" and share > 0):
        text = f"{100 * share:.10g}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


def served_words(served: float, truncated: float, refused: float) -> str:
    """`all requests are served whole`, or `of the requests 99.9 % are served whole, 0.1 % are cut, 0 % are refused`."""
    if truncated == refused == 0:
        return "all requests are served whole"
    words = ("are served whole", "are cut", "are refused")
    shares = (f"{share_text(share)} {word}" for share, word in zip((served, truncated, refused), words, strict=True))
    return f"of the requests {', '.join(shares)}"


def joined(items: Iterable[str]) -> str:
    """`a, b and c`."""
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def also_in(purchase: Purchase, shown: int = 2) -> str:
    """`, also in eu-1, eu-2 and 3 more`; nothing where there is one region."""
    regions = purchase.also_in
    more = f" and {len(regions) - shown} more" if len(regions) > shown else ""
    return f", also in {', '.join(regions[:shown])}{more}" if regions else ""


def bought(purchase: Purchase) -> str:
    """`1 x hyperstack n3-H100x2 in CANADA-1`; a region called `global` goes without saying."""
    if purchase.market == "owned":
        return f"{purchase.count} x own machine with {purchase.gpus_per_instance} {purchase.gpu}"
    region = "" if purchase.region == "global" else f" in {purchase.region}"
    return f"{purchase.count} x {purchase.provider} {purchase.instance_type}{region}"


def bought_in_full(purchase: Purchase) -> str:
    """The purchase with its other regions, how it is paid, and how old its price is."""
    if purchase.market == "owned" and purchase.micro_usd_per_hour is None:
        return f"{bought(purchase)}, unpriced"
    size = ", assumed size" if purchase.assumed_size else "" if purchase.listed else ", indicative"
    market = "" if purchase.market == "on_demand" else f", {_MARKETS.get(purchase.market, purchase.market)}"
    doubts = f" ({', '.join(purchase.doubts)})" if purchase.doubts else ""
    price = f"${hourly(purchase.micro_usd_per_hour)}/h each, {purchase.as_of}{doubts}"
    return f"{bought(purchase)}{also_in(purchase)}{market}{size}, {price}"


def cards(plan: Plan) -> str:
    """`2 H100-SXM`; `2 H100-SXM and 4 L40S` in a mix."""
    counts: dict[str, int] = {}
    for purchase in plan.offers:
        counts[purchase.gpu] = counts.get(purchase.gpu, 0) + purchase.count * purchase.gpus_per_instance
    return joined(f"{count} {gpu}" for gpu, count in counts.items())


def precision(group: ReplicaGroup) -> str:
    """`fp8 weights and fp8 KV cache`."""
    kv = "KV cache as the checkpoint has it" if group.kv_dtype == "auto" else f"{group.kv_dtype} KV cache"
    return f"{group.weights} weights and {kv}"


def spread(group: ReplicaGroup) -> str:
    """How one replica spreads over its GPUs: `tp 2`, `tp 2 pp 3`, `tp 1 dp 8 ep`."""
    parts = [f"tp {group.tp}"]
    parts += [f"pp {group.pp}"] if group.pp > 1 else []
    parts += [f"dp {group.dp}"] if group.dp > 1 else []
    parts += ["ep"] if group.ep > 1 else []
    return " ".join(parts)


def layout(plan: Plan) -> str:
    """`1 replica of tp 2`; `2 replicas of tp 2 and 1 of tp 4` in a mix."""
    counts: dict[str, int] = {}
    for group in plan.replicas:
        counts[spread(group)] = counts.get(spread(group), 0) + group.count
    (size, count), *others = counts.items()
    return joined([f"{plural(count, 'replica')} of {size}", *(f"{count} of {size}" for size, count in others)])
