"""A user's own benchmark as an anchor: what it measured against what the constants predict for it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from recommender.catalog.catalog import Catalog
from recommender.errors import Fault, InputError
from recommender.speed.anchors import FARTHEST, Anchor, shipped_anchors
from recommender.speed.benchmarks.read import read_runs
from recommender.speed.benchmarks.run import Run
from recommender.speed.build import columns
from recommender.speed.constants import Constants, shipped_constants
from recommender.speed.setup import Found, Load, Setup, look_up, row_of
from recommender.speed.steady import Steady, steady_state
from recommender.speed.step import costs_of

_NAME_SHOWN = 80


def read_anchor(path: Path, setup: Setup, catalog: Catalog) -> tuple[Anchor, tuple[str, ...]]:
    """The anchor that a result file gives for the setup it was measured on, and its warnings.

    Raises InputError where the file, its figures or its agreement with the setup do not hold.
    """
    return anchor_of(read_runs(path), setup, catalog, str(path))


def anchor_of(
    runs: Iterable[Run], setup: Setup, catalog: Catalog, file: str, constants: Constants | None = None
) -> tuple[Anchor, tuple[str, ...]]:
    """The anchor of runs on one setup, and their warnings.

    It corrects what was published of its group, where the constants are the shipped ones.
    """
    found = look_up(setup, catalog)
    ratios, warnings = [], []
    for run in runs:
        warnings += _model_warnings(run, found, catalog, file)
        warnings += [f"{run.source}: {warning}" for warning in run.warnings]
        tpot, ttft = _ratios(run, setup, found, constants or shipped_constants(), file)
        if ttft is not None and abs(ttft) > FARTHEST:
            times = f"{math.exp(ttft):.3g} times the expected"
            warnings.append(f"{run.source}: {run.ttft_ms:.4g} ms to the first token, {times}, count as a factor of 4")
            ttft = math.copysign(FARTHEST, ttft)
        ratios.append((tpot, ttft))
    if not ratios:
        raise InputError(Fault("holds no run", file))
    ttfts = [ttft for _, ttft in ratios if ttft is not None]
    known = shipped_anchors() if constants is None else {}
    return (
        Anchor(
            gpu=found.gpu.name,
            model=found.model.id,
            engine=setup.engine,
            weights=found.weights,
            tpot_log=float(np.mean([tpot for tpot, _ in ratios])),
            ttft_log=float(np.mean(ttfts)) if ttfts else None,
            runs=len(ratios),
            source=file,
            based_on=known.get((found.gpu.name, found.model.id, setup.engine, found.weights)),
        ),
        tuple(dict.fromkeys(warnings)),
    )


def _ratios(run: Run, setup: Setup, found: Found, constants: Constants, file: str) -> tuple[float, float | None]:
    """Logarithms of measured over predicted: time per output token, time to first token."""
    predicted = _predicted(run, setup, found, constants)
    tpot = math.log(run.tpot_ms / (float(predicted.tpot_s[0]) * 1e3))
    if abs(tpot) > FARTHEST:
        what = f"{run.tpot_ms:.4g} ms a token where {float(predicted.tpot_s[0]) * 1e3:.4g} are expected on {setup.gpu}"
        why = "within a factor of 4: other settings, another GPU or model, or speculative decoding"
        raise InputError(Fault(what, file, key="tpot", expected=why))
    if run.ttft_ms is None or predicted.queue_s[0] > 0:
        return tpot, None
    return tpot, math.log(run.ttft_ms / (float(predicted.ttft_s[0]) * 1e3))


def _predicted(run: Run, setup: Setup, found: Found, constants: Constants) -> Steady:
    load = Load(run.prompt_tokens, run.output_tokens, run.concurrency)
    rows, work = columns([row_of(setup, found, load)])
    if rows.sequences[0] < 1:
        raise InputError(Fault(f"{found.model.id} does not fit {setup.tp * setup.pp} x {setup.gpu}", key="anchors"))
    return steady_state(rows, costs_of(rows, constants, work))


def _model_warnings(run: Run, found: Found, catalog: Catalog, file: str) -> list[str]:
    """What to warn of about the model a run names. Raises InputError where it is a known one, and not the setup's."""
    if run.model is None:
        return [f"{file} does not name its model: {found.model.id} is taken to be meant"]
    try:
        recorded = catalog.resolve(run.model)
    except InputError:  # a path, or a name of one's own: nothing to compare
        return [f"{file} names its model {run.model[:_NAME_SHOWN]!r}: {found.model.id} is taken to be meant"]
    given = recorded.checkpoint.weights if recorded.checkpoint else None
    if recorded.model.id != found.model.id:
        what, wanted = f"was measured with {run.model}, not {found.model.id}", "a run of the model that is asked for"
    elif given is not None and given != found.weights:
        what, wanted = f"was measured with {run.model} ({given} weights)", f"{found.weights} weights, as asked for"
    else:
        return []
    raise InputError(Fault(what, file, key="model", expected=wanted))
