"""What people write who know other tools, and the key of a scenario that asks for it."""

from __future__ import annotations

from typing import Any

from recommender.scenario_file.document import Trail, dotted
from recommender.units import parse_tokens

_MEANT = {
    "budget": "limits.usd_per_month",
    "budget_usd_per_month": "limits.usd_per_month",
    "dtype": "search.weights",
    "gpu": "search.gpus",
    "kv_cache_dtype": "search.kv_dtypes",
    "kv_dtype": "search.kv_dtypes",
    "market": "search.markets",
    "provider": "search.providers",
    "qps": "workload.rate_per_s",
    "quantization": "search.weights",
    "region": "search.regions",
    "rps": "workload.rate_per_s",
    "tensor_parallel_size": "search.tp",
    "users": "workload.concurrency",
    "workload.requests_per_s": "workload.rate_per_s",
}
"""By the last word of a key, or by the whole of it where the word alone says something else elsewhere."""
_CHOSEN = {
    "max_model_len": "nothing: it is chosen; adjustments: {forbid: max_model_len} keeps the model's own",
    "max_num_seqs": "nothing: it is chosen, so that workload.concurrency requests run at once",
}
"""What the search decides, and how it is told what matters."""
_LONGEST = 40  # characters that a suggestion repeats


def meant_key(trail: Trail) -> str | None:
    """The key that such a word asks for; None where it is not known, or says something of one item of a list."""
    if any(isinstance(step, int) for step in trail):
        return None
    return _MEANT.get(dotted(trail)) or _MEANT.get(str(trail[-1]))


def chosen_instead(trail: Trail) -> str | None:
    """What to write instead of a key that the search decides; None where it is no such key."""
    return _CHOSEN.get(str(trail[-1]))


def meant_lengths(value: Any) -> str | None:
    """The form of lengths that a plain value stands for: a number of tokens, a file, or the name of a data set."""
    if isinstance(value, bool) or not isinstance(value, int | str) or not 0 < len(str(value)) <= _LONGEST:
        return None
    try:
        form = "fixed" if parse_tokens(value) > 0 else None
    except (ValueError, ArithmeticError):
        form = "trace" if "." in str(value) else "preset"
    return form and f"{form}: {value}"
