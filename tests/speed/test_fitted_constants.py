"""Fitting: what it recovers, and what it does not let itself be led astray by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recommender.catalog.catalog import Catalog
from recommender.speed.build import columns, measured_rows
from recommender.speed.constants import Constants, read_parameters, read_values, shipped_constants, write_values
from recommender.speed.families import DATA
from recommender.speed.fit import Data, data_of, fitted, residuals
from recommender.speed.measurements import Measurement, read_measurements
from recommender.speed.validation import folds_of

EVERY = 12  # rows of which one is used: enough for the purpose, and fast


@pytest.fixture(scope="module")
def measured(measurements_file: Path) -> tuple[Measurement, ...]:
    return read_measurements(measurements_file).rows[::EVERY]


@pytest.fixture(scope="module")
def made_up(measured: tuple[Measurement, ...], catalog: Catalog) -> Data:
    """The measured configurations with times that follow the shipped constants exactly."""
    data = data_of(measured, *columns(measured_rows(measured, catalog)))
    return replace(data, logs=data.logs + np.nan_to_num(residuals(data, shipped_constants())))


@pytest.fixture(scope="module")
def again(made_up: Data) -> Constants:
    return fitted(made_up, read_parameters(DATA / "parameters.csv"))


def test_times_made_of_constants_give_them_back(made_up: Data, again: Constants) -> None:
    error = np.abs(residuals(made_up, again)[:, made_up.weights == 1])
    assert np.nanquantile(error[[0, 2]], 0.9) < 0.08
    assert np.nanmedian(error[0]) < 0.025


def test_absurd_runs_hardly_move_constants(made_up: Data, again: Constants) -> None:
    """One run in twenty ten times too slow or too fast, as an adversary would have it."""
    random = np.random.default_rng(1)
    poisoned = made_up.logs.copy()
    at = random.choice(len(made_up.rows), len(made_up.rows) // 20, replace=False)
    poisoned[0, at] += np.where(random.random(len(at)) < 0.5, np.log(10), -np.log(10))
    found = fitted(replace(made_up, logs=poisoned), read_parameters(DATA / "parameters.csv"))
    moved = np.abs(residuals(made_up, found)[0] - residuals(made_up, again)[0])
    assert np.median(moved) < 0.03
    assert np.quantile(moved, 0.95) < 0.12


def test_folds_keep_groups_together(measured: tuple[Measurement, ...]) -> None:
    for deal in range(3):
        fold = folds_of(measured, deal)
        by_group = {each.group: set() for each in measured}  # type: dict[tuple[str, str], set[int]]
        for each, number in zip(measured, fold.tolist(), strict=True):
            by_group[each.group].add(number)
        assert all(len(numbers) == 1 for numbers in by_group.values())
        assert set(fold.tolist()) == {0, 1, 2, 3}
    assert (folds_of(measured, 0) != folds_of(measured, 1)).any()


def test_a_level_without_measurements_takes_its_prior(believed: Constants) -> None:
    shipped = shipped_constants()
    assert not believed.known("engine", "vllm")
    assert shipped.known("engine", "vllm")
    assert not shipped.known("gpu_family", "cdna4")


def test_values_survive_a_file(tmp_path: Path, again: Constants) -> None:
    write_values(tmp_path / "x.csv", again.values, {})
    read = read_values(tmp_path / "x.csv")
    assert read == pytest.approx(dict(again.values), rel=1e-4)


def test_left_out_rows_are_counted_by_reason(tmp_path: Path, measurements_file: Path) -> None:
    head, first, *_ = measurements_file.read_text(encoding="utf-8").splitlines()
    changes = {
        "engine not modelled": (",vllm,", ",mystery,"),
        "doubtful: low confidence, folded nodes or speculative decoding": (",high", ",low"),
        "no stated concurrency or lengths": (",128,3725", ",,3725"),
        "no time per output token": (",33.4429,", ",,"),
        "throughput contradicts concurrency and latency": (",3725.29,", ",37252.9,"),
        "model or dtype not in the catalog": ("minimax-m2.5", "somebody/else"),
    }
    lines = [first.replace(*change) for change in changes.values()]
    assert all(line != first for line in lines)
    path = tmp_path / "m.csv"
    path.write_text("\n".join([head, first, *lines]), encoding="utf-8")
    found = read_measurements(path)
    assert len(found.rows) == 1
    assert found.left_out == dict.fromkeys(sorted(changes), 1)
