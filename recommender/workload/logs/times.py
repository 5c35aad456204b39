"""Timestamps in seconds: ISO text read by the column, numbers whose unit is known or stated, never guessed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recommender.workload.law import Float
from recommender.workload.logs.columns import folded

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
WIDTH = 40  # characters kept of an ISO timestamp; the longest in use has 35
_LATEST_NS = 1e19  # a time in the year 2286: what is larger is no time
_SHORTEST = 21  # places looked at in every timestamp: to the seconds, the point and one more
_LARGEST_OFFSET_HOURS = 15  # no place on earth is further from UTC than 14
_BLOCK = 8192  # rows turned at a time, so that they stay in the cache
_SECONDS = ("arrivedat", "arrivaltimestamp", "created", "starttimes")
_SECONDS_BESIDE = ("chatid", "parentchatid", "responsetokens", "numprefilltokens", "tokensize")
_MILLISECONDS_BESIDE = ("hashids",)


def timestamp_unit(column: str, present: tuple[str, ...], sample: Any, stated: str | None = None) -> str | None:
    """The unit of a timestamp column: iso, s, ms, us or ns; None where neither the file nor the user says.

    Text is ISO. Numbers above 1e9 can only be time since 1970, in a unit that their size gives away. Smaller ones count
    from the log's own start: the format's other columns tell seconds (Bailian, BurstGPT, vidur) from milliseconds
    (Mooncake), else the user must say (`auto` means seconds).
    """
    number = as_number(sample)
    if number is None:
        return "iso" if isinstance(sample, str) and sample.strip() else None
    if not math.isfinite(number):
        return None
    if stated in UNITS:
        return stated
    for floor, unit in ((_LATEST_NS, None), (1e17, "ns"), (1e14, "us"), (1e11, "ms"), (1e9, "s")):
        if number >= floor:
            return unit
    name = folded(column).rsplit(".", 1)[-1]
    beside = {folded(each).rsplit(".", 1)[-1] for each in present}
    if name.endswith(("unixms", "timems")):
        return "ms"
    if name.endswith("ns"):
        return "ns"
    if name in _SECONDS or beside.intersection(_SECONDS_BESIDE) or (name == "t" and {"in", "out"} <= beside):
        return "s"
    if beside.intersection(_MILLISECONDS_BESIDE):
        return "ms"
    return "s" if stated == "auto" else None


def usable(samples: Iterable[Any]) -> Any:
    """The first value that says how times are written: text, or a finite number; None where there is none."""
    for sample in samples:
        number = as_number(sample)
        if number is None:
            if isinstance(sample, str) and sample.strip():
                return sample
        elif math.isfinite(number):
            return sample
    return None


def as_number(value: Any) -> float | None:
    """The number that a value is or spells; None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
    except OverflowError:  # a whole number of hundreds of digits
        return math.inf


def iso_seconds(text: NDArray[np.bytes_]) -> Float:
    """Seconds since 1970 of ISO dates and times (`2023-11-16 18:17:03.9799600`, `...T10:00:00+02:00`); NaN elsewhere.

    Times without an offset are taken as UTC: only differences are used.
    """
    letters = _places(text)
    digits = letters - np.uint8(48)  # what lies below "0" wraps to far above 9
    good = (letters[10] == ord(" ")) | (letters[10] == ord("T")) | (letters[10] == ord("t"))
    for place, mark in ((4, "-"), (7, "-"), (13, ":"), (16, ":")):
        good &= letters[place] == ord(mark)

    def number(*places: int) -> NDArray[np.int32]:
        value = np.zeros(len(text), dtype=np.int32)
        for place in places:
            np.logical_and(good, digits[place] < 10, out=good)
            value = value * np.int32(10) + digits[place]
        return value

    days = _days(number(0, 1, 2, 3), number(5, 6), number(8, 9))
    of_day = (number(11, 12) * 60 + number(14, 15)) * 60 + number(17, 18)
    fraction, ends = _fraction(letters, digits)
    seconds = days * 86400.0 + of_day + fraction
    _subtract_offsets(seconds, letters, digits, ends)
    seconds[~good] = np.nan
    return seconds


def _places(text: NDArray[np.bytes_]) -> NDArray[np.uint8]:
    """The letters by place: row k holds the k-th letter of every timestamp (0 beyond its end)."""
    width = text.dtype.itemsize
    rows = np.ascontiguousarray(text).view(np.uint8).reshape(len(text), width)
    places = np.zeros((max(width, _SHORTEST), len(text)), dtype=np.uint8)
    for start in range(0, len(text), _BLOCK):
        places[:width, start : start + _BLOCK] = rows[start : start + _BLOCK].T
    return places


def _days(year: NDArray[np.int32], month: NDArray[np.int32], day: NDArray[np.int32]) -> NDArray[np.int32]:
    """Days since 1970-01-01 in the Gregorian calendar (years that begin in March)."""
    early = month <= 2
    year = year - early
    month = np.where(early, month + 9, month - 3)
    leaps = year // 4 - year // 100 + year // 400
    return 365 * year + leaps + (153 * month + 2) // 5 + day - 1 - 719468


def _fraction(letters: NDArray[np.uint8], digits: NDArray[np.uint8]) -> tuple[Float, NDArray[np.int64]]:
    """The fraction of a second after place 19, and the place where each row's time ends."""
    inside = (letters[19] == ord(".")) | (letters[19] == ord(","))
    value, ends, scale = np.zeros(letters.shape[1]), 19 + inside.astype(np.int64), 0.1
    for place in range(20, min(len(letters), 30)):
        inside = inside & (digits[place] < 10)
        if not inside.any():
            break
        value += np.where(inside, digits[place], 0) * scale
        ends += inside
        scale /= 10
    return value, ends


def _subtract_offsets(
    seconds: Float, letters: NDArray[np.uint8], digits: NDArray[np.uint8], ends: NDArray[np.int64]
) -> None:
    """Take `+02:00`, `-0530` or `+02` after the time off the seconds, where there is one."""
    last = len(letters) - 1
    sign = letters[np.minimum(ends, last), np.arange(len(ends))]
    rows = np.flatnonzero((sign == ord("+")) | (sign == ord("-")))
    if not len(rows):
        return

    def digit(place: NDArray[np.int64]) -> NDArray[np.int64]:
        found = digits[np.minimum(place, last), rows].astype(np.int64)
        return np.where((place <= last) & (found < 10), found, 0)

    start = ends[rows]
    minutes = start + 3 + (letters[np.minimum(start + 3, last), rows] == ord(":"))
    hours, of_hour = digit(start + 1) * 10 + digit(start + 2), digit(minutes) * 10 + digit(minutes + 1)
    east = hours * 3600.0 + of_hour * 60
    east[(hours > _LARGEST_OFFSET_HOURS) | (of_hour >= 60)] = np.nan
    seconds[rows] -= np.where(sign[rows] == ord("+"), east, -east)


def seconds_of(values: Float, unit: str) -> Float:
    """Seconds from numbers in a unit."""
    return values * UNITS[unit]


def describe(unit: str | None, columns: Mapping[str, str]) -> str:
    """What the timestamps were taken as, for the report."""
    if "timestamp" not in columns:
        return "no timestamps"
    if unit is None:
        return f"{columns['timestamp']}: unit not stated, arrivals left out (timestamp_unit: s, ms or auto)"
    return f"{columns['timestamp']}: " + ("date and time" if unit == "iso" else unit)
