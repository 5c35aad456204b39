"""The likeliest causes of a gap between prediction and log, each with its reasoning and how much of it it explains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from recommender.units import GIB
from recommender.verify.activation_causes import activations
from recommender.verify.case import REMAINS, Case, Cause, gib
from recommender.verify.configuration import Configuration
from recommender.verify.log import StartupLog
from recommender.verify.prediction import Prediction
from recommender.verify.readings import Readings

FOREIGN = "another process on the GPU"
CONTEXT_AT_MOST = (1 * GIB, 5 * GIB // 2)
"""What a CUDA context takes before vLLM measures, at most: on one GPU, and on several (published logs: 0.3-2.2 GiB)."""
ARITHMETIC = 0.002
"""Share by which tokens and logged memory may disagree before the cache itself must be another one."""
FOREIGN_AT_LEAST = GIB // 4


def causes_of(
    log: StartupLog,
    configuration: Configuration,
    prediction: Prediction,
    readings: Readings,
    gaps: Mapping[str, int | float],
    budget: int,
) -> tuple[Cause, ...]:
    """Causes of the gaps, those that explain most first; empty where prediction and log agree."""
    case = Case(log, configuration, prediction, readings, gaps, budget)
    found = [cause for look in _LOOKS for cause in look(case)] or list(_largest_gap(case))
    return tuple(sorted(found, key=lambda cause: (-abs(cause.explains_bytes), cause.what)))


def _largest_gap(case: Case) -> Iterator[Cause]:
    """Where most of the gap is, when nothing in the log accounts for it."""
    name = max(_PARTS, key=lambda name: abs(case.gap(name)))
    gap = case.gap(name)
    if gap:
        where = f"most of it is in {_PARTS[name]}, {gib(abs(gap))} {'below' if gap > 0 else 'above'} what is predicted"
        yield Cause("nothing that the log names", where, gap)
    elif case.gap("kv_cache"):
        why = "lines that each differ by less than can be explained add up"
        yield Cause("nothing that the log names", why, case.gap("kv_cache"))


def _others_on_the_card(case: Case) -> Iterator[Cause]:
    """Memory that was gone before the engine measured, or that this version counts as its own."""
    free, total = case.readings["free"], case.readings["total"]
    gap = case.gap("non_torch", "overhead", "reserve")
    counted = case.prediction.constants.number < (0, 9, 0)  # until then, use by other processes came off the budget
    if free is not None and total is not None:
        most = CONTEXT_AT_MOST[case.configuration.tp * case.configuration.pp > 1]
        taken = total.value - free.value
        if taken > most and (case.log.refusal == "no_free_memory" or -gap > FOREIGN_AT_LEAST):
            reasoning = (
                f"{gib(taken)} of {gib(total.value)} were taken before vLLM measured; its own context takes at most"
            )
            yield Cause(FOREIGN, f"{reasoning} {gib(most)} here", taken - most)
    elif counted and case.readings["non_torch"] is not None and -gap > FOREIGN_AT_LEAST:
        reasoning = (
            f"outside PyTorch is {gib(-gap)} above what was measured, and this version counts other processes in it"
        )
        yield Cause(FOREIGN, reasoning, -gap)


def _another_card(case: Case) -> Iterator[Cause]:
    gap = case.gap("total")
    if gap:
        gpu = case.prediction.device.gpu
        stated = f"the log states {gib(case.readings.by_name['total'].value)}, the catalog {gib(gpu.memory_bytes or 0)}"
        reasoning = f"{stated} for {gpu.name}: another card, a part of one (MIG), or a driver that shows it so (WSL2)"
        yield Cause("the GPU has other memory", reasoning, gap)


def _weights(case: Case) -> Iterator[Cause]:
    gap, logged = case.gap("weights"), case.readings["weights"]
    if not gap or logged is None:
        return
    predicted = case.prediction.fit.weights_bytes
    stated = f"the log has {gib(logged.value)} of weights, {gib(predicted)} are predicted"
    for what, why, holds in _WEIGHTS:
        if holds(case, logged.value / max(1, predicted)):
            yield Cause(what, f"{stated}: {why}", gap)
            return
    yield Cause("another checkpoint or geometry", stated, gap)


def _outside_torch(case: Case) -> Iterator[Cause]:
    """Another process that grew while the engine profiled, where it is more than an engine's own can be."""
    gap, several = case.gap("non_torch"), case.configuration.tp * case.configuration.pp > 1
    if not gap:
        return
    said = f"outside PyTorch is {gib(abs(gap))} {'below' if gap > 0 else 'above'} what is predicted"
    more = _more_than_other_ranks(case)
    if more > FOREIGN_AT_LEAST:
        where = f"the GPU of {case.readings.binding} has {gib(more)} more outside PyTorch than another rank's"
        yield Cause(FOREIGN, f"{where}, and what grows there while the engine profiles counts as its own", gap)
    elif -gap > CONTEXT_AT_MOST[several]:
        why = f"kernels and buffers take at most {gib(CONTEXT_AT_MOST[several])} here, and other processes count in it"
        yield Cause(FOREIGN, f"{said} while the engine profiled: {why}", gap)
    elif several:
        why = "NCCL's and all-reduce buffers depend on links and drivers"
        yield Cause("communication buffers of this host", f"{said}: {why}", gap)
    else:
        why = "modules compiled or loaded while profiling count in it"
        yield Cause("kernels and libraries of this host", f"{said}: {why}", gap)


