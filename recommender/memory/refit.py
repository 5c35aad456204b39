"""Fit the constants of the reserve to start-up logs: `python -m recommender.memory.refit`.

Everything an engine's data file leaves as `fitted` has the least absolute deviation from the logs that show it, rounded
to what a log prints. `fitted_without` fits as if the logs of one model did not exist: what is reported of unseen models
rests on it.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from recommender.catalog.catalog import shipped_catalog
from recommender.memory.engine import constants_of, engine_data, fitted_of
from recommender.memory.engine_rows import Version, parse_version
from recommender.memory.fitted import Fitted, filled_in, places, write_fitted
from recommender.memory.reserve import ReserveTerms, is_sparse, reserve_terms
from recommender.memory.startup_logs import StartupLog, startup_logs
from recommender.units import GIB

SAMPLING_SHARE = 0.9
"""A log shows what sampling takes where everything else of the peak is below this share of it."""
FIXED_STEP, LAYER_STEP, MOST_FIXED, MOST_LAYER = 0.01, 0.0005, 1.0, 0.04
"""Grid of the graph estimate, GiB: of the fixed part and of each layer."""
Place = tuple[str, str, str, int]
# What is assumed where no log shows a constant: an extra that nobody saw is none, a factor one.
UNSEEN = {"sparse_attention": "0", "mla_factor": "1", "sparse_factor": "1"}


def refitted(logs: Sequence[StartupLog], engine: str = "vllm") -> tuple[Fitted, ...]:
    """Every fitted constant of an engine from these logs. One that no log shows takes the like of it that one does."""
    data = engine_data(engine)
    found: dict[Place, Fitted] = {}
    for at in sorted(places(data), key=_order):
        found[at] = _fit(at, logs, data, found)
    return tuple(found.values())


def fitted_without(model_id: str, logs: Iterable[StartupLog], engine: str = "vllm") -> tuple[Fitted, ...]:
    """The constants as they would be without any log of this model, its quantised repositories among them."""
    return refitted([each for each in logs if each.model.id != model_id], engine)


def _order(at: Place) -> tuple[int, Place]:
    """The peak of sparse attention is what a log has beyond everything else: last."""
    return int(at[0] == "sparse_attention"), at


def _fit(at: Place, logs: Sequence[StartupLog], data: Mapping[str, Any], found: Mapping[Place, Fitted]) -> Fitted:
    key, since = at[:2]
    within = [each for each in logs if parse_version(since) <= each.number < _next(data[key], since, at)]
    if key == "sampler":
        return _sampling(at, within)
    if key == "non_torch":
        figures = [each.non_torch_gib for each in within if each.non_torch_gib is not None and _cell(each) == at[2:]]
        return _median(at, figures, 2, "logged") if figures else _like(at, found)
    if key == "graphs":
        return _graphs(at, within)
    return _sparse(at, within, data, found)


def _next(rows: Sequence[Mapping[str, Any]], since: str, at: Place) -> Version:
    """The version from which on another row of the same kind holds."""
    same = [row for row in rows if row.get("runner") in (None, "V1")]
    later = [parse_version(row["since"]) for row in same if parse_version(row["since"]) > parse_version(since)]
    return min(later, default=(9999, 0, 0))


def _cell(log: StartupLog) -> tuple[str, int]:
    """The figure of memory outside torch that this log speaks of: by tp, or of a pipeline."""
    if log.pp > 1:
        return ("pipeline_gib", 0)
    return ("gib", 0 if log.tp == 1 else 1 if log.tp < 4 else 2)


def _median(at: Place, figures: Sequence[float], digits: int, what: str) -> Fitted:
    value = f"{statistics.median(figures):.{digits}f}" if figures else "0"
    spread = f"{min(figures):.{digits}f} to {max(figures):.{digits}f}" if figures else "none"
    return Fitted(*at, value, len(figures), f"median; {what} {spread}")


def _like(at: Place, found: Mapping[Place, Fitted]) -> Fitted:
    """No log shows this figure: the nearest earlier version's, else that of fewer GPUs."""
    key, since, field, place = at
    earlier = [each for each in found.values() if each.at[0] == key and each.at[2:] == (field, place)]
    fewer = [each for each in found.values() if each.at[:3] == (key, since, "gib") and each.place < place]
    like = (earlier or fewer)[-1] if earlier or fewer else None
    return Fitted(*at, like.value if like else "0.25", 0, f"no log; as {like.since} place {like.place}" if like else "")


