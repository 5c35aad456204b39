"""Causes of a gap in activations: settings the log does not state, and what is profiled with the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from recommender.errors import InputError
from recommender.memory.fit import Fit
from recommender.verify.case import REMAINS, Case, Cause, gib

SEQUENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 320, 512, 768, 1024, 2048)
BATCHED = (512, 2048, 4096, 8192, 16384, 32768)
VERSIONS = ("0.6.6", "0.8.5", "0.11.0", "0.16.0", "0.19.0", "0.21.0", "0.28.0", "0.33.0")
_PARTS: Mapping[str, Callable[[Fit], int]] = {
    "activation": lambda fit: fit.activation_bytes,
    "overhead": lambda fit: fit.activation_bytes + fit.non_torch_bytes,
    "reserve": lambda fit: fit.reserve_bytes,
}


def activations(case: Case) -> Iterator[Cause]:
    """Causes of the gap in activations, or in the reserve where the log states nothing finer."""
    measured = next((name for name in _PARTS if case.gap(name)), None)
    if measured is None:
        return
    gap, asked, fit = case.gap(measured), case.configuration, case.prediction.fit
    if asked.max_num_seqs is None:
        yield from _setting(case, measured, "max_num_seqs", SEQUENCES, fit.max_num_seqs)
    if asked.max_num_batched_tokens is None:
        yield from _setting(case, measured, "max_num_batched_tokens", BATCHED, fit.max_num_batched_tokens)
    if _version_doubtful(case):
        yield from _setting(case, measured, "engine_version", VERSIONS, fit.engine_version)
    if gap > 0:
        return
    more = f"{gib(-gap)} more than predicted"
    if case.prediction.model.multimodal:
        yield Cause("multimodal profiling", f"{more}: the encoder runs on its largest inputs while profiling", gap)
    if asked.dtype == "float32":
        yield Cause("float32", f"{more}: activations take 4 bytes an element", gap)
    if asked.lora:
        yield Cause("LoRA", f"{more}: adapters are profiled with the model", gap)
    if asked.speculative is not None:
        yield Cause("a draft model", f"{more}: its activations are profiled too", gap)


def _setting(case: Case, measured: str, key: str, values: tuple[int | str, ...], used: int | str) -> Iterator[Cause]:
    """Another value of what the log does not state for certain, where it makes the gap go away."""
    gap, part = case.gap(measured), _PARTS[measured]
    left = {
        value: abs(gap + part(fit) - part(case.prediction.fit))
        for value in values
        if value != used and (fit := _tried(case, **{key: value})) is not None
    }
    best = min(left, key=lambda value: left[value], default=None)
    if best is not None and left[best] <= REMAINS * abs(gap):
        reasoning = f"{_assumed(key, used)}; {best} leaves {gib(left[best])} of a gap of {gib(abs(gap))}"
        yield Cause(f"a different {key}", reasoning, abs(gap) - left[best])


def _tried(case: Case, **changes: Any) -> Fit | None:
    try:
        return case.prediction.again(**changes)
    except InputError:
        return None


def _assumed(key: str, used: int | str) -> str:
    if key == "engine_version":
        return f"no start-up log backs the rules of {used}"
    return f"the log does not state it: the default of {used:,} is assumed"


def _version_doubtful(case: Case) -> bool:
    """Whether the log was written by no release, by another version than it says, or by one nobody measured."""
    version = case.configuration.version or ""
    release = version.replace(".", "").isdecimal()
    return not release or version != case.log.version or case.prediction.constants.extrapolated is not None