def _more_than_other_ranks(case: Case) -> int:
    """Bytes that the binding rank has outside PyTorch beyond the rank that has least."""
    here, least = case.readings["non_torch"], case.log.smallest("non_torch")
    return here.value - least.value if here is not None and least is not None else 0


def _graphs_charged(case: Case) -> Iterator[Cause]:
    """Graphs taken off the budget where this version does not, or the other way round."""
    log, charged = case.log, case.prediction.constants.graphs_charged
    estimate = case.readings["graph_estimate"]
    if charged and "graphs_not_charged" in log.signs:
        why = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0 leaves them outside the budget"
        yield Cause("CUDA graphs not charged", why, case.prediction.fit.cuda_graph_bytes)
    if not charged and "graphs_charged" in log.signs and estimate is not None:
        why = "their estimate is taken off the budget, which this version does not do by default"
        yield Cause("CUDA graphs charged", why, -estimate.value)


def _graph_estimate(case: Case) -> Iterator[Cause]:
    """An estimate that came out otherwise, or graphs that were never captured."""
    gap, whole, graphs = case.gap("graph_estimate"), case.gap("reserve"), case.prediction.fit.cuda_graph_bytes
    if gap:
        stated = f"the estimate is {gib(abs(gap))} {'below' if gap > 0 else 'above'} what is predicted"
        yield Cause("the CUDA graph estimate", f"{stated}; one model logged 0.6 and 1.6 GiB in two boots", gap)
    captured = case.readings["graph_estimate"] or case.readings["graph_actual"]
    if captured is None and graphs and abs(whole - graphs) <= REMAINS * whole:
        why = f"no capture is logged, and without their {gib(graphs)} {gib(abs(whole - graphs))} of the gap is left"
        yield Cause("no CUDA graphs", why, graphs)


def _shape_of_the_cache(case: Case) -> Iterator[Cause]:
    """The logged memory holds other tokens than it should: another dtype, more layers, another layout."""
    row, logged, kv = case.gaps.get("arithmetic"), case.readings["pool"], case.readings["kv_cache"]
    if not row or logged is None or kv is None or abs(row) <= ARITHMETIC * logged.value:
        return
    ratio = logged.value / max(1.0, logged.value + row)
    said = f"the logged KV cache holds {ratio:.3g} times the tokens it should"
    for what, why, holds in _CACHE:
        if holds(case, ratio):
            yield Cause(what, f"{said}: {why}", int(kv.value * (1 - 1 / max(ratio, 0.01))))
            return


