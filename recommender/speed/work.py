"""What one GPU of each candidate has to move and multiply, before any efficiency: exact from shapes and data sheets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recommender.memory.weights import PLAIN
from recommender.speed.candidates import Candidates, Float
from recommender.speed.shape import SPARSE_TOKENS

_ACTIVATION_BYTES = 2  # hidden states travel in 16 bit
_REDUCTIONS_PER_LAYER = 2  # after attention and after the feed-forward part
_UNBOUNDED = 2.0**60


@dataclass(frozen=True, slots=True)
class Work:
    """One row per candidate. `_s` are seconds at data-sheet peaks; `per token` is of one rank of tensor parallelism.

    A rank is one data-parallel rank: `tp` GPUs of each stage. Experts are shared by all tp x dp GPUs.
    """

    bandwidth: Float
    dense_bytes: Float  # read once a step
    expert_bytes: Float  # of all experts on a GPU
    missed_share: Float  # share of the experts that one token does not touch; 1 without experts
    gemm_low_s: Float  # per token, in the weights' dtype
    gemm_plain_s: Float  # per token, in 16 bit
    gemm_expert_s: Float  # per token of one rank
    passes_bytes: Float  # one pass over the hidden state in every layer, per token
    copies_bytes: Float  # one pass over the hidden states that a GPU's experts take, per token
    cache_bytes: Float  # read per sequence and step, at the mean context
    attention_s: Float  # per sequence and step
    prompt_attention_s: Float  # per prompt
    reductions: Float  # all-reduces a step
    reduced_bytes: Float  # per token: what a rank sends in all of them
    exchanges: Float  # all-to-alls a step
    exchanged_bytes: Float  # per token
    link_bytes_per_s: Float
    tree_depth: Float
    layers: Float
    moe_layers: Float
    shared_layers: Float
    latent_layers: Float
    sparse_layers: Float
    linear_layers: Float
    low_layers: Float  # layers whose attention inputs are quantised in each step
    low_experts: Float  # 1 where experts are multiplied in a low-precision dtype


def work_of(rows: Candidates) -> Work:
    """The work of each candidate."""
    shape, gpu = rows.of_shape, rows.of_gpu
    tp, dp = rows.tp.astype(np.float64), rows.dp.astype(np.float64)
    ranks = tp * dp
    low, plain = _peaks(rows)
    experts, chosen, moe_layers = shape("experts"), shape("experts_per_token"), shape("moe_layers")
    kv_split = np.minimum(tp, np.maximum(shape("kv_heads"), 1))
    hidden_bytes = shape("hidden_size") * _ACTIVATION_BYTES
    layers = shape("layers")
    spread = dp > 1
    return Work(
        bandwidth=gpu("bandwidth_bytes_per_s"),
        dense_bytes=shape("dense_bytes") / tp,
        expert_bytes=moe_layers * experts * shape("expert_bytes") / ranks,
        missed_share=1 - chosen / np.maximum(experts, 1) * (experts > 0),
        gemm_low_s=2 * shape("dense_low_elements") / low / tp,
        gemm_plain_s=2 * shape("dense_plain_elements") / plain / tp,
        gemm_expert_s=2 * chosen * shape("expert_elements") * moe_layers / low / tp,
        passes_bytes=layers * hidden_bytes,
        copies_bytes=moe_layers * chosen * hidden_bytes * dp / rows.ep,
        cache_bytes=_cache_bytes(rows, kv_split, tp),
        attention_s=_attention_flops(rows) / plain / tp,
        prompt_attention_s=_prompt_flops(rows) / plain / tp,
        reductions=_REDUCTIONS_PER_LAYER * layers * (tp > 1),
        reduced_bytes=_REDUCTIONS_PER_LAYER * layers * 2 * (tp - 1) / tp * hidden_bytes,
        exchanges=2 * moe_layers * spread,
        exchanged_bytes=2 * moe_layers * np.minimum(chosen, ranks) * hidden_bytes * spread,
        link_bytes_per_s=gpu("link_bytes_per_s"),
        tree_depth=np.log2(np.maximum(tp, 1)),
        layers=layers,
        moe_layers=moe_layers,
        shared_layers=shape("shared_layers"),
        latent_layers=shape("latent_layers"),
        sparse_layers=shape("sparse_layers"),
        linear_layers=shape("linear_layers"),
        low_layers=layers * shape("low_attention"),
        low_experts=np.array([float(each.weights not in PLAIN) for each in rows.shapes])[rows.shape],
    )


def _peaks(rows: Candidates) -> tuple[Float, Float]:
    """FLOP/s of the weights' arithmetic and of 16 bit."""
    table = np.array([[gpu.peak_flops(shape.weights) for gpu in rows.gpus] for shape in rows.shapes])
    return table[rows.shape, rows.gpu], rows.of_gpu("bf16_flops")


def _context(rows: Candidates) -> Float:
    """Tokens that a decoding sequence has behind it, on average over its output."""
    return rows.prompt_tokens + rows.output_tokens / 2


def _latent_context(rows: Candidates, context: Float) -> Float:
    """Tokens of context that latent attention reads: a bounded number where an indexer picks them."""
    sparse = rows.of_shape("sparse_layers") > 0
    return np.where(sparse, np.minimum(context, SPARSE_TOKENS), context)


def _windowed(rows: Candidates, context: Float) -> Float:
    windows = rows.of_shape("window_tokens")
    return np.minimum(context, np.where(windows > 0, windows, _UNBOUNDED))


def _cache_bytes(rows: Candidates, kv_split: Float, tp: Float) -> Float:
    """Bytes of cache one GPU reads for one sequence in a step; recurrent state is read and written."""
    shape, context = rows.of_shape, _context(rows)
    heads = shape("full_elements") * context + shape("window_elements") * _windowed(rows, context)
    latent = shape("latent_elements") * _latent_context(rows, context)  # one latent: a copy on each GPU
    index = shape("index_bytes") * context
    return shape("kv_bytes_per_element") * (heads / kv_split + latent) + index + 2 * shape("state_bytes") / tp


def _attention_flops(rows: Candidates) -> Float:
    """FLOPs of attention for one token of one decoding sequence."""
    shape, context = rows.of_shape, _context(rows)
    return (
        shape("full_attention_flops") * context
        + shape("window_attention_flops") * _windowed(rows, context)
        + shape("latent_decode_flops") * _latent_context(rows, context)
    )


def _prompt_flops(rows: Candidates) -> Float:
    """FLOPs of attention for one whole prompt: each token sees half of it on average."""
    shape, half = rows.of_shape, rows.prompt_tokens / 2
    return rows.prompt_tokens * (
        shape("full_attention_flops") * half
        + shape("window_attention_flops") * _windowed(rows, half)
        + shape("latent_prefill_flops") * _latent_context(rows, half)
    )
