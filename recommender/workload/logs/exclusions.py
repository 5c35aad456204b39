"""Rows of a log that are no generation served by the engine, by a gateway's words (LiteLLM's schema.prisma)."""

from __future__ import annotations

_OTHER_CALLS = ("embedding", "rerank", "moderation", "image", "speech", "transcription", "audio", "search", "list")
_FAILURES = ("fail", "error", "cancel", "timeout", "abort")


def excluded(role: str, word: str) -> str | None:
    """Why a row with this call type, status or cache hit is left out; None where it is not."""
    folded = word.casefold()
    if role == "kind" and any(call in folded for call in _OTHER_CALLS):
        return "not a generation (embedding and the like)"
    if role == "status" and _failed(folded):
        return "failed"
    if role == "cached" and folded in ("true", "1", "t", "yes"):
        return "answered from a cache in front of the engine"
    return None


def _failed(status: str) -> bool:
    if status.isdigit():
        return int(status) >= 400
    return any(word in status for word in _FAILURES)
