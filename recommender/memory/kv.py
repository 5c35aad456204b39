"""KV cache blocks as the engine forms them: bytes per block, blocks one request needs, tokens, concurrency."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Model
from recommender.errors import NotModelledError
from recommender.memory.cache_layers import cache_dtype, layer_caches
from recommender.memory.cache_pages import CachePage, LayerCaches, same_slots
from recommender.memory.engine import EngineConstants
from recommender.memory.packed_groups import packed_groups
from recommender.units import ceil_div

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Count = TypeVar("Count", "int", "NDArray[np.int64]")


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Layers that share one block table. `page` says how a request grows in it; `parts` are the layers' own pages."""

    page: CachePage
    parts: tuple[LayerCaches, ...]

    def block_bytes(self, stage: range | None = None) -> int:
        """Bytes of one block of the layers of one pipeline stage (None: of all layers)."""
        return sum(
            part.page.page_bytes * (part.layers if stage is None else sum(i in stage for i in part.indices))
            for part in self.parts
        )

    def request_blocks(self, tokens: Any, in_flight_tokens: Any) -> Any:
        """Blocks the engine charges one request of `tokens` (an int, or an int64 array)."""
        page = self.page
        if page.growth == "state":
            return page.states + 0 * tokens
        if page.growth == "full":
            return -(-tokens // page.block_size)
        if page.growth == "sliding":
            kept = _smaller(page.window - 1 + in_flight_tokens, tokens)
            return -(-kept // page.block_size) + 1
        return -(-_smaller(page.window + in_flight_tokens, tokens) // page.block_size)

    def steady_blocks(self, tokens: int) -> int:
        """Blocks a request of `tokens` still holds once its prompt is processed: the window, not what was in flight."""
        page = self.page
        if page.growth == "state":
            return page.states
        return ceil_div(min(page.window, tokens) if page.window else tokens, page.block_size)


@dataclass(frozen=True, slots=True)
class KvPool:
    """The block pool of one GPU: all groups draw from it.

    `kv_bytes_per_token` is what one more token takes in the layers whose cache grows with the request (in the sliding
    ones where no layer grows for good).
    """

    bytes_per_block: int
    block_size: int
    groups: tuple[CacheGroup, ...]
    kv_bytes_per_token: int

    def request_blocks(self, tokens: Count, in_flight_tokens: Count) -> Count:
        """Blocks the engine charges one request of `tokens`; works on ints and on int64 arrays alike."""
        blocks: Any = 0
        for group in self.groups:
            blocks = blocks + group.request_blocks(tokens, in_flight_tokens)
        return blocks  # type: ignore[no-any-return]

    def steady_blocks(self, tokens: int) -> int:
        """Blocks a request of `tokens` still holds once its prompt is processed; never more than `request_blocks`."""
        return sum(group.steady_blocks(tokens) for group in self.groups)

    def blocks(self, available_bytes: int) -> int:
        """Blocks that so many bytes hold, the null block among them."""
        return max(0, available_bytes) // self.bytes_per_block

    def longest_request(self, blocks: int, in_flight_tokens: int, limit: int) -> int:
        """The longest request, up to `limit` tokens, that so many blocks hold; 0 where not one token fits."""
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if self.request_blocks(middle, in_flight_tokens) <= blocks:
                low = middle
            else:
                high = middle - 1
        return low


@dataclass(frozen=True, slots=True)
class KvSize:
    """What the engine logs of a pool: blocks, tokens, and how many requests of max_model_len it holds."""

    blocks: int
    tokens: int
    max_concurrency: float


def kv_size(
    pool: KvPool, constants: EngineConstants, generation: str, blocks: int, max_model_len: int, in_flight_tokens: int
) -> KvSize:
    """The figures that this engine version logs for a pool of so many blocks."""
    concurrency = blocks / pool.request_blocks(max_model_len, in_flight_tokens)
    if generation == "V0":
        tokens = blocks * pool.block_size
        return KvSize(blocks, tokens, tokens / max_model_len)
    if constants.tokens_from_concurrency:
        return KvSize(blocks, int(concurrency * max_model_len), concurrency)
    return KvSize(blocks, blocks // len(pool.groups) * pool.block_size, concurrency)


def kv_pool(
    model: Model,
    constants: EngineConstants,
    gpu: Gpu,
    *,
    tp: int,
    kv_dtype: str,
    weights: str,
    stage: range | None = None,
) -> KvPool:
    """The pool of one tensor-parallel rank of one pipeline stage. Raises NotModelledError naming the attention kind."""
    caches = layer_caches(model, constants, gpu, tp, cache_dtype(model, constants, kv_dtype, weights))
    if any(layers.kind == "compressed" for layers in model.attention):
        groups = tuple(CacheGroup(parts[0].page, parts) for parts in packed_groups(caches))
    else:
        caches = caches if constants.hybrid_groups else _all_full(caches)
        groups = form_groups(caches)
    return KvPool(
        bytes_per_block=max(group.block_bytes(stage) for group in groups),
        block_size=caches[0].page.block_size,
        groups=groups,
        kv_bytes_per_token=_bytes_per_token(caches, stage),
    )


def form_groups(caches: Sequence[LayerCaches]) -> tuple[CacheGroup, ...]:
    """Layers in groups that share a block table (vLLM 0.33 v1/core/kv_cache_planning.py).

    Layers that need the same number of token slots are one group. Others get pages of one size, and each kind is split
    into groups of about the smallest kind's layer count, all drawing equal blocks from one pool.
    """
    first = caches[0].page
    if all(same_slots(first, cache.page) for cache in caches):
        return (CacheGroup(first, tuple(caches)),)
    buckets = _merged(_one_page_size(caches))
    counts = [bucket.layers for bucket in buckets]
    size = max(counts) if max(counts) < 1.5 * min(counts) else min(counts)
    return tuple(group for bucket in buckets for group in _split(bucket, ceil_div(bucket.layers, size)))


def _one_page_size(caches: Sequence[LayerCaches]) -> Iterable[LayerCaches]:
    """The same layers with pages of one size: more tokens in smaller pages, or padding where no whole ratio fits."""
    largest = max(cache.page.page_bytes for cache in caches)
    for cache in caches:
        page = cache.page
        ratio, rest = divmod(largest, page.page_bytes)
        if page.growth == "state" or (rest and not page.latent):
            yield replace(cache, page=replace(page, page_bytes=largest))
        elif rest:
            raise NotModelledError("a latent cache page that does not divide the other layers' page is not modelled")
        else:
            yield replace(cache, page=replace(page, page_bytes=largest, block_size=page.block_size * ratio))


def _merged(caches: Iterable[LayerCaches]) -> list[LayerCaches]:
    merged: dict[CachePage, LayerCaches] = {}
    for cache in caches:
        same = merged.get(cache.page)
        indices = tuple(sorted((*same.indices, *cache.indices))) if same else cache.indices
        merged[cache.page] = LayerCaches(cache.page, (same.layers if same else 0) + cache.layers, indices)
    return list(merged.values())


def _split(bucket: LayerCaches, groups: int) -> Iterable[CacheGroup]:
    """Every `groups`-th layer of a kind is one group, so that pipeline stages keep the ratio."""
    for first in range(groups):
        layers = len(range(first, bucket.layers, groups))
        part = LayerCaches(bucket.page, layers, bucket.indices[first::groups])
        yield CacheGroup(bucket.page, (part,))


def _all_full(caches: Sequence[LayerCaches]) -> tuple[LayerCaches, ...]:
    """Sliding and chunked layers allocated as full ones, as before groups existed; alone they keep their window."""
    if all(same_slots(caches[0].page, cache.page) for cache in caches):
        return tuple(caches)
    return tuple(
        replace(cache, page=replace(cache.page, growth="full", window=0)) if cache.page.window else cache
        for cache in caches
    )


def _bytes_per_token(caches: Sequence[LayerCaches], stage: range | None) -> int:
    growing = [cache for cache in caches if cache.page.growth == "full"]
    counted = growing or [cache for cache in caches if cache.page.growth != "state"]
    return sum(CacheGroup(cache.page, (cache,)).block_bytes(stage) // cache.page.block_size for cache in counted)


def _smaller(one: Any, other: Any) -> Any:
    """The smaller of two counts, ints or int64 arrays, with one expression so that both forms cannot differ."""
    return one + (other - one) * (other < one)
