"""The memory of the rank that binds, as its log states or implies it: one figure for each line that is compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from recommender.memory.fit import Fit
from recommender.units import GIB
from recommender.verify.log import Figure, StartupLog, Stated

FROM_THE_POOL = "from the tokens"
_ROUNDING = 3 * GIB // 100
"""A cache that is worked out may differ by the rounding of three figures from one that is stated."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One figure of the log: the rank that stated it, or how it follows from what was stated."""

    name: str
    value: int
    half: int
    line: int
    said_by: str


@dataclass(frozen=True, slots=True)
class Readings:
    """All figures of a start-up, and the rank that binds."""

    binding: str
    ranks: int
    by_name: dict[str, Reading]

    def __getitem__(self, name: str) -> Reading | None:
        return self.by_name.get(name)


def readings_of(log: StartupLog, fit: Fit) -> Readings:
    """The figures of the rank that leaves least for the KV cache; what it does not state is taken from the others."""
    ranks = [each for each in log.processes if {"weights", "kv_cache", "total", "non_kv"} & set(each.figures)]
    own = _own_caches(ranks)
    binding = min(ranks, key=lambda rank: _least_left(rank, own), default=None)
    found: dict[str, Reading] = {}
    for name in ("total", "usable", "weights", "activation", "non_torch", "non_kv", "consumed", "torch_peak"):
        _take(found, name, _stated(log, binding, name))
    if binding is not None and "kv_cache" not in binding and binding.process.key in own:
        found["kv_cache"] = own[binding.process.key]
    for name in ("kv_cache", "graph_estimate", "graph_actual", "free", "initial"):
        if name not in found:
            _take(found, name, _stated(log, binding, name))
    for name in ("pool", "blocks", "concurrency"):  # several engines (data parallel): the smallest binds
        _take(found, name, _engine(log, name))
    for name in ("needed", "refused_available", "estimated_len", "refused_pool", "refused_len"):
        _take(found, name, _engine(log, name))
    for reading in _derived(found, log, fit):
        found.setdefault(reading.name, reading)
    name = binding.process.name if binding is not None else ""
    return Readings(name or "the only process", len(ranks), found)


def _own_caches(ranks: Sequence[Stated]) -> dict[str, Reading]:
    """What each rank leaves for the KV cache, by its process: stated, or its budget less what it says is taken.

    One rank alone may state its cache while all state their profiling. What stands between the two on that one (graphs)
    stands between them on the others.
    """
    own = {each.process.key: _reading("kv_cache", each) for each in ranks if "kv_cache" in each}
    whole = [each for each in ranks if {"usable", "non_kv"} <= set(each.figures)]
    both = [each for each in whole if each.process.key in own]
    between = min((_left(each) - each.figures["kv_cache"].value for each in both), default=0)
    for each in whole:
        taken, process = each.figures["non_kv"], each.process
        half = taken.half + each.figures["usable"].half
        own.setdefault(process.key, Reading("kv_cache", _left(each) - between, half, taken.line, process.name))
    return own


def _left(stated: Stated) -> int:
    return stated.figures["usable"].value - stated.figures["non_kv"].value


def _reading(name: str, stated: Stated) -> Reading:
    figure = stated.figures[name]
    return Reading(name, figure.value, figure.half, figure.line, stated.process.name)


def _least_left(stated: Stated, own: Mapping[str, Reading]) -> tuple[bool, int, bool, int]:
    """Ranks whose KV cache is known first, the smallest of them (to 0.03 GiB) first, one that states it before others;
    else the one with most outside it.
    """
    kv, taken = own.get(stated.process.key), stated.figures.get("non_kv") or stated.figures.get("weights")
    left = 0 if kv is None else kv.value if "kv_cache" in stated else kv.value + _ROUNDING
    return kv is None, left, "kv_cache" not in stated, -taken.value if taken else 0


def _stated(log: StartupLog, binding: Stated | None, name: str) -> tuple[Figure, str] | None:
    if binding is not None and name in binding:
        return binding.figures[name], binding.process.name
    figure = log.smallest(name) if name in ("kv_cache", "free") else log.largest(name)
    if figure is None:
        return None
    return figure, next(each.process.name for each in log.processes if each.figures.get(name) == figure)


