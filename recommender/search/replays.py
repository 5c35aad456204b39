"""The best plans replayed request by request: what the engine's scheduler would do with their caches."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from recommender.errors import NotModelledError
from recommender.memory.engine import EngineConstants, engine_constants
from recommender.memory.kv import KvPool, kv_pool
from recommender.scenario import Scenario
from recommender.search.asked import Asked
from recommender.search.load import Arriving
from recommender.search.plan import Plan, Replayed, ReplicaGroup, Watermarked
from recommender.search.plan_speed import Pace
from recommender.units import ceil_div, show_figures, show_seconds
from recommender.workload.files import cell_file
from recommender.workload.holding import Holding, Kept
from recommender.workload.readers import SUFFIXES, suffix_of
from recommender.workload.replay import (
    DEFAULT_SEED,
    REQUESTS_PER_CLIENT,
    Replay,
    replay_arrivals,
    replay_in_loop,
)
from recommender.workload.replica import Progress, Request, Server, StepTime
from recommender.workload.traffic import drawn, from_log

REPLAYED_PLANS = 2  # the best and the runner-up
FEWEST_REQUESTS = 1_000  # below which a 99 % quantile says little
MOST_REQUESTS = 100_000
MOST_PREEMPTIONS_PER_REQUEST = 0.01
MOST_LEFT_WAITING = 0.05
"""Of all requests, that may wait for their first token when the last one arrives: with more, the queue grows."""
ASSUMED = "assumed, not measured"
WATERMARK = 0.05
"""Removed nearly all preemptions where vLLM measured it, at the highest throughput (vLLM pull request 44594)."""


def replays_of(asked: Asked, plans: Sequence[Plan], progress: Progress | None) -> tuple[Replayed, ...]:
    """A replay of one engine of each replica group of the best plans; nothing unless the scenario asks for it."""
    if asked.scenario.sizing != "trace_replay":
        return ()
    return tuple(
        _replayed(asked, plan.rank, place, group, progress)
        for plan in plans[:REPLAYED_PLANS]
        for place, group in enumerate(plan.replicas)
    )


def _replayed(asked: Asked, rank: int, place: int, group: ReplicaGroup, progress: Progress | None) -> Replayed:
    server = _server(asked, group)
    if server is None:
        why = "not replayed: its memory model knows no blocks"
        return Replayed(rank, place, "", None, None, None, why)
    kv_tokens = None if server.holding else server.blocks * server.block_size
    steps, timing = _steps(asked, group)
    how, result = _run(asked, group, server, steps, progress)
    reason = "; ".join(_rejected(asked.scenario, result)) or None
    held_back = _watermarked(asked, group, server, steps, progress) if result.preemptions else None
    return Replayed(rank, place, how, kv_tokens, result, reason is None, reason, held_back, steps, timing)


def _rejected(scenario: Scenario, result: Replay) -> Iterable[str]:
    """Why a replay rejects a plan: too many preemptions, a growing queue, or a first token later than promised."""
    found, most = result.preemptions_per_request, MOST_PREEMPTIONS_PER_REQUEST
    if found > most:
        yield f"{found:.3g} preemptions a request, more than {most:g}"
    left = result.waiting_at_last_arrival
    if left is not None and left > MOST_LEFT_WAITING * result.requests:
        of = f"{left:,} of {result.requests:,} still waited when the last one came"
        yield f"requests come faster than they are answered: {of}"
    if scenario.sla.ttft_ms is not None:
        percentile = None if scenario.sla.percentile is None else float(scenario.sla.percentile)
        (seconds, where), promised = result.ttft.at(percentile), float(scenario.sla.ttft_ms) / 1000
        if seconds > promised:
            yield f"the first token takes {show_seconds(seconds)} s {where}, more than {show_seconds(promised)}"


def _steps(asked: Asked, group: ReplicaGroup) -> tuple[StepTime, str]:
    """The times of an engine's steps, and where they are known from: stated, predicted, or assumed.

    At a rate they are those that the plan was sized with; where it was sized with predicted ones, so are these.
    """
    scenario = asked.scenario
    if scenario.step_time_stated:
        return scenario.step_time, "as stated"
    if isinstance(asked.load, Arriving) and not scenario.paced_by_model:
        return scenario.step_time, ASSUMED
    choice = next(
        each.choice
        for each in asked.terms
        if (each.choice.weights, each.choice.how) == (group.weights, group.weights_how)
        and (each.choice.checkpoint.id if each.choice.checkpoint else None) == group.checkpoint
    )
    try:
        pace = Pace(scenario, asked.model, asked.anchors)
        steps, evidence = pace.steps(group, asked.gpus[group.gpu], choice)
    except NotModelledError:
        return scenario.step_time, ASSUMED
    return steps, f"by the speed model ({evidence}), on the side that is planned on"


def _watermarked(
    asked: Asked, group: ReplicaGroup, server: Server, steps: StepTime, progress: Progress | None
) -> Watermarked:
    """The same requests with a watermark, and how this engine version sets it."""
    constants = engine_constants(asked.scenario.engine, asked.scenario.engine_version)
    argument = f"--watermark {WATERMARK:g}" if constants.watermark_option else None
    _, result = _run(asked, group, replace(server, watermark=WATERMARK), steps, progress)
    return Watermarked(WATERMARK, argument, result, not any(_rejected(asked.scenario, result)))


def _run(
    asked: Asked, group: ReplicaGroup, server: Server, steps: StepTime, progress: Progress | None
) -> tuple[str, Replay]:
    """What sent the requests, and what became of them."""
    if isinstance(asked.load, Arriving):
        how, result = _arriving(asked.scenario, asked.load, group, server, steps, progress)
    else:
        how, result = _in_loop(asked.scenario, group, server, steps, progress)
    if progress is not None:
        progress(result.requests, result.requests)
    return how, result


def _server(asked: Asked, group: ReplicaGroup) -> Server | None:
    """One engine of the group, its cache on the side the scenario plans on; None where the memory model has no blocks.

    Where layers keep windows or states, it holds of each request what their groups keep.
    """
    memory, scenario = group.memory, asked.scenario
    size, blocks, each = memory.block_size, memory.blocks, memory.bytes_per_block
    if size is None or blocks is None or each is None:
        return None
    if scenario.memory_margin == "safe" and memory.kv_cache_bytes_interval is not None:
        blocks = min(blocks, memory.kv_cache_bytes_interval[0] // each)
    constants, holding = engine_constants(scenario.engine, scenario.engine_version), None
    if memory.request_blocks != ceil_div(group.max_model_len, size):
        holding = _holding(asked, group, constants)
    usable = blocks - constants.null_blocks(asked.gpus[group.gpu])
    return Server(usable, group.max_num_seqs, group.max_num_batched_tokens, size, holding=holding)


def _holding(asked: Asked, group: ReplicaGroup, constants: EngineConstants) -> Holding:
    """What a request holds in the groups of layers of one engine."""
    gpu = asked.gpus[group.gpu]
    pool = kv_pool(asked.model, constants, gpu, tp=group.tp, kv_dtype=group.kv_dtype, weights=group.weights)
    return holding_of(pool, constants.in_flight_tokens(group.max_num_batched_tokens, group.pp))


def holding_of(pool: KvPool, in_flight_tokens: int) -> Holding:
    """What a request holds in a pool; groups that keep alike are counted together."""
    kinds, states = Counter[Kept](), 0
    for page in (group.page for group in pool.groups):
        if page.growth == "state":
            states += page.states
        elif page.growth == "full":
            kinds[Kept(page.block_size)] += 1
        elif page.growth == "sliding":  # the token that is computed lies in the window
            kinds[Kept(page.block_size, window=page.window - 1, spare=1)] += 1
        else:
            kinds[Kept(page.block_size, window=page.window)] += 1
    kept = (replace(kind, groups=count) for kind, count in kinds.items())
    return Holding(tuple(kept), states, in_flight_tokens)


def _requests(clients: int) -> int:
    return min(max(FEWEST_REQUESTS, REQUESTS_PER_CLIENT * clients), MOST_REQUESTS)


def _in_loop(
    scenario: Scenario, group: ReplicaGroup, server: Server, steps: StepTime, progress: Progress | None
) -> tuple[str, Replay]:
    clients, lengths = group.max_num_seqs, scenario.workload.lengths
    result = replay_in_loop(
        lengths,
        clients,
        server,
        steps,
        group.max_model_len,
        count=_requests(clients),
        progress=progress,
    )
    return f"{clients:,} clients, each sending its next request when one is answered", result


def _arriving(
    scenario: Scenario,
    load: Arriving,
    group: ReplicaGroup,
    server: Server,
    steps: StepTime,
    progress: Progress | None,
) -> tuple[str, Replay]:
    """The log's own arrivals where it has them, else random ones, at the engine's part of the busiest minute's rate."""
    rate = (group.rate_per_s or 0.0) / group.dp
    logged = _logged(scenario, load, rate)
    requests = logged or drawn(
        scenario.workload.lengths, _requests(group.max_num_seqs), seed=DEFAULT_SEED, rate_per_s=rate
    )
    result = replay_arrivals(
        requests,
        server,
        steps,
        group.max_model_len,
        asked_tokens=scenario.workload.lengths.asked_tokens or 1,
        seed=DEFAULT_SEED,
        progress=progress,
    )
    how = f"the log's arrivals, their busiest minute at {show_figures(rate)} a second" if logged else None
    how = how or f"random arrivals at {show_figures(rate)} a second"
    return f"{how}, at most {result.peak_waiting:,} waiting", result


def _logged(scenario: Scenario, load: Arriving, rate: float) -> tuple[Request, ...]:
    """The log's requests, thinned, and sped up so that their busiest minute has this rate; none without times."""
    log, arrivals = scenario.workload.log, scenario.workload.lengths.arrivals
    if log is None or arrivals is None or suffix_of(log.path) not in SUFFIXES or cell_file(log.path) is not None:
        return ()
    share = min(rate / load.peak_per_s, 1.0)
    limit = math.ceil(MOST_REQUESTS / share)
    requests = from_log(log.path, limit=limit, columns=dict(log.columns), timestamp_unit=log.timestamp_unit)
    window = min(arrivals.peak_to_mean, key=lambda each: abs(each[0] - 60), default=(0, 1.0))
    faster = load.peak_per_s / (arrivals.rate_per_s * window[1])
    chance = random.Random(DEFAULT_SEED)
    return tuple(
        Request(each.prompt_tokens, each.output_tokens, each.arrival_s / faster)
        for each in requests
        if chance.random() < share
    )