def _another_engine(case: Case) -> Iterator[Cause]:
    stated, used = case.configuration.generation, case.prediction.constants.generation(case.prediction.device.gpu)
    if stated is not None and stated != used:
        version = case.configuration.version
        reasoning = f"the log is {stated}'s, {version} is taken to run {used} on this card (VLLM_USE_V1 decides)"
        yield Cause(f"the {stated} engine", reasoning, case.gap("reserve", "kv_cache"))


def _unmeasured(case: Case) -> Iterator[Cause]:
    """The constants themselves, where nothing else is known."""
    gap = case.gap("reserve", "overhead", "activation", "kv_cache")
    if gap:
        for reason in case.prediction.fit.extrapolated:
            yield Cause("constants that were not measured here", reason, 0)


_PARTS = {
    "weights": "weights",
    "activation": "activations",
    "graph_estimate": "CUDA graphs",
    "overhead": "activations and memory outside PyTorch",
    "reserve": "what is neither weights nor KV cache",
}
Holds = Callable[[Case, float], bool]
"""Whether a cause holds for a case in which the log has so many times what is predicted."""

_WEIGHTS: tuple[tuple[str, str, Holds], ...] = (
    (
        "weights in float32",
        "4 bytes a parameter were asked for",
        lambda case, ratio: case.configuration.dtype == "float32" and 1.8 < ratio < 2.2,
    ),
    ("CPU offload", "a part was moved to the host", lambda case, ratio: case.configuration.cpu_offload and ratio < 1),
    ("LoRA", "adapters keep buffers beside them", lambda case, ratio: case.configuration.lora and ratio > 1),
    (
        "a draft model",
        "speculative decoding loads further layers",
        lambda case, ratio: case.configuration.speculative is not None and ratio > 1,
    ),
    ("fewer bits than the name says", "a quantised repository under another name", lambda _, ratio: 0.2 < ratio < 0.65),
    ("16-bit weights", "a quantised model that was not stored or loaded so", lambda _, ratio: 1.6 < ratio < 2.3),
    (
        "modules left in 16 bit",
        "which ones are is known for few repositories",
        lambda case, ratio: case.prediction.fit.weights not in ("bf16", "fp16") and ratio > 1,
    ),
    (
        "buffers of the vision or audio encoder",
        "they are not in the config",
        lambda case, ratio: case.prediction.model.multimodal and 1 < ratio < 1.1,
    ),
)
_CACHE: tuple[tuple[str, str, Holds], ...] = (
    (
        "num_gpu_blocks_override",
        "the number of blocks was set",
        lambda case, _: case.configuration.blocks_override is not None,
    ),
    (
        "context parallelism",
        "each GPU holds a part of every request",
        lambda case, _: case.configuration.context_parallel > 1,
    ),
    (
        "an 8-bit KV cache",
        "half the bytes a token: the checkpoint declares fp8, or the flag is not in the log",
        lambda _, ratio: 1.8 < ratio < 2.2,
    ),
    (
        "a float32 KV cache",
        "4 bytes an element, as the model's dtype",
        lambda case, ratio: case.configuration.dtype == "float32" and 0.45 < ratio < 0.55,
    ),
    ("a 16-bit KV cache", "twice the bytes a token", lambda _, ratio: 0.45 < ratio < 0.55),
    (
        "a draft model",
        "its layers share the cache",
        lambda case, ratio: case.configuration.speculative is not None and ratio < 1,
    ),
    ("another layout of the cache", "block size, grouping or padding of another version or backend", lambda *_: True),
)

_LOOKS: tuple[Callable[[Case], Iterator[Cause]], ...] = (
    _others_on_the_card,
    _another_card,
    _weights,
    activations,
    _outside_torch,
    _graphs_charged,
    _graph_estimate,
    _shape_of_the_cache,
    _another_engine,
    _unmeasured,
)
