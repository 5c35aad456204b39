"""Columns and candidates -> the integer Problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from recommender.catalog.gpus import Gpu
from recommender.scenario import Scenario
from recommender.search.candidates import Candidates
from recommender.search.columns import Column, groups_of, matches, merged
from recommender.search.problem import Limit, Problem
from recommender.units import hourly_micro_usd, micro_usd, plural, show_usd


def assemble(
    scenario: Scenario,
    columns: Sequence[Column],
    candidates: Candidates,
    gpus: Mapping[str, Gpu],
    demand: int,
    allowed: Iterable[int] | None = None,
) -> Problem:
    """The Problem of these columns; `allowed` narrows the terms (the others then serve nothing)."""
    terms = candidates.terms
    rungs = sorted({each.rungs for each in terms})
    quality = sorted({each.rungs.quality for each in terms})
    first = scenario.rank == "quality_first"
    served = np.array([candidates.most(column.gpu, column.gpus) for column in columns], dtype=np.int64)
    served = served.reshape(len(columns), len(terms))
    if allowed is not None:
        served[:, [t for t in range(len(terms)) if t not in set(allowed)]] = 0
    return Problem(
        demand=demand,
        names=tuple(column.name for column in columns),
        prices=tuple(column.micro_usd_per_hour or 0 for column in columns),
        gpus=tuple(column.gpus for column in columns),
        minimum=tuple(column.minimum for column in columns),
        capacity=served,
        rank=tuple(rungs.index(each.rungs) for each in terms),
        tier=tuple(quality.index(each.rungs.quality) if first else 0 for each in terms),
        groups=tuple(members for _, members in groups_of(list(columns), scenario.search.placement)),
        limits=limits_of(scenario, columns, gpus),
    )


def limits_of(scenario: Scenario, columns: Sequence[Column], gpus: Mapping[str, Gpu]) -> tuple[Limit, ...]:
    """Budget, power, GPU count, quotas and stocks as rows over the columns."""
    asked, limits = scenario.limits, []
    if asked.usd_per_month is not None:
        prices = tuple(column.micro_usd_per_hour or 0 for column in columns)
        text = f"${show_usd(asked.usd_per_month)} a month"
        limits.append(Limit("budget", text, prices, hourly_micro_usd(asked.usd_per_month)))
    if asked.watts is not None:
        watts = tuple((gpus[column.gpu].tdp_watts or 0) * column.gpus for column in columns)
        limits.append(Limit("power", f"limits.watts, {asked.watts:,} W of GPU boards", watts, asked.watts))
    most = scenario.search.max_gpus
    if most is not None:
        counts = tuple(column.gpus for column in columns)
        limits.append(Limit("max_gpus", f"search.max_gpus, {plural(most, 'GPU')}", counts, most))
    for cap in asked.caps:
        unit = [column.gpus if cap.unit == "gpus" else 1 for column in columns]
        weights = tuple(n if matches(cap, column) else 0 for n, column in zip(unit, columns, strict=True))
        where = [name for name in (cap.provider, cap.region, cap.gpu, cap.instance_type) if name]
        counted = plural(cap.count, "GPU" if cap.unit == "gpus" else "instance")
        text = f"limits.{cap.kind}, {counted}{' of ' if where else ''}{' '.join(where)}"
        limits.append(Limit(cap.kind, text, weights, cap.count))
    for cards in merged(scenario.hardware):
        price = None if cards.usd_per_hour is None else micro_usd(cards.usd_per_hour)
        alike = (cards.gpu, cards.gpus_per_instance, price)
        own = tuple(int((column.gpu, column.gpus, column.micro_usd_per_hour) == alike) for column in columns)
        instances = cards.count // cards.gpus_per_instance
        limits.append(Limit("stock", f"{cards.count} own {cards.gpu}", own, instances))
    return tuple(limits)


def powered(scenario: Scenario, columns: Iterable[Column], gpus: Mapping[str, Gpu]) -> tuple[list[Column], list[str]]:
    """Columns whose power is known where a power limit asks for it, and the names of the GPUs refused for it."""
    columns = list(columns)
    if scenario.limits.watts is None:
        return columns, []
    unknown = sorted({column.gpu for column in columns if gpus[column.gpu].tdp_watts is None})
    return [column for column in columns if column.gpu not in unknown], unknown
