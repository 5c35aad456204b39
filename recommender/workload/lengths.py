"""Request lengths as joint cells: how often, how long a prompt, how long an output. Fixed lengths are one cell."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache

from recommender.units import round_up

MAXIMUM_TOKENS = 2**24
"""Longest request taken seriously: above every published context length (10 Mi tokens); longer ones are faulty rows."""

HOURS = (24, 168)
"""Of a day and of a week: what a profile by the hour may cover."""

_SAME_SHARE = 1e-12
_BELOW_POINT = 1 - 1e-6  # a stated quantile is the first length that reaches its share: all shorter ones stay below


@dataclass(frozen=True, slots=True)
class Cell:
    """`weight` requests (any positive unit) with `input_tokens` of prompt and `output_tokens` generated (means)."""

    weight: float
    input_tokens: float
    output_tokens: float


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How requests arrive: the mean rate and, by window length in seconds, the busiest window's rate over the mean.

    `hourly` are 24 or 168 rates over the mean by the hour of the day or the week (UTC, from Monday; from the start of a
    log that states no dates); empty where a log is shorter than a day.
    """

    duration_s: float
    rate_per_s: float
    peak_to_mean: tuple[tuple[int, float], ...] = ()  # (window_s, ratio)
    hourly: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Lengths:
    """A request-length distribution.

    `total_only` marks a fixed total whose split into prompt and output was not given: sizing in the worst case needs no
    split, everything else refuses it. `maximum_tokens` is the longest request (prompt + output), exact where known.
    `totals` are exact (tokens, cumulative share) points of prompt + output where the source states them. `spread` says
    that a cell is the mean of a half-octave bucket of requests, not requests of exactly that length.

    `longest_prompt` is the longest prompt where known. `asked_tokens` is the max_tokens that every client sends: the
    engine takes a request only where prompt + asked tokens fit, so that is the length that max_model_len must serve.
    """

    cells: tuple[Cell, ...]
    maximum_tokens: int
    total_only: bool = False
    totals: tuple[tuple[float, float], ...] = ()
    name: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()
    spread: bool = False
    arrivals: Arrivals | None = None
    longest_prompt: int | None = None
    asked_tokens: int | None = None
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        """Hash once: laws are looked up by their lengths, thousands of times in a search."""
        object.__setattr__(self, "_hash", hash((self.cells, self.maximum_tokens, self.totals, self.asked_tokens)))

    def __hash__(self) -> int:
        return self._hash


@lru_cache(maxsize=1)
def bucket_edges() -> tuple[int, ...]:
    """Upper edges of the half-octave buckets, round(2^(k/2)), from 1 to beyond the longest request."""
    return tuple(sorted({round(2 ** (k / 2)) for k in range(51)}))


def asking(lengths: Lengths, max_tokens: int) -> Lengths:
    """The same requests from clients that all send this max_tokens; outputs end there.

    The longest prompt is the stated one, else that of the longest cell (its bucket's end where cells are means).
    """
    longest = lengths.longest_prompt
    if longest is None:
        prompts = [cell.input_tokens for cell in lengths.cells]
        longest = math.ceil(max(_edges_around(tokens)[1] if lengths.spread else tokens for tokens in prompts))
    cells = tuple(replace(cell, output_tokens=min(cell.output_tokens, float(max_tokens))) for cell in lengths.cells)
    return replace(lengths, cells=cells, totals=(), maximum_tokens=longest + max_tokens, asked_tokens=max_tokens)


def mean_tokens(lengths: Lengths) -> tuple[float, float]:
    """(prompt, output) tokens of the mean request; of a fixed total all is prompt."""
    weight = sum(cell.weight for cell in lengths.cells)
    prompt = sum(cell.weight * cell.input_tokens for cell in lengths.cells) / weight
    return prompt, sum(cell.weight * cell.output_tokens for cell in lengths.cells) / weight


def mean_request(lengths: Lengths) -> tuple[float, float]:
    """(prompt, output) tokens of the mean request as an engine computes it: at least one of each."""
    prompt, output = mean_tokens(lengths)
    return max(prompt, 1.0), max(output, 1.0)


def total_quantile(lengths: Lengths, share: float | Decimal) -> int:
    """The fewest tokens T such that at least `share` of the requests have prompt + output <= T.

    Exact at a stated point, at 1, and wherever cells are exact requests; else read off the cells between stated points.
    """
    share = float(share)
    if not 0 < share <= 1:
        raise ValueError(f"a share of requests lies above 0 and at most at 1, not {share}")
    if share >= 1 - _SAME_SHARE:
        return lengths.maximum_tokens
    law = _total_law(lengths)
    return bisect_left(range(lengths.maximum_tokens), share - _SAME_SHARE, key=law.share)


def served_share(lengths: Lengths, max_model_len: int) -> float:
    """The share of requests whose prompt + output is at most `max_model_len` tokens."""
    if max_model_len >= lengths.maximum_tokens:
        return 1.0
    return _total_law(lengths).share(max_model_len)


