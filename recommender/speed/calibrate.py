"""Constants, anchors and bands from a table of measurements: `python -m recommender.speed.calibrate MEASUREMENTS.csv`.

Constants are fitted on all rows; every error that is reported, and every band, comes from constants that had not seen
the (GPU, model) group, or the model family, or the GPU family of the row.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from recommender.catalog.catalog import Catalog, shipped_catalog
from recommender.speed.anchors import TPOT_NOISE, TTFT_NOISE, Anchor, Key, factors_of, write_anchors
from recommender.speed.build import columns, measured_rows
from recommender.speed.candidates import Bool, Float, Int
from recommender.speed.constants import Constants, Parameter, read_parameters, write_values
from recommender.speed.covered import Covered, covered_by, write_covered
from recommender.speed.evidence import METRICS, Evidence, evidence_of, write_bands
from recommender.speed.families import DATA
from recommender.speed.fit import Data, data_of, fitted, residuals
from recommender.speed.measurements import Measurement, read_measurements
from recommender.speed.validation import REPEATS, folds_of

LEVELS = (0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95)
"""Quantiles that bands are stored at."""
DRAWS = 20
"""Draws of the rows that anchor a group, when anchoring is tried out."""
LEAST_TO_TRY = 8
LEAST_TO_SHIP = 1
_COLUMN = {"tpot": 0, "ttft": 1, "output_tokens_per_s": 2}  # of residuals


@dataclass(frozen=True, slots=True)
class Unseen:
    """Predictions of rows that constants had not seen: residuals 3 x rows, the class they were made under."""

    errors: Float
    evidence: Int


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


def unseen(data: Data, parameters: Sequence[Parameter], fold: Int) -> Unseen:
    """Each row under constants fitted on the other folds, as old as the engines those were fitted on."""
    errors = np.full(data.logs.shape, np.nan)
    evidence = np.zeros(len(data.rows), dtype=np.int64)
    for held_out in np.unique(fold):
        test = fold == held_out
        constants = fitted(data.where(~test), parameters)
        seen = data.where(test)
        seen = replace(seen, rows=replace(seen.rows, years=_usual_years(data, ~test, test)))
        errors[:, test] = residuals(seen, constants)
        evidence[test] = evidence_of(seen.rows, constants, factors_of(seen.rows, {}))
    return Unseen(errors, evidence)


def _usual_years(data: Data, train: Bool, test: Bool) -> Float:
    """What is assumed of the engine's age where no version is given: the median by engine and family, or by engine."""
    codes = data.levels.codes["engine+model_family"]
    years = data.rows.years
    usual = np.zeros(len(years))
    for engine in np.unique(data.rows.engine[test]):
        same = train & (data.rows.engine == engine)
        usual[data.rows.engine == engine] = np.median(years[same]) if same.any() else 0.0
    names = np.array(data.levels.names["engine+model_family"])[codes]
    for name in np.unique(names[test]):
        same = train & (names == name)
        if same.any():
            usual[names == name] = np.median(years[same])
    return usual[test]


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


def _by_anchor(measured: Sequence[Measurement], least: int = LEAST_TO_SHIP) -> Iterator[tuple[Key, list[int]]]:
    """(GPU, model, engine, weights) and its steady rows, where there are enough."""
    found: dict[Key, list[int]] = {}
    for index, each in enumerate(measured):
        if not each.burst:
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


def band_errors(found: Calibration) -> dict[tuple[Evidence, str], Float]:
    """Errors of each class of evidence and metric."""
    pooled: dict[tuple[Evidence, str], list[Float]] = {}
    for runs, evidence in ((1, Evidence.ANCHORED_ONCE), (3, Evidence.ANCHORED)):
        for metric in METRICS:
            pooled[evidence, metric] = [found.anchored[runs][_COLUMN[metric]]]
    for each in (*found.deals, found.families, found.gpus):
        for evidence in (Evidence.KNOWN_MODEL, Evidence.KNOWN_GPU, Evidence.UNKNOWN):
            for metric in METRICS:
                errors = each.errors[_COLUMN[metric], each.evidence == evidence]
                pooled.setdefault((evidence, metric), []).append(errors)
    for metric in METRICS:  # nothing of the GPU is known: no better than where nothing of the model is
        pooled[Evidence.UNKNOWN, metric] += pooled[Evidence.KNOWN_GPU, metric]
    return {key: _finite(np.concatenate(errors)) for key, errors in pooled.items()}


def _finite(values: Float) -> Float:
    return values[np.isfinite(values)]


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
