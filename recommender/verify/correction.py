"""The correction of the reserve that one verified start-up log gives."""

from __future__ import annotations

from recommender.errors import InputError
from recommender.memory.calibration import LEAST_PPM, MILLION, MOST_PPM, Correction
from recommender.units import GIB
from recommender.verify.causes import FOREIGN
from recommender.verify.compare import Verification

_NOT_THE_RESERVE = ("total", "weights", "arithmetic", "needed")
"""Lines that no reserve changes: where one is beyond the tolerance, the card, the weights or the cache is another."""


def correction_of(verification: Verification, source: str) -> Correction:
    """What the log says beyond the prediction. Raises InputError where it says too little, or was disturbed."""
    fit, prediction = verification.prediction.fit, verification.prediction
    if any(cause.what == FOREIGN for cause in verification.causes):
        raise InputError("no calibration can be saved: another process held memory while this log was written")
    _check_cause(verification)
    non_torch, activation = _outside(verification)
    graphs = _factor(verification, "graph_estimate", fit.cuda_graph_bytes) if fit.cuda_graph_bytes else MILLION
    return Correction(
        engine=fit.engine,
        engine_version=fit.engine_version,
        gpu_class=prediction.device.gpu.architecture,
        tp=fit.tp,
        pp=fit.pp,
        non_torch_bytes=non_torch,
        activation_ppm=activation,
        cuda_graph_ppm=graphs,
        measured_on=(
            f"{source}: {fit.model}, {fit.gpu}, max_num_seqs {fit.max_num_seqs}, "
            f"max_num_batched_tokens {fit.max_num_batched_tokens}"
        ),
    )


def _check_cause(verification: Verification) -> None:
    """Raises InputError where the log is not to be trusted, or something else than the reserve is beyond tolerance."""
    if verification.contradictions:
        raise InputError(f"no calibration can be saved: the log contradicts itself: {verification.contradictions[0]}")
    others = [row.what for row in verification.beyond if row.name in _NOT_THE_RESERVE]
    if others:
        raise InputError(
            f"no calibration can be saved: {', '.join(others)} differ beyond the tolerance, and a correction of the "
            f"reserve would hide it"
        )


def _outside(verification: Verification) -> tuple[int, int]:
    """(bytes to add outside PyTorch, factor of activations): apart where the log states them so."""
    readings, fit = verification.readings, verification.prediction.fit
    stated = readings["non_torch"]
    if stated is not None and readings["activation"] is not None and readings["consumed"] is None:
        return stated.value - fit.non_torch_bytes, _factor(verification, "activation", fit.activation_bytes)
    together = readings["overhead"] or readings["reserve"]
    if together is None:
        raise InputError(
            "no calibration can be saved: the log states neither activations nor what is left for the KV cache"
        )
    beyond = together.value - fit.activation_bytes - fit.non_torch_bytes
    if together.name == "reserve" and fit.cuda_graph_bytes:
        estimate = readings["graph_estimate"]
        beyond -= estimate.value if estimate is not None else fit.cuda_graph_bytes
    return beyond, MILLION


def _factor(verification: Verification, name: str, predicted: int) -> int:
    logged = verification.readings[name]
    if logged is None or not predicted:
        return MILLION
    ppm = (logged.value * MILLION + predicted // 2) // predicted
    if not LEAST_PPM <= ppm <= MOST_PPM:
        raise InputError(
            f"no calibration can be saved: the log's {logged.value / GIB:.2f} GiB and the predicted "
            f"{predicted / GIB:.2f} GiB ({name.replace('_', ' ')}) are too far apart for one"
        )
    return ppm
