"""Requests counted as they are read: joint cells, exact quantiles, arrivals, and every row that was dropped."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from recommender.errors import Fault, InputError
from recommender.units import plural
from recommender.workload.law import Float, Int
from recommender.workload.lengths import HOURS, MAXIMUM_TOKENS, bucket_edges

Mask = NDArray[np.bool_]

WINDOWS_S = (10, 60, 300)
_BIN_S = 10
_HOUR_S = 3600.0
_FIRST_MONDAY_S = 4 * 86400.0  # 1970-01-05
_DATED_S = 1e9  # times from here on count from 1970, smaller ones from the log's own start
_LONGEST_LOG_S = 20 * 365 * 86400.0
"""Times further apart than that are not of one log."""
_DENSE = 2**20  # lengths up to here are counted in an array, the few beyond in a table


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of a log by column, NaN where a value cannot be read. Times are seconds; `excluded` are rows by reason."""

    input: Float
    output: Float
    time: Float | None = None
    end: Float | None = None
    first_token: Float | None = None
    total: Float | None = None
    requests: Float | None = None
    excluded: dict[str, Mask] = field(default_factory=dict)


class Counts:
    """How often each whole length occurs."""

    def __init__(self) -> None:
        self._dense = np.zeros(0, dtype=np.int64)
        self._far: Counter[int] = Counter()

    def add(self, tokens: Int) -> None:
        """Count these lengths."""
        near = tokens
        if int(tokens.max(initial=0)) >= _DENSE:
            near = tokens[tokens < _DENSE]
            self._far.update(tokens[tokens >= _DENSE].tolist())
        found = np.bincount(near)
        if len(found) > len(self._dense):
            found[: len(self._dense)] += self._dense
            self._dense = found
        else:
            self._dense[: len(found)] += found

    def table(self) -> tuple[Int, Int]:
        """Lengths that occur, ascending, and how often each does."""
        near = np.flatnonzero(self._dense)
        far = np.array(sorted(self._far.items()), dtype=np.int64).reshape(-1, 2)
        return np.concatenate([near, far[:, 0]]), np.concatenate([self._dense[near], far[:, 1]])


