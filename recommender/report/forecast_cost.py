"""What a configuration's tokens cost, in words: its price, dollars per million tokens, and against a hosted API."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from recommender.report.figures import cents, figure
from recommender.report.grid import grid, paragraph
from recommender.report.words import per_hour_and_month
from recommender.speed.forecast import Forecast, Point
from recommender.speed.price import CHEAPEST
from recommender.units import plural, show_usd


def price_line(found: Forecast) -> str:
    """What the hardware costs, whose price that is and of when."""
    price = found.price
    gpus = found.saturated.speed.gpus
    if price is None:
        return (
            f"No price: no listed on-demand offer hosts {gpus} x {found.setup.gpu} so; costs are unknown until "
            "--usd-per-hour or --offer states one."
        )
    cost = per_hour_and_month(price.micro_usd_per_hour)
    if price.offer is None:
        return f"Price: {cost}, as stated."
    offer = price.offer
    region = "" if offer.region == "global" else f" in {offer.region}"
    which = "the cheapest listed on-demand offer" if price.how == CHEAPEST else "on demand, its cheapest region"
    what = f"{price.instances} x {offer.provider} {offer.instance_type}{region}"
    return f"Price: {cost}: {what} ({plural(offer.gpus, 'GPU')} each), price of {offer.as_of}, {which}."


def cost_block(found: Forecast) -> list[str]:
    """Dollars per million tokens at the loads asked for and at saturation, then the API."""
    if found.price is None:
        return []
    asked = [point for point in found.points if found.asked and point.speed.concurrency != found.holds]
    labelled = [(f"{point.speed.concurrency:,.0f} at once", point) for point in asked]
    labelled.append((f"{found.holds:,} at once, saturated", found.saturated))
    head = ("$ per million tokens", "TPOT ms", "input", "output", "blended", "blended, 80 %", "all on output")
    lines = grid(head, [_cost_row(label, point) for label, point in labelled])
    how = (
        "Input and output share the price by the time the GPUs spend on prompts and on decoding; blended spreads it "
        "over both alike; the last column puts all of it on output."
    )
    return [*lines, *paragraph(how), *_against_api(found)]


def _cost_row(label: str, point: Point) -> tuple[str, ...]:
    cost, interval = point.cost, point.blended_interval
    if cost is None or interval is None:
        return label, *("unknown",) * 6
    low, high = map(cents, interval)
    return (
        label,
        figure(point.speed.tpot_ms, 3),
        *map(cents, (cost.input, cost.output, cost.blended)),
        f"{low}-{high}",
        cents(cost.output_alone),
    )


def _against_api(found: Forecast) -> list[str]:
    """From which traffic on the hardware is cheaper than the API."""
    full = found.saturated.break_even
    if found.api is None or full is None:
        return []
    asks = (
        f"An API at ${found.api.input_usd:,} per million input and ${found.api.output_usd:,} per million output tokens"
    )
    volume = f"{full.million_tokens_a_month.quantize(Decimal(1), ROUND_HALF_UP):,} million tokens a month"
    even = f"{volume} (prompts and outputs together; {_share(full.share_of_load)} of what the GPUs do saturated)"
    if full.share_of_load > 1:
        lines = paragraph(f"{asks} is cheaper at any load: both would cost the same at {even}.")
    else:
        lines = paragraph(f"{asks} costs the same at {even}. Above that the hardware, kept all month, is cheaper.")
    for point in found.points if found.asked else ():
        if point.break_even is not None:
            lines += paragraph(_at_load(found, point))
    return lines


def _at_load(found: Forecast, point: Point) -> str:
    even = point.break_even
    if even is None or found.price is None:
        return ""
    cheaper = "the API is cheaper" if even.share_of_load > 1 else "the hardware is cheaper"
    api = f"${show_usd(even.api_usd_per_hour)}"
    own = f"${show_usd(Decimal(found.price.micro_usd_per_hour) / 10**6)}"
    return f"{point.speed.concurrency:,.0f} at once would cost {api} an hour there, {own} here: {cheaper}."


def _share(share: Decimal) -> str:
    return f"{(share * 100).quantize(Decimal(1), ROUND_HALF_UP):,} %"