def _sampling(at: Place, logs: Sequence[StartupLog]) -> Fitted:
    """Bytes a logit of the least absolute deviation in bytes: the median, each log weighed by its logits."""
    found = sorted(pair for each in logs if (pair := _logits(each)) is not None)
    half, value = sum(logits for _, logits in found) / 2, 0.0
    for each, logits in found:
        value, half = each, half - logits
        if half <= 0:
            break
    spread = f"{found[0][0]:.2f} to {found[-1][0]:.2f}" if found else "none"
    return Fitted(*at, f"{value:.2f}", len(found), f"least absolute deviation; bytes a logit {spread}")


def _logits(log: StartupLog) -> tuple[float, int] | None:
    """(bytes that sampling took for each logit, logits); None where the forward pass decides the peak."""
    if log.activation_gib is None or log.seqs is None or log.tokens is None or log.pp > 1:
        return None
    terms = _terms(log, filled_in(engine_data("vllm"), _blank("vllm")))
    if terms.image_tokens or terms.at(0, log.tokens).activation_bytes > SAMPLING_SHARE * log.activation_gib * GIB:
        return None
    logits = min(log.seqs, log.tokens) * log.model.vocabulary
    return log.activation_gib * GIB / logits, logits


def _terms(log: StartupLog, data: Mapping[str, Any]) -> ReserveTerms:
    constants = constants_of(data, "vllm", log.version)
    weights = "bf16" if not log.quantised else "fp8"
    return reserve_terms(constants, log.model, log.gpu, tp=log.tp, pp=log.pp, weights=weights, quantised=log.quantised)


def _blank(engine: str) -> tuple[Fitted, ...]:
    """Every fitted constant as nothing: what is left of the reserve is read, not fitted."""
    return tuple(Fitted(*at, "0", 0, "") for at in places(engine_data(engine)))


def _graphs(at: Place, logs: Sequence[StartupLog]) -> Fitted:
    shown = [each for each in logs if each.graphs_gib is not None]
    plain = [each for each in shown if not _latent(each)]
    fixed, per_layer = _line([(each.model.layers / each.pp, each.graphs_gib or 0.0) for each in plain])
    if at[2] == "fixed_gib":
        return Fitted(*at, f"{fixed:.2f}", len(plain), "least absolute deviation over layers of a stage")
    if at[2] == "per_layer_gib":
        return Fitted(*at, f"{per_layer:.4f}", len(plain), "least absolute deviation over layers of a stage")
    sparse = at[2] == "sparse_factor"
    like = [each for each in shown if _latent(each) and is_sparse(each.model) == sparse]
    if not like:
        return Fitted(*at, UNSEEN[at[2]], 0, "no log: as any other model")
    ratios = [(each.graphs_gib or 0.0) / (fixed + per_layer * each.model.layers / each.pp) for each in like]
    return _median(at, ratios, 1, "logged against the line")


def _latent(log: StartupLog) -> bool:
    return is_sparse(log.model) or any(layers.kind == "mla" for layers in log.model.attention)


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """(fixed, slope) of the least absolute deviation on the grid, the least of equal ones."""
    grid = (
        (round(FIXED_STEP * fixed, 2), round(LAYER_STEP * slope, 4))
        for fixed in range(round(MOST_FIXED / FIXED_STEP))
        for slope in range(round(MOST_LAYER / LAYER_STEP))
    )

    def deviation(line: tuple[float, float]) -> float:
        return round(sum(abs(y - line[0] - line[1] * x) for x, y in points), 9)

    return min(grid, key=lambda line: (deviation(line), line))


def _sparse(at: Place, logs: Sequence[StartupLog], data: Mapping[str, Any], found: Mapping[Place, Fitted]) -> Fitted:
    """What sparse attention has beyond everything else of the peak."""
    zero = filled_in(data, (*found.values(), Fitted(*at, "0", 0, "")))
    figures = [
        each.activation_gib - _terms(each, zero).at(each.seqs, each.tokens).activation_bytes / GIB
        for each in logs
        if is_sparse(each.model) and each.activation_gib and each.seqs and each.tokens
    ]
    return _median(at, figures, 1, "beyond the rest of the peak")


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit and write the data file."""
    parser = argparse.ArgumentParser(prog="recommender.memory.refit", description=__doc__)
    parser.add_argument("--into", type=Path, default=fitted_of("vllm"), help="the data file")
    asked = parser.parse_args(arguments)
    write_fitted(asked.into, refitted(startup_logs(shipped_catalog())))


if __name__ == "__main__":
    main()
