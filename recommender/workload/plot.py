"""A length distribution drawn in text: by octave, the share of prompts, of outputs and of whole requests."""

from __future__ import annotations

import math
from collections.abc import Sequence

from recommender.workload.lengths import Cell

_BAR = 21
_BLOCKS = " ▏▎▍▌▋▊▉█"


def plot(cells: Sequence[Cell] | Sequence[tuple[float, float, float]]) -> str:
    """A table of octaves with a bar for the share of requests in each, at most 100 columns wide."""
    rows = [(cell.weight, cell.input_tokens, cell.output_tokens) if isinstance(cell, Cell) else cell for cell in cells]
    weight = sum(row[0] for row in rows)
    shares: dict[str, dict[int, float]] = {"prompt": {}, "output": {}, "prompt + output": {}}
    for count, prompt, output in rows:
        for side, tokens in zip(shares, (prompt, output, prompt + output), strict=True):
            octave = octave_of(tokens)
            shares[side][octave] = shares[side].get(octave, 0.0) + count / weight
    used = [octave for side in shares.values() for octave in side]
    largest = max(share for side in shares.values() for share in side.values())
    lines = [f"{'tokens':>17}  " + " ".join(f"{side:<{_BAR + 5}}" for side in shares).rstrip()]
    for octave in range(min(used), max(used) + 1):
        bars = " ".join(_bar(side.get(octave, 0.0), largest) for side in shares.values())
        lines.append(f"{_range(octave):>17}  {bars}".rstrip())
    return "\n".join(lines) + "\n"


def octave_of(tokens: float) -> int:
    """The k of lengths above 2^(k-1) and at most 2^k."""
    return max(0, math.ceil(math.log2(tokens) - 1e-9)) if tokens > 0 else 0


def _range(octave: int) -> str:
    low, high = 2**octave // 2 + 1, 2**octave
    return f"{high:,}" if low >= high else f"{low:,}-{high:,}"


def _bar(share: float, largest: float) -> str:
    percent = f"{100 * share:3.0f}%" if share >= 0.005 or share == 0 else " <1%"
    return f"{percent if share else '    '} {bar(share / largest, _BAR):<{_BAR}}"


def bar(share: float, width: int) -> str:
    """A bar as long as a share, 0 to 1, of so many columns: exact to an eighth of one, and seen wherever above 0."""
    eighths = round(8 * width * share)
    if share > 0:
        eighths = max(eighths, 1)
    return _BLOCKS[8] * (eighths // 8) + (_BLOCKS[eighths % 8] if eighths % 8 else "")