def prompt_share(lengths: Lengths, tokens: int) -> float:
    """The share of requests whose prompt is at most `tokens`, read off the cells."""
    weight = sum(cell.weight for cell in lengths.cells)
    below = sum(cell.weight * _share_of_prompts(cell, tokens, spread=lengths.spread) for cell in lengths.cells)
    return min(below / weight, 1.0)


def _share_of_prompts(cell: Cell, tokens: int, *, spread: bool) -> float:
    if not spread:
        return float(cell.input_tokens <= tokens)
    low, high = _edges_around(cell.input_tokens)
    return _share_of_bucket(tokens, low, min(max(cell.input_tokens, low), high), high)


def max_model_len_for(lengths: Lengths, served_share: float | Decimal, block: int = 16) -> int:
    """The smallest multiple of `block` tokens that is a max_model_len serving `served_share` of the requests."""
    return round_up(total_quantile(lengths, served_share), block)


@dataclass(frozen=True, slots=True)
class _TotalLaw:
    """The cumulative share of prompt + output: cells alone, or cells scaled to pass through the stated points."""

    tokens: tuple[float, ...]  # sorted cell totals; cumulative[i] is the share of cells at or below tokens[i]
    cumulative: tuple[float, ...]
    points: tuple[tuple[float, float], ...]
    buckets: tuple[tuple[float, float, float, float], ...]  # share, lowest, mean, highest total of each bucket

    def share(self, tokens: int) -> float:
        if not self.points:
            return self._of_cells(tokens)
        place = bisect_left(self.points, (tokens + 0.5, 0.0))
        if place == 0:
            return 0.0
        if place == len(self.points):
            return 1.0
        (low, low_share), (high, high_share) = self.points[place - 1], self.points[place]
        below, above = self._of_cells(low), self._of_cells(high - 1)
        within = (self._of_cells(tokens) - below) / (above - below) if above > below else 0.0
        return low_share + (high_share - low_share) * min(max(within, 0.0), _BELOW_POINT)

    def _of_cells(self, tokens: float) -> float:
        if self.buckets:
            return sum(share * _share_of_bucket(tokens, low, mean, high) for share, low, mean, high in self.buckets)
        place = bisect_left(self.tokens, tokens + 1e-9)
        return self.cumulative[place - 1] if place else 0.0


@lru_cache(maxsize=32)
def _total_law(lengths: Lengths) -> _TotalLaw:
    weight = sum(cell.weight for cell in lengths.cells)
    totals = sorted((cell.input_tokens + _reserved(cell, lengths), cell.weight) for cell in lengths.cells)
    cumulative, running = [], 0.0
    for _, part in totals:
        running += part
        cumulative.append(running / weight)
    buckets = tuple(_bucket_of(cell, weight, lengths) for cell in lengths.cells) if lengths.spread else ()
    return _TotalLaw(tuple(tokens for tokens, _ in totals), tuple(cumulative), _stated_points(lengths), buckets)


def _stated_points(lengths: Lengths) -> tuple[tuple[float, float], ...]:
    """The stated points with both ends added, one share a token count (the largest), increasing in both."""
    if not lengths.totals:
        return ()
    by_tokens: dict[float, float] = {}
    for tokens, share in sorted((*lengths.totals, (lengths.maximum_tokens, 1.0))):
        by_tokens[tokens] = max(share, by_tokens.get(tokens, 0.0))
    points = sorted(by_tokens.items())
    if points[0][1] > 0:
        points.insert(0, (0.0, 0.0))
    return tuple(points)


def _reserved(cell: Cell, lengths: Lengths) -> float:
    """The output that max_model_len must leave room for: what was generated, or what the clients ask for."""
    return cell.output_tokens if lengths.asked_tokens is None else float(lengths.asked_tokens)


def _bucket_of(cell: Cell, weight: float, lengths: Lengths) -> tuple[float, float, float, float]:
    output = _reserved(cell, lengths)
    low_in, high_in = _edges_around(cell.input_tokens)
    low_out, high_out = _edges_around(output) if lengths.asked_tokens is None else (output, output)
    low, high = low_in + low_out, high_in + high_out
    return cell.weight / weight, low, min(max(cell.input_tokens + output, low), high), high


def _edges_around(mean_tokens: float) -> tuple[float, float]:
    edges = bucket_edges()
    place = bisect_left(edges, mean_tokens - 0.5)
    return (edges[place - 1] + 1 if place else 0, edges[place])


def _share_of_bucket(tokens: float, low: float, mean: float, high: float) -> float:
    """The share of one bucket at or below `tokens`: even below and even above its mean, weighted to keep the mean."""
    if tokens >= high:
        return 1.0
    if tokens < low:
        return 0.0
    weight_below = (high - mean) / (high - low)
    below = min((tokens - low + 1) / (mean - low + 1), 1.0)
    above = max((tokens - mean) / (high - mean), 0.0) if high > mean else 0.0
    return weight_below * below + (1 - weight_below) * above
