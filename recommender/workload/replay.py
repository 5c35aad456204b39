"""A replica replayed request by request under the engine's scheduling rules: the check of a statistical plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from recommender.errors import Fault, InputError
from recommender.workload.lengths import Lengths
from recommender.workload.replica import Finished, Progress, Request, Server, StepTime, Trail
from recommender.workload.scheduler import Scheduler
from recommender.workload.traffic import accepted, drawn

WARM_UP = 0.1  # of the requests, left out of the times: the queue has not settled
REQUESTS_PER_CLIENT = 20
DEFAULT_SEED = 1


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds on average, at the 50 %, 95 % and 99 % quantiles, and at most."""

    mean_s: float
    p50_s: float
    p95_s: float
    p99_s: float
    max_s: float

    def at(self, percentile: float | None) -> tuple[float, str]:
        """Seconds at a percentile, or at the next one that is known, and which that is in words; None is the mean."""
        if percentile is None:
            return self.mean_s, "on average"
        for place, seconds in ((50, self.p50_s), (95, self.p95_s), (99, self.p99_s)):
            if percentile <= place:
                return seconds, f"at the {place} % quantile"
        return self.max_s, "at most"


@dataclass(frozen=True, slots=True)
class Replay:
    """What one replica did with the requests. Times leave out the first tenth of requests.

    Tokens are whole blocks; None where a block holds tokens of some layers only (windows, states).
    """

    requests: int
    refused: int
    truncated: int
    preemptions: int
    preemptions_per_request: float
    recomputed_share: float  # tokens computed again, over tokens generated
    peak_kv_share: float  # of the cache
    mean_kv_share: float
    peak_kv_tokens: int | None
    mean_kv_tokens: float | None
    mean_running: float
    peak_waiting: int
    waiting_at_last_arrival: int | None  # for their first token; None where clients wait for an answer
    output_tokens_per_s: float
    ttft: Times
    latency: Times
    seed: int | None


def replay(
    requests: Sequence[Request],
    server: Server,
    step_time: StepTime,
    *,
    clients: int | None = None,
    progress: Progress | None = None,
) -> Trail:
    """What happens to the requests, in arrival order; or, with `clients`, each sending its next when one is answered.

    Raises InputError where a request can never fit the cache.
    """
    longest = max((request.prompt_tokens + request.output_tokens - 1 for request in requests), default=0)
    if server.holds.to_admit(longest) > server.blocks:
        raise InputError(Fault(f"a request of {longest:,} tokens never fits a cache of {server.blocks:,} blocks"))
    if not requests or server.max_num_seqs < 1 or server.max_num_batched_tokens < server.max_num_seqs:
        what = "a replay needs requests, max_num_seqs >= 1 and max_num_batched_tokens >= max_num_seqs"
        raise InputError(Fault(what))
    return Scheduler(requests, server, step_time, clients, progress).run()


def replay_in_loop(
    lengths: Lengths,
    concurrency: int,
    server: Server,
    step_time: StepTime,
    max_model_len: int,
    *,
    count: int | None = None,
    seed: int = DEFAULT_SEED,
    progress: Progress | None = None,
) -> Replay:
    """`concurrency` clients that each send their next random request when one is answered (20 each by default)."""
    wanted = count or REQUESTS_PER_CLIENT * concurrency
    traffic = accepted(drawn(lengths, wanted, seed=seed), max_model_len, lengths.asked_tokens or 1)
    trail = replay(traffic.requests, server, step_time, clients=concurrency, progress=progress)
    found = report_of(trail, server, traffic.refused, traffic.truncated, seed, step_time.first_token_s)
    return replace(found, waiting_at_last_arrival=None)


def replay_arrivals(
    requests: tuple[Request, ...],
    server: Server,
    step_time: StepTime,
    max_model_len: int,
    *,
    asked_tokens: int = 1,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Replay:
    """Requests that arrive by themselves: a log's own, or a Poisson process."""
    traffic = accepted(requests, max_model_len, asked_tokens)
    trail = replay(traffic.requests, server, step_time, progress=progress)
    return report_of(trail, server, traffic.refused, traffic.truncated, seed, step_time.first_token_s)


def report_of(
    trail: Trail, server: Server, refused: int, truncated: int, seed: int | None, besides_s: float = 0.0
) -> Replay:
    """The figures of a trail; `besides_s` is what a first token takes besides the engine's steps."""
    settled = tuple(islice(trail.finished, int(WARM_UP * len(trail.finished)), None))
    count = len(trail.finished)
    last_s = max(each.sent_s for each in trail.finished)
    return Replay(
        requests=count,
        refused=refused,
        truncated=truncated,
        preemptions=trail.preemptions,
        preemptions_per_request=trail.preemptions / count,
        recomputed_share=trail.recomputed_tokens / trail.output_tokens,
        peak_kv_share=trail.peak_blocks / server.blocks,
        mean_kv_share=trail.mean_blocks / server.blocks,
        peak_kv_tokens=None if server.holding else trail.peak_blocks * server.block_size,
        mean_kv_tokens=None if server.holding else trail.mean_blocks * server.block_size,
        mean_running=trail.mean_running,
        peak_waiting=trail.peak_waiting,
        waiting_at_last_arrival=sum(each.first_token_s > last_s for each in trail.finished),
        output_tokens_per_s=trail.output_tokens / trail.duration_s,
        ttft=_times([_ttft_s(each) + besides_s for each in settled]),
        latency=_times([each.last_token_s - each.sent_s + besides_s for each in settled]),
        seed=seed,
    )


def _ttft_s(finished: Finished) -> float:
    return finished.first_token_s - finished.sent_s


def _times(seconds: list[float]) -> Times:
    """Quantiles by the smallest value that reaches the share."""
    seconds.sort()
    last = len(seconds) - 1
    p50_s, p95_s, p99_s = (seconds[min(last, -(-len(seconds) * percent // 100) - 1)] for percent in (50, 95, 99))
    return Times(sum(seconds) / len(seconds), p50_s, p95_s, p99_s, seconds[-1])
