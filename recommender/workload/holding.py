"""Blocks that one request holds at each moment: whole caches, windows and states drawing from one pool."""

from __future__ import annotations

from dataclasses import dataclass

from recommender.units import ceil_div


@dataclass(frozen=True, slots=True)
class Kept:
    """Groups of layers that keep alike: each holds a block for every `block_tokens` tokens.

    With a `window` no more than so many tokens besides those being computed are kept, and `spare` blocks more, as the
    window need not begin with a block.
    """

    block_tokens: int
    groups: int = 1
    window: int | None = None
    spare: int = 0

    def most(self, computing: int) -> int | None:
        """Blocks at which one group stops to grow while so many tokens are computed at once; None: it never does."""
        return None if self.window is None else ceil_div(self.window + computing, self.block_tokens) + self.spare

    def blocks(self, tokens: int, computing: int) -> int:
        """Blocks of all these groups that hold `tokens`, the last `computing` of them being computed."""
        needed, most = ceil_div(tokens, self.block_tokens), self.most(computing)
        return self.groups * (needed if most is None or needed < most else most)


@dataclass(frozen=True, slots=True)
class Holding:
    """What a request holds: `fixed_blocks` of states whatever its length, and what each kind of layers keeps.

    `in_flight_tokens` are those of all batches that run at once: what the engine reserves for a request's windows
    before it admits it (vLLM 0.24 v1/core/single_type_kv_cache_manager.py, max_admission_blocks_per_request).
    """

    kinds: tuple[Kept, ...]
    fixed_blocks: int = 0
    in_flight_tokens: int = 1

    def blocks(self, tokens: int, computing: int = 1) -> int:
        """Blocks of a request of `tokens`, the last `computing` of them being computed."""
        return self.fixed_blocks + sum(kind.blocks(tokens, computing) for kind in self.kinds)

    def to_admit(self, tokens: int) -> int:
        """Blocks that must be free for a request of `tokens` to be admitted."""
        return self.blocks(tokens, self.in_flight_tokens)
