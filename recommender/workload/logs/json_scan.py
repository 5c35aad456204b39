"""Values of JSON lines found by their keys, a block of lines at a time, without decoding the lines."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recommender.workload.law import Float, Int
from recommender.workload.logs.columns import TIMES, WORDS, Columns
from recommender.workload.logs.exclusions import exclude, excluded
from recommender.workload.logs.tally import Batch, Mask, Tally
from recommender.workload.logs.times import WIDTH, iso_seconds, seconds_of

Bytes = NDArray[np.uint8]

_ROLES = ("input", "output", "total", *TIMES, *WORDS)
_DIGITS = 16
_ENDS = np.isin(np.arange(256), list(b",}] \t\r\n"))


@dataclass(frozen=True, slots=True)
class _Found:
    """Where a key's values begin, and the line of each; lines where it stands more than once are marked."""

    starts: Int
    lines: Int
    repeated: Mask


@dataclass(frozen=True, slots=True)
class Scanner:
    """Reads blocks of lines for the columns of one file."""

    patterns: dict[str, re.Pattern[bytes]]
    unit: str | None

    @classmethod
    def of(cls, chosen: Columns, unit: str | None) -> Scanner | None:
        """A scanner; None where keys alone do not tell the values apart, so that lines must be decoded."""
        wanted = {role: path for role, path in chosen.of.items() if role in _ROLES and (unit or role not in TIMES)}
        keys = {role: path.rsplit(".", 1)[-1] for role, path in wanted.items()}
        often = Counter(path.rsplit(".", 1)[-1] for path in chosen.present)
        plain = all(often[key] == 1 and key.isascii() and '"' not in key and "\\" not in key for key in keys.values())
        if chosen.summed or "elapsed" in chosen.of or not plain:
            return None
        return cls(
            {role: re.compile(b'"%s"[ \\t]*:[ \\t]*' % re.escape(key.encode())) for role, key in keys.items()}, unit
        )

    def scan(self, block: bytes, tally: Tally) -> list[bytes]:
        """Count the block's plain lines; gives back the lines that need a decoder."""
        letters = np.frombuffer(block + b" " * (WIDTH + 1), dtype=np.uint8)
        ends = np.flatnonzero(letters[: len(block)] == ord("\n"))
        starts = np.concatenate([[0], ends[:-1] + 1])
        odd = _without_brace(letters, ends)
        values: dict[str, Float] = {}
        masks: dict[str, Mask] = {}
        for role, pattern in self.patterns.items():
            found = _find(pattern, block, ends)
            odd |= found.repeated
            if role in WORDS:
                exclude(masks, _excluded(role, letters, found, len(ends)))
            else:
                values[role] = self._values(role, letters, found, len(ends))
        odd |= np.isnan(values["input"]) | np.isnan(values["output"])
        plain = ~odd
        taken = {role: column[plain] for role, column in values.items()}
        tally.add(
            Batch(
                input=taken["input"],
                output=taken["output"],
                time=taken.get("timestamp"),
                end=taken.get("end"),
                first_token=taken.get("first_token"),
                total=taken.get("total"),
                excluded={reason: mask[plain] for reason, mask in masks.items()},
            )
        )
        return [block[starts[line] : ends[line]] for line in np.flatnonzero(odd)]

    def _values(self, role: str, letters: Bytes, found: _Found, lines: int) -> Float:
        """The numbers (or times) of a key by line; NaN where there is none or it is no plain number."""
        column = np.full(lines, np.nan)
        if role in TIMES and self.unit == "iso":
            column[found.lines] = iso_seconds(_words(letters, found.starts))
        else:
            column[found.lines] = _numbers(letters, found.starts)
            if role in TIMES:
                column = seconds_of(column, self.unit or "s")
        return column


def _without_brace(letters: Bytes, ends: Int) -> Mask:
    """Lines that do not end in a closing brace: cut off, or blank."""
    last = letters[np.maximum(ends - 1, 0)]
    before = letters[np.maximum(ends - 2, 0)]
    whole: Mask = (last == ord("}")) | ((last == ord("\r")) & (before == ord("}")))
    return ~whole


def _find(pattern: re.Pattern[bytes], block: bytes, ends: Int) -> _Found:
    starts = np.fromiter((match.end() for match in pattern.finditer(block)), dtype=np.int64)
    lines = np.searchsorted(ends, starts)
    return _Found(starts, lines, np.bincount(lines, minlength=len(ends)) > 1)


def _numbers(letters: Bytes, starts: Int) -> Float:
    """Numbers that begin at each start: whole ones by their digits, others one by one; NaN for what is no number."""
    places = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(letters, _DIGITS)[starts].T)
    digits = places - np.uint8(48)
    value, inside = np.zeros(len(starts)), np.ones(len(starts), dtype=np.bool_)
    length = np.zeros(len(starts), dtype=np.int64)
    for place in range(_DIGITS - 1):
        inside = inside & (digits[place] < 10)
        if not inside.any():
            break
        value = np.where(inside, value * 10 + digits[place], value)
        length += inside
    ended = _ENDS[places[length, np.arange(len(starts))]]
    whole = (length > 0) & ended
    value[~whole] = np.nan
    for row in np.flatnonzero(~whole):
        value[row] = _number(letters[starts[row] : starts[row] + WIDTH].tobytes())
    return value


def _number(text: bytes) -> float:
    word = re.split(rb"[,}\]\s]", text, maxsplit=1)[0].strip(b'"')
    try:
        return float(word)
    except ValueError:
        return float("nan")


def _words(letters: Bytes, starts: Int) -> NDArray[np.bytes_]:
    """The text that begins at each start, without its quotes, cut where it ends."""
    quoted = letters[starts] == ord('"')
    rows = np.lib.stride_tricks.sliding_window_view(letters, WIDTH)[starts + quoted].copy()
    stops = np.where(quoted[:, None], rows == ord('"'), _ENDS[rows])
    rows[np.logical_or.accumulate(stops, axis=1)] = 0
    text: NDArray[np.bytes_] = np.ascontiguousarray(rows).view(f"S{WIDTH}").reshape(-1)
    return text


def _excluded(role: str, letters: Bytes, found: _Found, lines: int) -> dict[str, Mask]:
    """Masks by reason of the lines whose word says that they are no served generation."""
    words, of_row = np.unique(_words(letters, found.starts), return_inverse=True)
    masks: dict[str, Mask] = {}
    for place, word in enumerate(words.tolist()):
        reason = excluded(role, word.decode("ascii", "replace"))
        if reason:
            mask = masks.setdefault(reason, np.zeros(lines, dtype=np.bool_))
            mask[found.lines[of_row == place]] = True
    return masks
