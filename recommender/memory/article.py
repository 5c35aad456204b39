"""The `article` memory model: marketing GB, parameters times bytes, a flat 2 GB of run space a GPU, no blocks.

Kept so that the source article's figures can be reproduced to the digit; the `vllm` model is the one to plan with.
All quotients are exact fractions, so that what is printed rounded was never rounded before.
"""

from __future__ import annotations

from fractions import Fraction

from recommender.errors import NotModelledError
from recommender.memory.engine import engine_constants
from recommender.memory.fit import Fit, Replica, Totals
from recommender.memory.refusal import too_long
from recommender.memory.startup import limits_of
from recommender.memory.weights import plain_bytes

RUN_SPACE_BYTES = 2 * 10**9
"""Activations, CUDA graphs and everything else, per GPU, as the article assumes."""
UTILIZATION = Fraction(92, 100)
"""The default of recent vLLM versions, as the article says; any other value is taken as written in decimal."""


def fit_article(replica: Replica) -> Fit:
    """What one replica holds by the article's formulas. Raises NotModelledError for attention other than full."""
    gpus = replica.gpus
    per_token = kv_bytes_per_token(replica)
    utilization = utilization_of(replica.gpu_memory_utilization)
    usable = replica.gpu.memory_bytes_marketing * utilization
    weights = plain_bytes(replica.model, replica.weights)
    cache = cache_bytes(replica)
    tokens = max(Fraction(0), cache / per_token)
    constants = engine_constants(replica.engine, replica.engine_version)
    longest = replica.model.longest(constants.number)
    length = replica.max_model_len or longest
    limits = limits_of(constants, replica.gpu, length, replica.max_num_seqs, replica.max_num_batched_tokens)
    why = _refusal(cache, per_token, length, tokens)
    estimated = None if why is None else int(tokens) or None
    if length > longest:
        why, estimated = too_long(constants, length, longest), None
    return Fit(
        **replica.named,
        max_model_len=length,
        max_num_seqs=limits.max_num_seqs,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        gpu_memory_utilization=float(utilization),
        engine_version=constants.version,
        memory_model="article",
        memory_bytes=replica.gpu.memory_bytes_marketing,
        usable_bytes=round(usable),
        weights_bytes=round(Fraction(weights, gpus)),
        activation_bytes=RUN_SPACE_BYTES,
        non_torch_bytes=0,
        cuda_graph_bytes=0,
        reserve_bytes=RUN_SPACE_BYTES,
        kv_cache_bytes=max(0, round(cache / gpus)),
        kv_bytes_per_token=round(Fraction(per_token, gpus)),
        bytes_per_block=None,
        block_size=None,
        blocks=None,
        kv_cache_tokens=_nearest(tokens),
        max_concurrency=float(tokens / length),
        starts=why is None,
        refusal=why,
        estimated_max_model_len=estimated,
        total=Totals(weights, max(0, round(cache)), per_token),
        extrapolated=(),
        launch_arguments=(),
        sources={"memory": "marketing size x 1e9", "reserve": "the article's assumption of 2 GB a GPU"},
        warnings=("the article's flat 2 GB a GPU: confirm the real reserve in the engine's start-up log",),
    )


def cache_bytes(replica: Replica) -> Fraction:
    """Bytes the whole replica has left for its KV cache, exact; negative where the weights do not fit."""
    utilization = utilization_of(replica.gpu_memory_utilization)
    usable = replica.gpus * replica.gpu.memory_bytes_marketing * utilization
    return usable - plain_bytes(replica.model, replica.weights) - replica.gpus * RUN_SPACE_BYTES


def kv_bytes_per_token(replica: Replica) -> int:
    """2 x layers x KV heads x head size x bytes of the whole model: nothing is replicated in the article."""
    kinds = sorted({layers.kind for layers in replica.model.attention} - {"full"})
    if kinds:
        raise NotModelledError(f"the article's memory model knows full attention only, not {', '.join(kinds)}")
    element = 1 if replica.kv_dtype == "fp8" or replica.model.kv_declared == "fp8" else 2
    heads = sum(at.layers * at.kv_heads * (at.head_dim + at.v_head_dim) for at in replica.model.attention)
    return heads * element


def utilization_of(value: float | None) -> Fraction:
    """The share as the decimal it was written as: 0.92 is 92/100, not the nearest binary number."""
    return UTILIZATION if value is None else Fraction(str(value))


def _refusal(cache: Fraction, per_token: int, length: int, tokens: Fraction) -> str | None:
    if tokens >= length:
        return None
    needed = per_token * length / 1e9
    return (
        f"one request of {length} tokens needs {needed:.1f} GB of KV cache, {float(cache) / 1e9:.1f} GB is available: "
        f"at most {int(tokens)} tokens"
    )


def _nearest(tokens: Fraction) -> int:
    """Rounded half up, as the article's table is."""
    return int(tokens + Fraction(1, 2))