class Tally:
    """Everything a summary needs, in memory that does not grow with the log (times of requests excepted)."""

    def __init__(self, *, file: str | None = None) -> None:
        self.file = file
        self.rows = 0
        self.requests = 0
        self.dropped: Counter[str] = Counter()
        self.lengths = {side: Counts() for side in ("input", "output", "total")}
        self.products = 0.0
        self.wrong_totals = 0
        self.unread_times = 0
        self.latency: dict[str, tuple[float, int]] = {}
        self.first_s = self.last_s = float("nan")
        self._edges = np.array(bucket_edges(), dtype=np.int64)
        self._sums = np.zeros((3, len(self._edges) ** 2))
        self._origin: float | None = None
        self._bins: Counter[int] = Counter()
        self._spans: list[tuple[Float, Float]] = []
        self._summed = np.zeros(3)

    def add(self, batch: Batch) -> None:
        """Count the rows of one batch."""
        self.rows += len(batch.input)
        if batch.requests is not None:
            self._summed += [float(np.nansum(each)) for each in (batch.requests, batch.input, batch.output)]
            return
        kept = self._kept(batch)
        self.keep(batch, kept)
        prompt, output = batch.input[kept].astype(np.int64), batch.output[kept].astype(np.int64)
        if not len(prompt):
            return
        self.requests += len(prompt)
        self._count(prompt, output)
        if batch.total is not None:
            self.wrong_totals += int(np.count_nonzero(batch.total[kept] != prompt + output))
        if batch.time is not None:
            self._arrive(batch.time[kept])
            self._last(batch, kept, output)

    def keep(self, batch: Batch, kept: Mask) -> None:
        """See the rows that count; a summary keeps none of them."""

    def drop(self, reason: str, rows: int) -> None:
        """Count rows that the reader could not even split into columns."""
        if rows:
            self.rows += rows
            self.dropped[reason] += rows

    def _kept(self, batch: Batch) -> Mask:
        """The rows that are requests with a prompt and an output; all others are counted by the first reason found."""
        kept = np.ones(len(batch.input), dtype=np.bool_)

        def drop(reason: str, wrong: Mask) -> None:
            nonlocal kept
            count = int(np.count_nonzero(kept & wrong))
            if count:
                self.dropped[reason] += count
                kept = kept & ~wrong

        for reason, mask in batch.excluded.items():
            drop(reason, mask)
        prompt, output = batch.input, batch.output
        drop("lengths missing or not a number", ~(np.isfinite(prompt) & np.isfinite(output)))
        with np.errstate(invalid="ignore"):
            drop("negative length", (prompt < 0) | (output < 0))
            drop("length not whole", (prompt % 1 != 0) | (output % 1 != 0))
            drop(f"longer than {MAXIMUM_TOKENS:,} tokens", prompt + output > MAXIMUM_TOKENS)
            drop("no output (failed)", output == 0)
            drop("no prompt", prompt == 0)
        return kept

    def _count(self, prompt: Int, output: Int) -> None:
        for side, tokens in (("input", prompt), ("output", output), ("total", prompt + output)):
            self.lengths[side].add(tokens)
        self.products += float(prompt.astype(np.float64) @ output.astype(np.float64))
        cell = np.searchsorted(self._edges, prompt) * len(self._edges) + np.searchsorted(self._edges, output)
        size = self._sums.shape[1]
        self._sums[0] += np.bincount(cell, minlength=size)
        self._sums[1] += np.bincount(cell, prompt, minlength=size)
        self._sums[2] += np.bincount(cell, output, minlength=size)

    def _arrive(self, times: Float) -> None:
        known = times[np.isfinite(times)]
        if len(known) and self._origin is None:
            self._origin = float(known[of_one_log(known)].min())
        if self._origin is not None:
            known = known[np.abs(known - self._origin) <= _LONGEST_LOG_S]
        self.unread_times += len(times) - len(known)
        if self._origin is None or not len(known):
            return
        low, high = float(known.min()), float(known.max())
        self.first_s, self.last_s = np.fmin(self.first_s, low), np.fmax(self.last_s, high)
        bins = np.floor((known - self._origin) / _BIN_S).astype(np.int64)
        self._bins.update(_occurrences(bins))

    def _last(self, batch: Batch, kept: Mask, output: Int) -> None:
        """Latencies, where the log says when requests ended or gave their first token."""
        if batch.time is None or batch.end is None:
            return
        start, end = batch.time[kept], batch.end[kept]
        good = np.isfinite(start) & np.isfinite(end) & (end >= start)
        self._spans.append((start[good], end[good]))
        self._mean("request_s", (end - start)[good])
        if batch.first_token is None:
            return
        first = batch.first_token[kept]
        good &= np.isfinite(first) & (first >= start) & (first <= end)
        self._mean("ttft_s", (first - start)[good])
        several = good & (output > 1)
        self._mean("tpot_s", (end - first)[several] / (output[several] - 1))

    def _mean(self, name: str, values: Float) -> None:
        total, count = self.latency.get(name, (0.0, 0))
        self.latency[name] = (total + float(values.sum()), count + len(values))

    def check(self) -> None:
        """Raise InputError where there is nothing to size from."""
        if self._summed[0] > 0:
            requests, prompt, output = self._summed
            means = f"{prompt / requests:,.1f} tokens in, {output / requests:,.1f} out over {requests:,.0f} requests"
            what = f"holds sums, not requests: the means are {means}; a spread cannot be read from them"
            raise InputError(Fault(what, self.file, expected="a log with a row a request, or quantiles"))
        if not self.requests:
            reasons = "; ".join(f"{count:,} {reason}" for reason, count in sorted(self.dropped.items()))
            raise InputError(
                Fault(f"no request could be read of {plural(self.rows, 'row')} ({reasons or 'empty'})", self.file)
            )

    def cells(self) -> tuple[tuple[int, float, float], ...]:
        """(requests, mean prompt, mean output) of the cells that hold requests, by bucket."""
        used = np.flatnonzero(self._sums[0])
        count = self._sums[0][used]
        prompt, output = self._sums[1][used] / count, self._sums[2][used] / count
        return tuple((int(n), float(i), float(o)) for n, i, o in zip(count, prompt, output, strict=True))

    def peaks(self) -> tuple[tuple[int, float], ...]:
        """By window, how many times its mean the busiest window saw; windows longer than the log are left out."""
        duration = self.last_s - self.first_s
        arrived = sum(self._bins.values())
        found = []
        for window in WINDOWS_S:
            if not duration >= window:
                continue
            busiest: Counter[int] = Counter()
            for place, count in self._bins.items():
                busiest[place * _BIN_S // window] += count
            found.append((window, max(busiest.values()) / (arrived / duration * window)))
        return tuple(found)

    def hourly(self) -> tuple[float, ...]:
        """Rates over the mean by the hour of the day, or of the week where the log covers one; empty below a day.

        The week begins on Monday, UTC, where times count from 1970; else day and week begin with the log.
        """
        if self._origin is None or not self.last_s - self.first_s >= HOURS[0] * _HOUR_S:
            return ()
        size = HOURS[1] if self.last_s - self.first_s >= HOURS[1] * _HOUR_S else HOURS[0]
        begins = _FIRST_MONDAY_S if self.first_s >= _DATED_S else self.first_s
        counts, covered = np.zeros(size), np.zeros(size)
        for place, count in self._bins.items():
            counts[int((self._origin + place * _BIN_S - begins) // _HOUR_S) % size] += count
        for hour in range(int((self.first_s - begins) // _HOUR_S), int((self.last_s - begins) // _HOUR_S) + 1):
            start = begins + hour * _HOUR_S
            covered[hour % size] += min(self.last_s, start + _HOUR_S) - max(self.first_s, start)
        rates = counts / np.maximum(covered, 1.0)
        return tuple(float(each) for each in rates / rates.mean())

    def peak_concurrency(self) -> int | None:
        """The most requests at once, where the log says when they ended."""
        if not self._spans:
            return None
        starts = np.sort(np.concatenate([start for start, _ in self._spans]))
        ends = np.sort(np.concatenate([end for _, end in self._spans]))
        if not len(starts):
            return None
        return int((np.arange(1, len(starts) + 1) - np.searchsorted(ends, starts, side="right")).max())


def of_one_log(times: Float) -> Mask:
    """Which times lie within decades of the middle one: a single date of 1970 must not hide all the others."""
    middle = len(times) // 2
    near: Mask = np.abs(times - np.partition(times, middle)[middle]) <= _LONGEST_LOG_S
    return near


def _occurrences(values: Int) -> dict[int, int]:
    """How often each value occurs; counted in an array where they lie close together."""
    first, last = int(values.min()), int(values.max())
    if last - first > 8 * len(values):
        found, counts = np.unique(values, return_counts=True)
        return dict(zip(found.tolist(), counts.tolist(), strict=True))
    counts = np.bincount(values - first)
    places = np.flatnonzero(counts)
    return dict(zip((places + first).tolist(), counts[places].tolist(), strict=True))
