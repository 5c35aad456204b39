"""What the requests in flight hold: the quantile of their cache, against the worst case."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from recommender.errors import Fault, InputError
from recommender.units import ceil_div
from recommender.workload.law import Law, token_law
from recommender.workload.lengths import Lengths, prompt_share, served_share
from recommender.workload.prefix import SharedPrefix, law_beside_prefix
from recommender.workload.sums import Sum

DEFAULT_EPSILON = 0.01


@dataclass(frozen=True, slots=True)
class InFlight:
    """KV-cache tokens (whole blocks) that `concurrency` requests need on one replica.

    `statistical_tokens` is exceeded in at most `epsilon` of the engine steps; `worst_case_tokens` never. `mean_tokens`
    and `deviation_tokens` are of one request in flight. Requests are served whole, truncated at max_model_len, or
    refused as their prompt leaves no room for an output; the three shares sum to 1.
    """

    concurrency: int
    epsilon: float
    max_model_len: int
    block_size: int
    statistical_tokens: int
    worst_case_tokens: int
    mean_tokens: float
    deviation_tokens: float
    skew: float
    served_share: float
    truncated_share: float
    refused_share: float

    @property
    def total_mean_tokens(self) -> float:
        """The mean of what all requests hold together."""
        return self.concurrency * self.mean_tokens


def inflight_of(
    lengths: Lengths,
    concurrency: int,
    epsilon: float | Decimal = DEFAULT_EPSILON,
    max_model_len: int | None = None,
    block_size: int = 16,
    shared_prefix: SharedPrefix | None = None,
) -> InFlight:
    """What `concurrency` requests at once hold, where max_model_len (default: the longest request) cuts them.

    Mean, deviation and skew are those of a request that shares nothing.
    """
    risk = _checked(concurrency, epsilon, max_model_len, block_size)
    limit = lengths.maximum_tokens if max_model_len is None else max_model_len
    law = block_law(lengths, limit, block_size)
    need = sum_of(lengths, limit, block_size, risk).quantile(concurrency)
    if shared_prefix is not None:
        beside = sum_of(lengths, limit, block_size, risk, shared_prefix).quantile(concurrency)
        need = min(need, shared_prefix.blocks(block_size) + beside)
    served = served_share(lengths, limit)
    refused = max(0.0, 1.0 - prompt_share(lengths, limit - (lengths.asked_tokens or 1)))
    return InFlight(
        concurrency=concurrency,
        epsilon=risk,
        max_model_len=limit,
        block_size=block_size,
        statistical_tokens=need * block_size,
        worst_case_tokens=concurrency * ceil_div(limit, block_size) * block_size,
        mean_tokens=law.mean * block_size,
        deviation_tokens=math.sqrt(law.variance) * block_size,
        skew=law.skew,
        served_share=served,
        truncated_share=max(0.0, 1.0 - served - refused),
        refused_share=max(0.0, min(refused, 1.0 - served)),
    )


@lru_cache(maxsize=16)
def block_law(lengths: Lengths, max_model_len: int, block_size: int, prefix: SharedPrefix | None = None) -> Law:
    """The law of blocks one request holds, besides the shared copy of a prefix where there is one."""
    if prefix is not None:
        return law_beside_prefix(lengths, max_model_len, block_size, prefix)
    return token_law(lengths, max_model_len).in_blocks(block_size)


@lru_cache(maxsize=16)
def sum_of(
    lengths: Lengths, max_model_len: int, block_size: int, risk: float, prefix: SharedPrefix | None = None
) -> Sum:
    """Sums of that law at one risk, kept so that further concurrencies reuse its transforms."""
    return Sum(block_law(lengths, max_model_len, block_size, prefix), risk)


def _checked(concurrency: int, epsilon: float | Decimal, max_model_len: int | None, block_size: int) -> float:
    faults = []
    if concurrency < 1:
        faults.append(Fault(f"{concurrency} requests at once cannot be", key="concurrency", expected="at least 1"))
    if not 1e-9 <= epsilon < 1:
        faults.append(Fault(f"{epsilon} is no risk", key="epsilon", expected="from 1e-9 to below 1, such as 0.01"))
    if max_model_len is not None and max_model_len < 2:
        faults.append(Fault(f"{max_model_len} holds no request", key="max_model_len", expected="at least 2"))
    if block_size < 1:
        faults.append(Fault(f"{block_size} is no block", key="block_size", expected="at least 1"))
    if faults:
        raise InputError(faults)
    return float(epsilon)