def _engine(log: StartupLog, name: str) -> tuple[Figure, str] | None:
    figure = log.smallest(name)
    return None if figure is None else (figure, "")


def _take(found: dict[str, Reading], name: str, stated: tuple[Figure, str] | None) -> None:
    if stated is not None:
        figure, process = stated
        found[name] = Reading(name, figure.value, figure.half, figure.line, process)


def _derived(found: dict[str, Reading], log: StartupLog, fit: Fit) -> Iterator[Reading]:
    """What follows from the figures that are stated, by the engine's own sums."""
    known = dict(found)
    for reading in (*_usable(known, log, fit), *_cache(known, fit), *_graphs(known, log)):
        known.setdefault(reading.name, reading)
        yield reading
    yield from _activations(known)
    yield from _rest(known, fit)


def _usable(found: Mapping[str, Reading], log: StartupLog, fit: Fit) -> Iterator[Reading]:
    total = found.get("total")
    if total is not None:
        share = log.share("utilization") or Decimal(str(fit.gpu_memory_utilization))
        yield Reading("usable", int(total.value * share), total.half, total.line, "memory x utilization")


def _cache(found: Mapping[str, Reading], fit: Fit) -> Iterator[Reading]:
    """KV cache memory and tokens from a refusal; memory from the tokens where nothing else states it."""
    if "refused_available" in found:
        yield _renamed(found["refused_available"], "kv_cache")
    if "refused_pool" in found:
        yield _renamed(found["refused_pool"], "pool")
    pool, blocks = found.get("pool") or found.get("refused_pool"), found.get("blocks")
    if blocks is not None and fit.blocks:
        yield Reading("kv_cache", fit.kv_cache_bytes * blocks.value // fit.blocks, 0, blocks.line, FROM_THE_POOL)
    elif pool is not None and fit.kv_cache_tokens:
        yield Reading("kv_cache", fit.kv_cache_bytes * pool.value // fit.kv_cache_tokens, 0, pool.line, FROM_THE_POOL)


def _graphs(found: Mapping[str, Reading], log: StartupLog) -> Iterator[Reading]:
    """The estimate, where it is stated as the utilization that it is worth."""
    total, share, without = found.get("total"), log.share("utilization"), log.share("without_graphs")
    line = log.largest("without_graphs")
    if total is not None and share is not None and without is not None and line is not None:
        half = int(total.value * Decimal("0.00005"))
        value = int(total.value * (share - without))
        yield Reading("graph_estimate", value, half, line.line, "difference of utilizations")


def _activations(found: Mapping[str, Reading]) -> Iterator[Reading]:
    """Activations and memory outside torch, apart or together, by what this generation of lines states."""
    weights = found.get("weights")
    if weights is None:
        return
    if "torch_peak" in found:  # 0.6.0-0.6.4: the peak holds the weights
        yield _difference("activation", found["torch_peak"], (weights,))
    if "non_kv" in found:
        yield _difference("overhead", found["non_kv"], (weights,))
    elif "consumed" in found and "activation" in found:  # from 0.27 on: weights and what stays are measured together
        first, peak = found["consumed"], found["activation"]
        both = Reading("", first.value + peak.value, first.half + peak.half, first.line, first.said_by)
        yield _difference("overhead", both, (weights,))


def _rest(found: Mapping[str, Reading], fit: Fit) -> Iterator[Reading]:
    """Everything that is neither weights nor KV cache; of the card's own memory where the log does not state any."""
    usable, weights, kv = (found.get(name) for name in ("usable", "weights", "kv_cache"))
    if weights and kv:
        yield _difference("reserve", usable or Reading("usable", fit.usable_bytes, 0, kv.line, ""), (weights, kv))


def _renamed(reading: Reading, name: str) -> Reading:
    return Reading(name, reading.value, reading.half, reading.line, reading.said_by)


def _difference(name: str, whole: Reading, parts: tuple[Reading, ...]) -> Reading:
    value = whole.value - sum(part.value for part in parts)
    return Reading(name, value, whole.half + sum(part.half for part in parts), whole.line, "difference")
