"""Groups of layers whose pages lie side by side in one block, however their sizes differ (block-outermost layout).

Read from vLLM 0.33.0 v1/core/kv_cache_planning.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recommender.memory.cache_pages import LayerCaches, same_slots
from recommender.units import ceil_div

Group = tuple[LayerCaches, ...]


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Layers that need the same token slots, by page size."""

    parts: tuple[LayerCaches, ...]

    @property
    def repeats(self) -> int:
        """Layers of the most frequent page size."""
        return max(part.layers for part in self.parts)

    @property
    def balanced(self) -> bool:
        """Whether every page size has as many layers: a pattern that repeats and can be split."""
        return len({part.layers for part in self.parts}) == 1


def packed_groups(caches: Sequence[LayerCaches]) -> tuple[Group, ...]:
    """The layers of each group; a group's block is as large as all its pages together."""
    buckets = _buckets(caches)
    mixed = [bucket.repeats for bucket in buckets if bucket.balanced and len(bucket.parts) > 1]
    size = _common_size([bucket.repeats for bucket in buckets if bucket.balanced], max(mixed)) if mixed else None
    return tuple(group for bucket in buckets for group in _split(bucket, size))


def _buckets(caches: Sequence[LayerCaches]) -> list[_Bucket]:
    slots: list[list[LayerCaches]] = []
    for cache in caches:
        for bucket in slots:
            if same_slots(bucket[0].page, cache.page):
                bucket.append(cache)
                break
        else:
            slots.append([cache])
    return [_Bucket(tuple(_by_page(bucket))) for bucket in slots]


def _by_page(caches: Sequence[LayerCaches]) -> Iterator[LayerCaches]:
    sizes: dict[int, list[LayerCaches]] = defaultdict(list)
    for cache in caches:
        sizes[cache.page.page_bytes].append(cache)
    for alike in sizes.values():
        indices = tuple(sorted(index for cache in alike for index in cache.indices))
        yield LayerCaches(alike[0].page, sum(cache.layers for cache in alike), indices)


def _common_size(counts: Sequence[int], least: int) -> int:
    """The number of layers a group gets so that the least padding is needed; of equal ones the largest."""
    return min(range(least, max(counts) + 1), key=lambda size: (sum(-count % size for count in counts), -size))


def _split(bucket: _Bucket, size: int | None) -> Iterator[Group]:
    groups = ceil_div(bucket.repeats, size) if bucket.balanced and size else 1
    for first in range(groups):
        yield tuple(
            LayerCaches(part.page, len(range(first, part.layers, groups)), part.indices[first::groups])
            for part in bucket.parts
        )
