"""The single requests of a log in order of arrival, for a replay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from recommender.errors import Fault, InputError
from recommender.workload.law import Float
from recommender.workload.logs.tally import Batch, Mask, Tally, of_one_log
from recommender.workload.readers import reader_of


class _Kept(Tally):
    """A tally that also keeps every request it counts."""

    def __init__(self, *, file: str | None = None) -> None:
        super().__init__(file=file)
        self.parts: list[Float] = []

    def keep(self, batch: Batch, kept: Mask) -> None:
        """Keep the rows that count."""
        if batch.time is None:
            return
        rows = np.stack([batch.time, batch.input, batch.output])[:, kept]
        self.parts.append(rows[:, np.isfinite(rows[0])])


def arrived(
    path: Path, columns: Mapping[str, str] | None = None, timestamp_unit: str | None = None
) -> tuple[list[float], list[int], list[int]]:
    """Arrival seconds, prompt tokens and output tokens of every request that counts, by arrival. Raises InputError."""
    tally = _Kept(file=str(path))
    reader_of(path)(path, tally, columns, timestamp_unit)
    tally.check()
    if not tally.parts or not sum(part.shape[1] for part in tally.parts):
        expected = "a column of timestamps in a known unit (timestamp_unit: s, ms or auto)"
        raise InputError(Fault("holds no arrival times to replay", str(path), expected=expected))
    rows = np.concatenate(tally.parts, axis=1)
    rows = rows[:, of_one_log(rows[0])]
    rows = rows[:, np.argsort(rows[0], kind="stable")]
    return rows[0].tolist(), rows[1].astype(np.int64).tolist(), rows[2].astype(np.int64).tolist()
