"""About how many sequences a replica's memory has room for, where no memory model was asked."""

from __future__ import annotations

import numpy as np

from recommender.speed.candidates import Candidates, Float
from recommender.speed.work import Work

UTILIZATION = 0.9
RESERVE_BYTES = 2.5e9
"""Activations, graphs and libraries of one GPU: about what start-up logs show on 80 GB cards."""
_IN_FLIGHT = 0.6  # of its output that a running request holds on average, with some room for the unlucky


def weights_per_gpu(rows: Candidates, work: Work) -> Float:
    """Bytes of weights on one GPU: what a step reads of them, and an embedding of the size of the head at most."""
    return (work.dense_bytes + work.expert_bytes) / rows.pp


def estimated_sequences(rows: Candidates, work: Work) -> Float:
    """Sequences of the mean length that fit at once on one replica; 0 where the weights alone do not."""
    memory = np.array([float(gpu.memory_bytes or 0) for gpu in rows.gpus])[rows.gpu]
    weights = weights_per_gpu(rows, work)
    free = (UTILIZATION * memory - RESERVE_BYTES - weights) * rows.pp
    shape, tp = rows.of_shape, rows.tp.astype(np.float64)
    split = np.minimum(tp, np.maximum(shape("kv_heads"), 1))
    tokens = rows.prompt_tokens + _IN_FLIGHT * rows.output_tokens
    windows = shape("window_tokens")
    windowed = np.minimum(tokens, np.where(windows > 0, windows, tokens))
    elements = (shape("full_elements") * tokens + shape("window_elements") * windowed) / split
    cached = shape("kv_bytes_per_element") * (elements + shape("latent_elements") * tokens)
    held = cached + shape("index_bytes") * tokens + shape("state_bytes") / tp
    room = np.floor(np.maximum(free, 0) / np.maximum(held, 1.0)) * rows.dp
    return np.where(weights < memory, np.maximum(room, np.where(free > 0, 1.0, 0.0)), 0.0)
