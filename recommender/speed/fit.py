"""Constants from measurements: robust least squares on logarithms, with a prior on every constant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recommender.memory.weights import PLAIN
from recommender.speed.candidates import Bool, Candidates, Float, Int
from recommender.speed.constants import Constants, Levels, Parameter, by_factor, levels_of, prior_of
from recommender.speed.measurements import Measurement
from recommender.speed.steady import steady_state
from recommender.speed.step import costs_of
from recommender.speed.work import Work, work_of

Key = tuple[str, str, str]

SCALES = np.array([0.15, 0.40, 0.15])
"""Error of a good prediction, as a logarithm: time per output token, time to first token, throughput."""
SHARES = np.array([1.0, 0.25, 0.4])
"""What each of them counts. Throughput is mostly derived from the other two where it was published."""
TAIL = 2.0
"""Degrees of freedom of the error's distribution: runs that are far off for reasons of their own pull little."""
UNSTEADY_SHARE = 0.1
"""What bursts and runs beyond a replica's memory count: they measure queues more than the engine."""
GROUP_SPREAD = 0.05
"""Standard deviation of a group's own level, as a logarithm."""
LEVEL_SIGNS = np.array([1.0, 0.0, -1.0])
"""A level makes tokens slower and throughput less."""
_STEP = 1e-4
_LONGEST = 0.7  # of one move of a constant's logarithm
_ITERATIONS = 15
_DONE = 2e-4  # relative gain below which the fit has converged


@dataclass(frozen=True, slots=True)
class Data:
    """Measurements as columns, with their logarithms and weights."""

    rows: Candidates
    work: Work
    levels: Levels
    logs: Float  # 3 x rows; NaN where not published
    weights: Float  # of each row
    group: Int  # rows of one GPU, model, engine and dtype have the same number

    def where(self, mask: Bool) -> Data:
        """The rows that `mask` picks; weights are kept."""
        rows = self.rows.where(mask)
        _, group = np.unique(self.group[mask], return_inverse=True)
        return Data(rows, work_of(rows), levels_of(rows), self.logs[:, mask], self.weights[mask], group)


def data_of(measured: Sequence[Measurement], rows: Candidates, work: Work) -> Data:
    """Measurements with the columns that belong to them."""
    crowded = rows.concurrency / rows.replicas > rows.sequences
    unsteady = crowded | np.array([each.burst for each in measured])
    weights = np.where(unsteady, UNSTEADY_SHARE, 1.0)
    logs = np.log(np.array([_published(each) for each in measured], dtype=np.float64).T)
    codes = {key: code for code, key in enumerate(sorted({each.anchor for each in measured}))}
    group = np.array([codes[each.anchor] for each in measured])
    return Data(rows, work, levels_of(rows), logs, np.where(rows.sequences > 0, weights, 0.0), group)


def _published(each: Measurement) -> tuple[float, float, float]:
    """(seconds per output token, seconds to the first, tokens a second), NaN where not published."""
    ttft, rate = each.ttft_ms, each.output_tokens_per_s
    return each.tpot_ms / 1e3, np.nan if ttft is None else ttft / 1e3, np.nan if rate is None else rate


def residuals(data: Data, constants: Constants) -> Float:
    """Logarithms of predicted over measured: 3 x rows."""
    found = steady_state(data.rows, costs_of(data.rows, constants, data.work))
    waited = found.ttft_s + found.queue_s
    return np.log(np.stack([found.tpot_s, waited, found.output_tokens_per_s])) - data.logs


def unknowns(parameters: Sequence[Parameter], levels: Levels, weights: Float) -> dict[Key, Parameter]:
    """Every (name, by, level) that some counted row depends on."""
    found: dict[Key, Parameter] = {}
    counted = weights > 0
    for (name, by), believed in by_factor(parameters).items():
        for code in np.unique(levels.codes[by][counted]):
            level = levels.names[by][code]
            if name != "low_precision_gemm" or level not in PLAIN:
                found[name, by, level] = prior_of(believed, level)
    return dict(sorted(found.items()))


def fitted(data: Data, parameters: Sequence[Parameter]) -> Constants:
    """Constants that fit the data and their priors best (Levenberg-Marquardt on reweighted squares).

    Beside the constants each group has a level of its own, thrown away afterwards: what is peculiar to one group is no
    evidence about the others, however many rows it has.
    """
    keys = unknowns(parameters, data.levels, data.weights)
    groups = int(data.group.max()) + 1
    prior = np.concatenate([np.log([parameter.prior for parameter in keys.values()]), np.zeros(groups)])
    spread = np.concatenate([[parameter.spread for parameter in keys.values()], np.full(groups, GROUP_SPREAD)])

    def constants(theta: Float) -> Constants:
        return Constants(tuple(parameters), dict(zip(keys, np.exp(theta[: len(keys)]).tolist(), strict=True)))

    def errors(theta: Float) -> Float:
        level = theta[len(keys) :][data.group]
        return np.nan_to_num(residuals(data, constants(theta)) + np.outer(LEVEL_SIGNS, level))

    theta, damping = prior.copy(), 1e-2
    error = errors(theta)
    cost = _cost(error, data.weights, (theta - prior) / spread)
    for _ in range(_ITERATIONS):
        slopes = np.stack([(errors(_moved(theta, at)) - error) / _STEP for at in range(len(keys))])
        slopes = np.concatenate([slopes, _level_slopes(data)])
        curvature, gradient = _normal_equations(slopes, error, data.weights, theta - prior, spread)
        before = cost
        while damping < 1e6:
            move = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), -gradient)
            tried = theta + np.clip(move, -_LONGEST, _LONGEST)
            found = errors(tried)
            value = _cost(found, data.weights, (tried - prior) / spread)
            if value < cost:
                theta, error, cost, damping = tried, found, value, max(damping / 5, 1e-6)
                break
            damping *= 6
        if before - cost < _DONE * before:
            break
    return constants(theta)


def _level_slopes(data: Data) -> Float:
    """How errors change with the level of each group: groups x 3 x rows."""
    member = (np.arange(int(data.group.max()) + 1)[:, None] == data.group).astype(np.float64)
    slopes: Float = member[:, None, :] * (LEVEL_SIGNS[:, None] * np.isfinite(data.logs))
    return slopes


def _moved(theta: Float, at: int) -> Float:
    moved = theta.copy()
    moved[at] += _STEP
    return moved


def _cost(error: Float, weights: Float, prior: Float) -> float:
    squares = (error / SCALES[:, None]) ** 2
    return float((SHARES[:, None] * weights * TAIL * np.log1p(squares / TAIL)).sum() + (prior**2).sum())


def _normal_equations(
    slopes: Float, error: Float, weights: Float, distance: Float, spread: Float
) -> tuple[Float, Float]:
    """(curvature, gradient) of the squares that the cost is locally the same as."""
    squares = (error / SCALES[:, None]) ** 2
    importance = (SHARES[:, None] * weights / (1 + squares / TAIL) / SCALES[:, None] ** 2).ravel()
    flat = slopes.reshape(len(slopes), -1)
    weighted = flat * importance
    return weighted @ flat.T + np.diag(1 / spread**2), weighted @ error.ravel() + distance / spread**2
