"""A replica to replay, the requests it gets, and the trail of what happened to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recommender.workload.holding import Holding, Kept

Progress = Callable[[int, int], None]
"""Called with requests finished and requests in all, about a hundred times."""


@dataclass(frozen=True, slots=True)
class Server:
    """One replica: its cache in blocks and its scheduler's limits. `watermark` is the share of blocks kept free.

    `holding` says what a request holds where layers keep windows or states; None: a block for each `block_size` tokens.
    """

    blocks: int
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int = 16
    watermark: float = 0.0
    holding: Holding | None = None

    @property
    def holds(self) -> Holding:
        """What a request holds."""
        return self.holding or Holding((Kept(self.block_size),))


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one engine step: a base, so much per request that decodes, so much per prompt token computed.

    `with_prompt_s` is what a step takes longer where any prompt is in it; `first_token_s` what a request's first token
    takes besides the engine's steps (reading text, HTTP).
    """

    base_s: float
    per_decode_s: float
    per_prompt_token_s: float
    with_prompt_s: float = 0.0
    first_token_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Request:
    """`prompt_tokens` that arrive at `arrival_s` and ask for `output_tokens`. Clients in a loop ignore the arrival."""

    prompt_tokens: int
    output_tokens: int
    arrival_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Finished:
    """One request served: when it was sent, gave its first token and its last, and how often it was preempted."""

    sent_s: float
    first_token_s: float
    last_token_s: float
    output_tokens: int
    preemptions: int


@dataclass(frozen=True, slots=True)
class Trail:
    """What happened: requests in the order they finished, preemptions, and how full the replica was over time."""

    finished: tuple[Finished, ...]
    preemptions: int
    recomputed_tokens: int
    output_tokens: int
    duration_s: float
    peak_blocks: int
    mean_blocks: float  # over time
    mean_running: float  # over time
    peak_waiting: int
