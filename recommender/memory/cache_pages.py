"""The cache page of one layer: one block of tokens, or one recurrent state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Growth = Literal["full", "sliding", "chunked", "state"]


@dataclass(frozen=True, slots=True)
class CachePage:
    """The cache of one layer: `page_bytes` hold `block_size` tokens (a state, where growth is `state`).

    `window` bounds what a sliding or chunked layer keeps; `states` is how many states one request is charged.
    """

    growth: Growth
    block_size: int
    page_bytes: int
    window: int = 0
    states: int = 0
    latent: bool = False


@dataclass(frozen=True, slots=True)
class LayerCaches:
    """Layers that keep the same page. `indices` are the decoder layers, ascending (pipeline stages)."""

    page: CachePage
    layers: int
    indices: tuple[int, ...]


def same_slots(one: CachePage, other: CachePage) -> bool:
    """Whether two layers need the same number of token slots, so that they can share a block table."""
    return replace(one, page_bytes=0, latent=False) == replace(other, page_bytes=0, latent=False)
