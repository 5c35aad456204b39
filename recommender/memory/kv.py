"""KV cache blocks as the engine forms them: bytes per block, blocks one request needs, tokens, concurrency."""

from __future__ import annotations

from typing import Protocol, TypeVar

T = TypeVar("T")


class KvPool(Protocol):
    """The block pool of one GPU of a replica."""

    bytes_per_block: int
    block_size: int

    def request_blocks(self, tokens: T, in_flight_tokens: T) -> T:
        """Blocks the engine charges one request of `tokens`; works on ints and on int arrays alike."""
        ...
