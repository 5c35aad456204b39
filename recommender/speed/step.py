"""Seconds of one engine step and of one prompt, from the work of a candidate and the fitted constants.

A step that decodes B sequences of a rank takes `fixed + experts x (share of the experts touched) + per_sequence x B`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from recommender.speed.candidates import Bool, Candidates, Float, Int
from recommender.speed.constants import Constants, levels_of
from recommender.speed.work import Work, work_of


@dataclass(frozen=True, slots=True)
class Costs:
    """One row per candidate; seconds. What a step and a prompt cost, whatever the load."""

    weights_s: Float  # reading the weights every token passes through
    overhead_s: Float  # launching and scheduling: the same for one sequence or a hundred
    messages_s: Float  # latency of the collectives of a step
    experts_s: Float  # reading all experts
    missed_share: Float  # of the experts, by one token
    ranks: Float  # data-parallel ranks that share the experts
    per_sequence_s: Float
    prompt_s: Float  # computing one prompt
    chunks: Float  # steps that one prompt is spread over
    chunk_share: Float  # of a step's overhead and untouched experts, that a prompt in it adds
    first_token_s: Float  # what a first token takes besides: tokenizing, HTTP, scheduling
    wait_share: Float
    wait_power: Float

    def where(self, mask: Bool | Int) -> Costs:
        """The rows that `mask` picks."""
        return Costs(*(getattr(self, field.name)[mask] for field in fields(self)))

    def touched(self, sequences: Float) -> Float:
        """Share of the experts that a step reads which decodes so many sequences of each rank."""
        return 1 - np.power(self.missed_share, sequences * self.ranks)

    def step_s(self, sequences: Float) -> Float:
        """Seconds of a step that decodes so many sequences of each rank."""
        fixed = self.weights_s + self.overhead_s + self.messages_s
        return fixed + self.experts_s * self.touched(sequences) + self.per_sequence_s * sequences

    def chunk_s(self, sequences: Float) -> Float:
        """What a step takes longer because a prompt is in it, besides computing that prompt."""
        untouched_s = self.experts_s * (1 - self.touched(sequences))
        return self.chunk_share * self.overhead_s + np.minimum(self.chunk_share, 1.0) * untouched_s


def costs_of(rows: Candidates, constants: Constants, work: Work | None = None) -> Costs:
    """The costs of each candidate."""
    work = work_of(rows) if work is None else work
    c = constants.of(levels_of(rows))
    bandwidth = work.bandwidth * c["bandwidth_share"]
    moved = c["passes"] * work.passes_bytes + c["expert_passes"] * work.copies_bytes
    token_s = _gemm_s(work, c) + moved / bandwidth + _sent_s(work, c)
    spread = rows.dp.astype(np.float64)
    prompts = rows.prompt_tokens
    return Costs(
        weights_s=work.dense_bytes / bandwidth,
        overhead_s=_overhead_s(work, c, rows.years),
        messages_s=work.reductions * c["reduction_s"] * np.sqrt(work.tree_depth) + work.exchanges * c["exchange_s"],
        experts_s=work.expert_bytes / (bandwidth * c["expert_bandwidth"]),
        missed_share=work.missed_share,
        ranks=spread,
        per_sequence_s=token_s
        + work.cache_bytes / (bandwidth * c["cache_bandwidth"])
        + work.attention_s / c["attention_share"]
        + c["sequence_s"],
        prompt_s=prompts * token_s + work.prompt_attention_s / c["prompt_attention_share"],
        chunks=np.maximum(prompts / rows.batched_tokens, 1.0),
        chunk_share=c["chunk_share"],
        first_token_s=c["first_token_s"],
        wait_share=c["wait_share"],
        wait_power=1 - np.exp(-c["wait_power"]),
    )


def _gemm_s(work: Work, c: dict[str, Float]) -> Float:
    """Seconds of the matrix products of one token."""
    low = c["low_precision_gemm"]
    experts = work.gemm_expert_s / np.where(work.low_experts > 0, low, 1.0) / c["expert_gemm"]
    return (work.gemm_low_s / low + work.gemm_plain_s + experts) / c["gemm_share"]


def _sent_s(work: Work, c: dict[str, Float]) -> Float:
    """Seconds that one token's hidden states travel between GPUs."""
    return (work.reduced_bytes + work.exchanged_bytes) / (work.link_bytes_per_s * c["link_share"])


def _overhead_s(work: Work, c: dict[str, Float], years: Float) -> Float:
    """Seconds of a step that depend on its layers alone; newer engine versions take less."""
    layers = (
        c["layer_s"] * work.layers
        + c["moe_layer_s"] * work.moe_layers
        + c["shared_layer_s"] * work.shared_layers
        + c["latent_layer_s"] * work.latent_layers
        + c["sparse_layer_s"] * work.sparse_layers
        + c["linear_layer_s"] * work.linear_layers
        + c["low_layer_s"] * work.low_layers
    )
    return (c["step_s"] + layers) * c["overhead"] * np.power(c["overhead_a_year"], years)
