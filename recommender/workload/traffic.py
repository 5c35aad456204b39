"""Requests to replay: drawn from a length distribution, or read from a log with its own arrival times."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path

from recommender.errors import Fault, InputError
from recommender.workload.lengths import Lengths
from recommender.workload.replica import Request


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests as a server with max_model_len accepts them; `refused` had prompts that leave no room for an output."""

    requests: tuple[Request, ...]
    refused: int
    truncated: int


def drawn(lengths: Lengths, count: int, *, seed: int, rate_per_s: float | None = None) -> tuple[Request, ...]:
    """`count` random requests of these lengths, fixed by the seed; with a rate, arriving by a Poisson process."""
    if lengths.total_only:
        what = "a fixed total does not say how much of it is prompt: nothing can be replayed"
        raise InputError(Fault(what, expected="fixed: {input, output}"))
    chance = random.Random(seed)
    reached = list(accumulate(cell.weight for cell in lengths.cells))
    cells = chance.choices(lengths.cells, cum_weights=reached, k=count)
    now, requests = 0.0, []
    for cell in cells:
        if rate_per_s:
            now += chance.expovariate(rate_per_s)
        prompt = _whole(cell.input_tokens, chance)
        requests.append(Request(prompt, max(1, _whole(cell.output_tokens, chance)), now))
    return tuple(requests)


def _whole(tokens: float, chance: random.Random) -> int:
    """Whole tokens whose mean over many draws is the cell's."""
    floor = int(tokens)
    part = tokens - floor
    return floor + (1 if part and chance.random() < part else 0)


def from_log(
    path: Path,
    *,
    limit: int | None = None,
    columns: Mapping[str, str] | None = None,
    timestamp_unit: str | None = None,
) -> tuple[Request, ...]:
    """The first `limit` requests of a log (all by default), in order of arrival. Raises InputError without times."""
    from recommender.workload.logs.arrived import arrived

    times, prompts, outputs = arrived(path, columns, timestamp_unit)
    rows = islice(zip(times, prompts, outputs, strict=True), limit)
    return tuple(Request(prompt, output, time - times[0]) for time, prompt, output in rows)


def accepted(requests: tuple[Request, ...], max_model_len: int, asked_tokens: int = 1) -> Traffic:
    """The requests as the engine takes them: outputs end at max_model_len.

    Prompts that leave no room for an output, or for the max_tokens that clients ask for, are refused.
    """
    kept, truncated = [], 0
    for request in requests:
        room = max_model_len - request.prompt_tokens
        if room < asked_tokens:
            continue
        truncated += request.output_tokens > room
        kept.append(Request(request.prompt_tokens, min(request.output_tokens, room), request.arrival_s))
    return Traffic(tuple(kept), len(requests) - len(kept), truncated)
