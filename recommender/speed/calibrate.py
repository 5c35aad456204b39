"""Constants, anchors and bands from a table of measurements: `python -m recommender.speed.calibrate MEASUREMENTS.csv`.

Constants are fitted on all rows; every error that is reported, and every band, comes from constants that had not seen
the (GPU, model) group, or the model family, or the GPU family of the row.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recommender.catalog.catalog import Catalog, shipped_catalog
from recommender.speed.anchors import TPOT_NOISE, TTFT_NOISE, Anchor, Key, write_anchors
from recommender.speed.build import columns, measured_rows
from recommender.speed.candidates import Float, Int
from recommender.speed.constants import Constants, Parameter, read_parameters, write_values
from recommender.speed.covered import Covered, covered_by, write_covered
from recommender.speed.evidence import Errors, Evidence, write_bands
from recommender.speed.families import DATA
from recommender.speed.fit import Data, data_of, fitted, residuals
from recommender.speed.measurements import Measurement, read_measurements
from recommender.speed.validation import REPEATS, Unseen, folds_of, unseen

LEVELS = (0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95)
"""Quantiles that bands are stored at."""
DRAWS = 20
"""Draws of the rows that anchor a group, when anchoring is tried out."""
LEAST_TO_TRY = 8
GROUP_POWER = 0.7
"""Rows of a group of n count n ** -0.7 each in a band: bands then hold as much of one fold's groups as of another's."""
_COLUMN = {"tpot": 0, "ttft": 1, "output_tokens_per_s": 2}  # of residuals


@dataclass(frozen=True, slots=True)
class Calibration:
    """Everything a calibration gives."""

    measured: tuple[Measurement, ...]
    left_out: Mapping[str, int]
    constants: Constants
    inside: Float  # residuals of the constants on what they were fitted on
    deals: tuple[Unseen, ...]  # one per deal of the groups over folds
    families: Unseen  # each model family left out in turn
    gpus: Unseen  # each GPU family left out in turn
    anchored: Mapping[int, Float]  # residuals of unseen groups anchored by so many of their rows
    anchors: tuple[Anchor, ...]
    covered: Mapping[tuple[str, str], Covered]
    data: Data


def calibrate(path: Path, catalog: Catalog, parameters: Sequence[Parameter] | None = None) -> Calibration:
    """Fit and cross-validate on a table of measurements."""
    found = read_measurements(path)
    rows, work = columns(measured_rows(found.rows, catalog))
    data = data_of(found.rows, rows, work)
    parameters = parameters or read_parameters(DATA / "parameters.csv")
    constants = fitted(data, parameters)
    inside = residuals(data, constants)
    model_families = np.array([rows.shapes[at].family for at in rows.shape])
    gpu_families = np.array([rows.gpus[at].family for at in rows.gpu])
    deals = tuple(unseen(data, parameters, folds_of(found.rows, deal)) for deal in range(REPEATS))
    return Calibration(
        measured=found.rows,
        left_out=found.left_out,
        constants=constants,
        inside=inside,
        deals=deals,
        families=unseen(data, parameters, model_families),
        gpus=unseen(data, parameters, gpu_families),
        anchored={runs: _tried(found.rows, deals, runs) for runs in (1, 2, 3)},
        anchors=tuple(anchors_of(found.rows, inside)),
        covered=covered_by(found.rows, {shape.model: shape.family for shape in rows.shapes}),
        data=data,
    )


def anchors_of(measured: Sequence[Measurement], errors: Float) -> Iterator[Anchor]:
    """The mean ratio of each group of steady runs under the constants."""
    for key, at in _by_anchor(measured):
        tpot, ttft = -errors[0, at], -errors[1, at][np.isfinite(errors[1, at])]
        gpu, model, engine, weights = key
        yield Anchor(
            gpu=gpu,
            model=model,
            engine=engine,
            weights=weights,
            tpot_log=float(np.median(tpot)),
            ttft_log=float(np.median(ttft)) if len(ttft) else None,
            runs=len(at),
            source="; ".join(sorted({_short(measured[index].source) for index in at})),
        )


def _by_anchor(
    measured: Sequence[Measurement], least: int = 1, *, bursts: bool = False
) -> Iterator[tuple[Key, list[int]]]:
    """(GPU, model, engine, weights) and its rows, steady ones or all, where there are enough."""
    found: dict[Key, list[int]] = {}
    for index, each in enumerate(measured):
        if bursts or not each.burst:
            found.setdefault(each.anchor, []).append(index)
    return ((key, at) for key, at in sorted(found.items()) if len(at) >= least)


def _short(source: str) -> str:
    return source.split(" results/")[0].split(" (")[0]


def _tried(measured: Sequence[Measurement], deals: Iterable[Unseen], runs: int) -> Float:
    """Residuals of unseen groups once some of their rows anchor the others: 3 x predictions, over draws and deals."""
    random = np.random.default_rng(runs)
    found = []
    for deal in deals:
        for _, at in _by_anchor(measured, LEAST_TO_TRY):
            for _ in range(DRAWS // REPEATS):
                drawn = random.permutation(at)
                found.append(
                    _corrected(deal.errors[:, drawn[runs:]], deal.errors[:, drawn[:runs]], measured, drawn[runs:])
                )
    return np.concatenate(found, axis=1)


def _corrected(errors: Float, anchors: Float, measured: Sequence[Measurement], at: Int) -> Float:
    """Residuals of predictions moved by the mean residual of the rows that anchor them."""
    runs = anchors.shape[1]
    tpot = errors[0] - anchors[0].mean() * runs / (runs + TPOT_NOISE)
    timed = anchors[1][np.isfinite(anchors[1])]
    ttft = errors[1] - (timed.mean() if len(timed) else 0.0) * runs / (runs + TTFT_NOISE)
    rate = [_rate_error(measured[index], tpot[i], ttft[i], errors[2, i]) for i, index in enumerate(at)]
    return np.stack([tpot, ttft, np.array(rate)])


def _rate_error(each: Measurement, tpot: float, ttft: float, before: float) -> float:
    """Residual of throughput where both times have these: requests take their measured times, scaled."""
    if each.ttft_ms is None or each.output_tokens_per_s is None:
        return before
    decode = (each.output_tokens - 1) * each.tpot_ms
    predicted = each.ttft_ms * np.exp(ttft) + decode * np.exp(tpot)
    return float(-np.log(predicted / (each.ttft_ms + decode)))


def band_errors(found: Calibration) -> dict[tuple[Evidence, str], Errors]:
    """Errors of each class of evidence and metric. Nothing of the GPU known: no better than nothing of the model."""
    size = len(found.measured)
    weights = group_weights(found.measured)
    errors = {}
    for metric, at in _COLUMN.items():
        for runs, evidence in ((1, Evidence.ANCHORED_ONCE), (3, Evidence.ANCHORED)):
            errors[evidence, metric] = _finite(found.anchored[runs][at], np.ones(found.anchored[runs].shape[1]))
        for evidence in (Evidence.KNOWN_MODEL, Evidence.KNOWN_GPU, Evidence.UNKNOWN):
            least = min(evidence, Evidence.KNOWN_GPU)
            logs, counted = [], []
            for each in (*found.deals, found.families, found.gpus):
                same = (each.evidence == evidence) | ((evidence == Evidence.UNKNOWN) & (each.evidence >= least))
                logs.append(each.errors[at, same])
                counted.append(weights[:size][same])
            errors[evidence, metric] = _finite(np.concatenate(logs), np.concatenate(counted))
    return errors


def group_weights(measured: Sequence[Measurement]) -> Float:
    """What the error of each row counts in a band: rows of one group err together, large groups hold more of them."""
    sizes = {key: len(at) for key, at in _by_anchor(measured, bursts=True)}
    return np.array([sizes[each.anchor] ** -GROUP_POWER for each in measured])


def _finite(logs: Float, weights: Float) -> Errors:
    usable = np.isfinite(logs)
    return Errors(logs[usable], weights[usable])


def write_data(found: Calibration, folder: Path) -> None:
    """Write constants, anchors, bands and what was covered."""
    counts: dict[tuple[str, str], int] = {}
    for by, names in found.data.levels.names.items():
        for name in np.array(names)[found.data.levels.codes[by]]:
            counts[by, str(name)] = counts.get((by, str(name)), 0) + 1
    write_values(folder / "constants.csv", found.constants.values, counts)
    write_anchors(folder / "anchors.csv", found.anchors)
    write_bands(folder / "bands.csv", LEVELS, band_errors(found))
    write_covered(folder / "covered.csv", found.covered)


def main(arguments: Sequence[str] | None = None) -> None:
    """Calibrate from a table and write the data files."""
    parser = argparse.ArgumentParser(prog="recommender.speed.calibrate", description=__doc__)
    parser.add_argument("measurements", type=Path)
    parser.add_argument("--into", type=Path, default=DATA, help="folder of the data files")
    asked = parser.parse_args(arguments)
    write_data(calibrate(asked.measurements, shipped_catalog()), asked.into)


if __name__ == "__main__":
    main()
