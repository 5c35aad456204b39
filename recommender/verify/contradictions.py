"""What a start-up log states that cannot all be true: then nothing in it proves a prediction, whatever agrees."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recommender.verify.case import gib
from recommender.verify.configuration import CONFIG, GIVEN, Configuration
from recommender.verify.log import StartupLog
from recommender.verify.prediction import Prediction
from recommender.verify.readings import FROM_THE_POOL, Readings

FREE_IS_CHECKED = (0, 9, 0)
"""The release from which an engine refuses to start on a card with less free memory than it asks for."""
MOST_TIMES = 8
"""What fewer bits (4 instead of 16) and a cache split over ranks can make of the tokens, at most."""
_RANK = re.compile(r"_TP(\d{1,4})\b")


def contradictions_of(
    log: StartupLog, configuration: Configuration, prediction: Prediction, readings: Readings
) -> tuple[str, ...]:
    """Every contradiction, as a sentence without its full stop."""
    return (
        *_ranks(log, configuration),
        *_free_memory(log, prediction, readings),
        *_cache(prediction, readings),
        *_no_figures(log),
    )


def _ranks(log: StartupLog, configuration: Configuration) -> Iterator[str]:
    """More or fewer ranks than the tensor-parallel size makes, where the log states both."""
    loaded = [each.process for each in log.processes if "weights" in each]
    ranks = {int(found[1]) for each in loaded if (found := _RANK.search(each.name))}
    if not ranks or configuration.origins.get("tp") not in (CONFIG, GIVEN):
        return
    if max(ranks) >= configuration.tp:
        said = f"ranks up to TP{max(ranks)} loaded weights"
        yield f"{said}, but tensor_parallel_size is {configuration.tp} ({configuration.origins['tp']})"


def _free_memory(log: StartupLog, prediction: Prediction, readings: Readings) -> Iterator[str]:
    free, usable, total = readings["free"], readings["usable"], readings["total"]
    started = log.refusal is None and (readings["pool"] is not None or readings["blocks"] is not None)
    if free and total and free.value > total.value + free.half + total.half:
        yield f"{gib(free.value)} free of {gib(total.value)} (line {free.line})"
    checked = prediction.constants.number >= FREE_IS_CHECKED and "kv_cache_memory_bytes" not in log.given
    if started and checked and free and usable and free.value + free.half < usable.value - usable.half:
        said = f"{gib(free.value)} were free (line {free.line}) and {gib(usable.value)} asked for"
        yield f"{said}: this version refuses to start there, but the log has a KV cache"


def _cache(prediction: Prediction, readings: Readings) -> Iterator[str]:
    """More tokens than the logged memory holds, however few bits an element has."""
    pool, kv, fit = readings["pool"], readings["kv_cache"], prediction.fit
    if pool is None or kv is None or kv.said_by == FROM_THE_POOL or not fit.kv_cache_bytes:
        return
    expected = max(0, kv.value) * fit.kv_cache_tokens // fit.kv_cache_bytes
    if pool.value > MOST_TIMES * max(1, expected):
        yield f"{pool.value:,} tokens (line {pool.line}) in a KV cache of {gib(kv.value)} (line {kv.line})"


def _no_figures(log: StartupLog) -> Iterator[str]:
    if "no_figure" in log.signs:
        yield f"line {log.signs['no_figure']} states the KV cache, but no figure"
