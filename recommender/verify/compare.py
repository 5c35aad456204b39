"""Predicted against logged, line by line, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from recommender.catalog.catalog import Catalog
from recommender.errors import Fault, InputError
from recommender.verify.case import Cause
from recommender.verify.causes import causes_of
from recommender.verify.configuration import Configuration, configuration_of
from recommender.verify.contradictions import contradictions_of
from recommender.verify.log import StartupLog
from recommender.verify.prediction import Prediction, prediction_of
from recommender.verify.readings import FROM_THE_POOL, Reading, Readings, readings_of

TOLERANCE = 0.03
"""Share of the budget that prediction and log may differ by: nine of ten published start-up logs are within 4 %."""

LOOKED_FOR = (
    "'Model loading took' or 'Loading model weights took', 'Available KV cache memory' or 'the rest of the memory "
    "reserved for KV Cache is', 'GPU KV cache size' or '# GPU blocks', 'Maximum concurrency for', 'Total non KV cache "
    "memory', and the errors of an engine that does not start"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line. `share` is the difference as a share of the budget, None where nothing is predicted; `rounding` is how
    exactly the log states its figure.
    """

    name: str
    what: str
    unit: str  # bytes | tokens | blocks | requests | starts
    predicted: int | float | None
    logged: int | float | None
    rounding: int | float
    share: float | None
    line: int | None
    said_by: str
    note: str = ""

    @property
    def difference(self) -> int | float | None:
        """Predicted less logged."""
        return None if self.predicted is None or self.logged is None else self.predicted - self.logged


