"""Rows of a log that are no generation served by the engine, by the words of a gateway or a benchmark.

Sources: LiteLLM's schema.prisma; aiperf's profile_export.jsonl.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from recommender.workload.logs.tally import Mask

_OTHER_CALLS = ("embedding", "rerank", "moderation", "image", "speech", "transcription", "audio", "search", "list")
_FAILURES = ("fail", "error", "cancel", "timeout", "abort")
_TRUE = ("true", "1", "t", "yes")


def excluded(role: str, word: str) -> str | None:
    """Why a row with this call type, status, cache hit or cancellation is left out; None where it is not."""
    folded = word.casefold()
    if role == "kind" and any(call in folded for call in _OTHER_CALLS):
        return "not a generation (embedding and the like)"
    if (role == "status" and _failed(folded)) or (role == "cancelled" and folded in _TRUE):
        return "failed"
    if role == "cached" and folded in _TRUE:
        return "answered from a cache in front of the engine"
    return None


def _failed(status: str) -> bool:
    if status.isdigit():
        return int(status) >= 400
    return any(word in status for word in _FAILURES)


def exclude(masks: dict[str, Mask], more: Mapping[str, Mask]) -> None:
    """Add rows to `masks` by reason: what several columns give the same reason for is left out by any of them."""
    for reason, mask in more.items():
        masks[reason] = np.logical_or(masks[reason], mask) if reason in masks else mask
