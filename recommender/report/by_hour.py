"""What plans cost if instances follow the hours: as a table, a sentence, a record and a cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any

from recommender.report.grid import grid, paragraph
from recommender.report.words import hourly
from recommender.search.plan import ByHour, Level, Plan, Recommendation, Scaled
from recommender.units import show_usd, usd, usd_per_month_of

COLUMNS = ("scaled_usd_per_month",)
"""What a plan's row of a CSV says of it."""
_MOST_SPANS = 4
_MOST_LEVELS = 12


def follows(answer: Recommendation) -> Iterable[str]:
    """What following the hours saves, as a part of the sentence."""
    if answer.by_hour is None:
        return
    hours, first = answer.by_hour.hours, answer.by_hour.plans[0]
    if first.micro_usd < first.always_on_micro_usd:
        yield f"an autoscaler that follows your hours would pay ${_month(first.micro_usd, hours)} a month for it"
    else:
        yield "following your hours would save nothing"


def by_hour_lines(answer: Recommendation) -> list[str]:
    """Rank 1 by the hour, and what it costs always on and scaled."""
    found = answer.by_hour
    if found is None:
        return []
    first, best = found.plans[0], found.cheapest
    levels = first.levels
    rows = [_row(level, found.hours) for level in levels[:_MOST_LEVELS]]
    head = ("hours", "load", "instances", "replicas", "$/hour")
    more = [f"... and {len(levels) - _MOST_LEVELS} more levels, in the JSON"] if len(levels) > _MOST_LEVELS else []
    return [*paragraph(_title(found)), *grid(head, rows), *more, *paragraph(_money(found, first, best))]


def _title(found: ByHour) -> str:
    span = "day" if found.hours == 24 else "week"
    return (
        f"By the hour ({found.hours} hours of a {span}, {found.source}): rank 1, its replicas as launched, on the"
        " fewest instances that carry the hour. Load is that of the busiest such hour, over the busiest of all."
    )


def _row(level: Level, hours: int) -> tuple[str, ...]:
    instances = " + ".join(f"{count:,}" for count in level.instances)
    share = f"{100 * level.share:.3g} %"
    return (_spans(level.hours, hours), share, instances, f"{level.replicas:,}", hourly(level.micro_usd_per_hour))


def _spans(hours: Sequence[int], profile: int) -> str:
    """Hours as spans: `8-18, 20`; many spans as their number."""
    spans = [[hour for _, hour in run] for _, run in groupby(enumerate(hours), lambda pair: pair[1] - pair[0])]
    if len(spans) > _MOST_SPANS or profile != 24:
        return f"{len(hours)} hours"
    return ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in spans)


def _money(found: ByHour, first: Scaled, best: Scaled) -> str:
    always, scaled = first.always_on_micro_usd, first.micro_usd
    if always == scaled:
        return "No hour needs fewer instances: always on and following the hours cost the same." + _other(found, best)
    return (
        f"Always on it costs ${_month(always, found.hours)} a month; an autoscaler that follows these hours pays"
        f" ${_month(scaled, found.hours)}, ${_month(always - scaled, found.hours)} less, if instances start and end"
        f" with the hour (loading a model takes minutes: start them before it).{_other(found, best)}"
    )


def _other(found: ByHour, best: Scaled) -> str:
    """The listed plan that is cheaper still when it is scaled."""
    if best.rank == found.plans[0].rank:
        return ""
    return f" Of the plans listed, rank {best.rank} then costs least: ${_month(best.micro_usd, found.hours)} a month."


def _month(micro: int, hours: int) -> str:
    return show_usd(usd_per_month_of(micro, hours), 0)


def by_hour_record(found: ByHour | None) -> dict[str, Any] | None:
    """The profile and every plan on it; `usd` are sums over the profile, exact."""
    if found is None:
        return None
    return {"hours": found.hours, "source": found.source, "plans": [_plan(each, found.hours) for each in found.plans]}


def _plan(scaled: Scaled, hours: int) -> dict[str, Any]:
    return {
        "rank": scaled.rank,
        "always_on_usd": usd(scaled.always_on_micro_usd),
        "scaled_usd": usd(scaled.micro_usd),
        "always_on_usd_per_month": usd_per_month_of(scaled.always_on_micro_usd, hours),
        "scaled_usd_per_month": usd_per_month_of(scaled.micro_usd, hours),
        "levels": [
            {
                "hours": list(level.hours),
                "share": level.share,
                "asked": level.asked,
                "instances": list(level.instances),
                "replicas": level.replicas,
                "usd_per_hour": usd(level.micro_usd_per_hour),
            }
            for level in scaled.levels
        ],
    }


def by_hour_cells(answer: Recommendation, plan: Plan) -> dict[str, Decimal]:
    """A plan's cells of COLUMNS; empty where no profile is known."""
    found = answer.by_hour
    scaled = next((each for each in found.plans if each.rank == plan.rank), None) if found else None
    return {} if found is None or scaled is None else {COLUMNS[0]: usd_per_month_of(scaled.micro_usd, found.hours)}