@dataclass(frozen=True, slots=True)
class Verification:
    """A start-up log against the prediction for its configuration."""

    log: StartupLog
    configuration: Configuration
    prediction: Prediction
    readings: Readings
    budget_bytes: int
    rows: tuple[Row, ...]
    causes: tuple[Cause, ...]
    tolerance: float
    contradictions: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether every line is within the tolerance, and the log does not contradict itself."""
        return not self.beyond and not self.contradictions

    @property
    def beyond(self) -> tuple[Row, ...]:
        """Rows that differ by more than the tolerance."""
        return tuple(row for row in self.rows if row.share is not None and abs(row.share) > self.tolerance)


def verify_log(
    log: StartupLog | None,
    catalog: Catalog,
    *,
    model: str | None = None,
    gpu: str | None = None,
    engine_version: str | None = None,
    tolerance: float = TOLERANCE,
    name: str = "",
) -> Verification:
    """The comparison. Raises InputError where this is no start-up log of vLLM, or it does not say enough."""
    if log is None or not (log.states_memory or log.version):
        raise InputError(Fault("is not a start-up log of vLLM", name, expected=LOOKED_FOR))
    if not log.states_memory:
        what = f"is a log of vLLM {log.version} that ends before anything about memory was written"
        raise InputError(Fault(what, name, expected=LOOKED_FOR))
    if log.engines:
        what = f"holds {len(log.engines)} engines that wrote at once: {', '.join(log.engines)}"
        raise InputError(Fault(what, name, expected="the lines of one of them"))
    configuration = configuration_of(log, engine_version)
    prediction = prediction_of(log, configuration, catalog, model, gpu)
    readings = readings_of(log, prediction.fit)
    usable = readings["usable"]
    budget = usable.value if usable is not None and usable.value > 0 else prediction.fit.usable_bytes
    rows = tuple(_rows(log, prediction, readings, budget))
    against = contradictions_of(log, configuration, prediction, readings)
    causes = () if against else causes_of(log, configuration, prediction, readings, differences(rows), budget)
    return Verification(log, configuration, prediction, readings, budget, rows, causes, tolerance, against)


def _rows(log: StartupLog, prediction: Prediction, readings: Readings, budget: int) -> Iterator[Row]:
    fit = prediction.fit
    compared: tuple[tuple[str, str, int | None], ...] = (
        ("total", "memory of the GPU", fit.memory_bytes),
        ("usable", f"usable at utilization {fit.gpu_memory_utilization:g}", fit.usable_bytes),
        ("weights", "weights", fit.weights_bytes),
        ("activation", "activations", None if readings["consumed"] else fit.activation_bytes),
        ("non_torch", "outside PyTorch", fit.non_torch_bytes),
        ("overhead", "activations and outside PyTorch", fit.activation_bytes + fit.non_torch_bytes),
        (
            "graph_estimate",
            "CUDA graphs, estimated",
            fit.cuda_graph_bytes if _graphs_charged(log, prediction) else None,
        ),
        ("graph_actual", "CUDA graphs, captured", None),
        ("reserve", "all but weights and KV cache", fit.reserve_bytes),
        ("kv_cache", "KV cache", fit.kv_cache_bytes),
    )
    for name, what, predicted in compared:
        reading = readings[name]
        if reading is not None:
            yield _bytes_row(name, what, predicted, reading, budget, prediction)
    yield from _pool_rows(prediction, readings, budget)
    yield from _refusal_rows(log, prediction, readings, budget)


def _graphs_charged(log: StartupLog, prediction: Prediction) -> bool:
    return prediction.constants.graphs_charged and "graphs_not_charged" not in log.signs


def _bytes_row(
    name: str, what: str, predicted: int | None, reading: Reading, budget: int, prediction: Prediction
) -> Row:
    share = None if predicted is None else (predicted - reading.value) / budget
    note = ""
    if name == "graph_estimate" and predicted is None:
        note = "outside the budget of this version"
    elif name == "graph_actual":
        note = "not predicted"
    elif name == "activation" and predicted is None:
        note = "without what stays allocated: compared below together"
    return Row(name, what, "bytes", predicted, reading.value, reading.half, share, reading.line, reading.said_by, note)


def _pool_rows(prediction: Prediction, readings: Readings, budget: int) -> Iterator[Row]:
    """Blocks, tokens and requests; and the tokens that the logged KV cache memory alone should give."""
    fit, kv, pool = prediction.fit, readings["kv_cache"], readings["pool"]
    weight = (kv.value if kv else fit.kv_cache_bytes) / budget  # a share of the pool as a share of the budget
    blocks, concurrency = readings["blocks"], readings["concurrency"]
    if blocks is not None and fit.blocks is not None:
        yield _counted("blocks", "KV blocks", "blocks", fit.blocks, blocks, weight)
    if pool is None and blocks is not None and fit.block_size is not None:
        tokens = blocks.value * fit.block_size
        pool = Reading("pool", tokens, 0, blocks.line, f"blocks x {fit.block_size}")
    held = kv is not None and kv.said_by != FROM_THE_POOL and 0 < kv.value <= fit.memory_bytes - kv.half
    if kv is not None and held and pool is not None and pool.value > 0:
        yield _arithmetic(prediction, kv, pool)
    if pool is not None:
        yield _counted("pool", "tokens in the KV cache", "tokens", fit.kv_cache_tokens, pool, weight)
    if concurrency is not None:
        logged = concurrency.value / 10**6
        share = (fit.max_concurrency / logged - 1) * weight if logged else None
        what = f"requests of {fit.max_model_len:,} tokens"
        yield Row("concurrency", what, "requests", fit.max_concurrency, logged, 0.005, share, concurrency.line, "")


def _counted(name: str, what: str, unit: str, predicted: int, reading: Reading, weight: float) -> Row:
    share = (predicted / reading.value - 1) * weight if reading.value else (1.0 if predicted else 0.0)
    return Row(name, what, unit, predicted, reading.value, reading.half, share, reading.line, reading.said_by)


def _arithmetic(prediction: Prediction, kv: Reading, pool: Reading) -> Row:
    """Tokens predicted from the KV cache memory of the log: nothing soft is left in it, only the shape of the cache."""
    tokens = prediction.again(kv_cache_memory_bytes=kv.value).kv_cache_tokens
    high = prediction.again(kv_cache_memory_bytes=kv.value + kv.half).kv_cache_tokens
    low = prediction.again(kv_cache_memory_bytes=max(1, kv.value - kv.half)).kv_cache_tokens
    rounding = max(high - tokens, tokens - low)
    over = max(0, abs(tokens - pool.value) - rounding)
    share = over / pool.value * (1 if tokens > pool.value else -1)
    what = "tokens by the logged KV cache"
    return Row("arithmetic", what, "tokens", tokens, pool.value, rounding, share, pool.line, pool.said_by)


def _refusal_rows(log: StartupLog, prediction: Prediction, readings: Readings, budget: int) -> Iterator[Row]:
    fit, needed, longest = prediction.fit, readings["needed"], readings["estimated_len"]
    if needed is not None and fit.request_blocks and fit.bytes_per_block:
        predicted = fit.request_blocks * fit.bytes_per_block
        what = f"KV cache of {fit.max_model_len:,} tokens"
        yield _bytes_row("needed", what, predicted, needed, budget, prediction)
    if longest is not None:
        predicted_longest = fit.estimated_max_model_len or (fit.max_model_len if fit.starts else 0)
        weight = fit.kv_cache_bytes / budget
        yield _counted(
            "estimated_len", "longest length it would start with", "tokens", predicted_longest, longest, weight
        )
    started = log.refusal is None
    if not started or readings["pool"] or readings["blocks"]:
        share = 0.0 if fit.starts == started else 1.0
        said = "" if started else log.signs[log.refusal or ""]
        line = said if isinstance(said, int) else None
        yield Row("starts", "starts", "starts", int(fit.starts), int(started), 0, share, line, "")


def differences(rows: tuple[Row, ...]) -> Mapping[str, int | float]:
    """Predicted less logged by the row's name, where both are known."""
    return {row.name: row.difference for row in rows if row.difference is not None}
