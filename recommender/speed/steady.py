"""Steady state of continuous batching with chunked prefill: what a request sees when so many are in flight.

In a closed loop of n requests on a rank, each finished request is replaced by a new prompt. While one request decodes
its output, the others' n - 1 prompts are computed too: that time is either waited for before the first token or felt
between tokens, never lost (one gap of `output` is before the first token: `_unfelt`). With D the seconds a request
decodes and P those of its own prompt, B = n D / (D + P) of the n are decoding at a time, and D itself depends on B.
Each pass of the iteration is monotone in n, in the costs and in B, and starts from B = n, so its result is monotone in
n and in the costs whatever the number of passes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recommender.speed.candidates import Candidates, Float
from recommender.speed.step import Costs

PASSES = 8
_LEAST = 1e-9
_FEW = 32
"""Output tokens from which that gap is within what the fitted constants absorb: those measured with so many at once
gave 64 and more."""


@dataclass(frozen=True, slots=True)
class Steady:
    """One row per candidate: means over requests; tokens a second over all replicas.

    `ttft_s` is what an engine that holds all requests would need; `queue_s` what requests wait besides for a place
    where more are in flight than it runs at once. `decoding` is the mean number of sequences in a step of one rank.
    """

    ttft_s: Float
    tpot_s: Float
    queue_s: Float
    output_tokens_per_s: Float
    decoding: Float
    running: Float  # per replica


def steady_state(rows: Candidates, costs: Costs) -> Steady:
    """TTFT, TPOT and throughput of each candidate at its concurrency."""
    asked = rows.concurrency / rows.replicas
    running = np.minimum(asked, np.maximum(rows.sequences, 1.0))
    load = np.maximum(running / rows.dp, 1.0)
    stages = rows.pp.astype(np.float64)
    output = np.maximum(rows.output_tokens, 1.0)
    waited, felt = _prompts(costs, load, stages)
    own = prefill_s(costs)
    busy = 1 - np.exp(-(load - 1) * costs.chunks / output)
    decoding = load
    for _ in range(PASSES):
        tpot = _tpot_s(costs, decoding, stages, felt, busy, output)
        spent = output * tpot
        decoding = load * spent / (spent + own)
    tpot = _tpot_s(costs, decoding, stages, felt, busy, output)
    others = 0.5 * costs.step_s(_microbatch(decoding, stages)) * (1 - 1 / load)
    ttft = own + others + waited + _unfelt(felt, output) + costs.first_token_s
    request_s = ttft + (output - 1) * tpot
    crowded = np.maximum(asked / running, 1.0)
    rate = running / request_s
    return Steady(
        ttft_s=ttft,
        tpot_s=tpot,
        queue_s=(crowded - 1) * request_s,
        output_tokens_per_s=rate * output * rows.replicas,
        decoding=decoding,
        running=running,
    )


def prefill_s(costs: Costs) -> Float:
    """Seconds of one prompt read by itself: never less than a look at all weights, and each chunk is a step."""
    own: Float = np.maximum(costs.prompt_s, costs.weights_s + costs.experts_s) + costs.overhead_s * costs.chunks
    return own


def _microbatch(decoding: Float, stages: Float) -> Float:
    """Sequences in one step where those of a rank are dealt out over pipeline stages."""
    return np.maximum(decoding / stages, 1.0)


def _prompts(costs: Costs, load: Float, stages: Float) -> tuple[Float, Float]:
    """(seconds waited for other prompts before the first token, seconds of them felt between tokens)."""
    others = np.maximum(load - 1, _LEAST)
    each = costs.prompt_s / stages  # stages work on different prompts
    together = others * each
    wished = costs.wait_share * each * np.power(others, costs.wait_power)
    waited = together * wished / (together + wished)
    return waited, together - waited


def _unfelt(felt: Float, output: Float) -> Float:
    """Seconds of other prompts that fall into the gap before the first token, of the `output` gaps they are felt in.

    No engine reads more prompts than it has time for: a request of one token waits for all of them.
    """
    few: Float = np.clip((_FEW - output) / (_FEW - 1), 0.0, 1.0)
    return few * felt / output


def _tpot_s(costs: Costs, decoding: Float, stages: Float, felt: Float, busy: Float, output: Float) -> Float:
    """Seconds between two tokens of a request."""
    batch = _microbatch(decoding, stages)
    return costs.step_s(batch) + felt / output + busy * costs.chunk_s(batch)
