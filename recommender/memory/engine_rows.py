"""The rows of an engine's data file as types: what holds from one version on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from recommender.errors import InputError, NotModelledError
from recommender.units import GIB

Version = tuple[int, int, int]
Row = Mapping[str, Any]


def parse_version(text: str) -> Version:
    """(major, minor, patch) of `0.19.0`, `0.8.5.post1` or `v0.11`. Raises InputError."""
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", text.strip())
    if match is None:
        raise InputError(f"engine version {text!r} is not a version such as 0.33.0")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def row_at(rows: Sequence[Row], number: Version, name: str) -> Row:
    """The last row that holds at this version. Raises NotModelledError where the version is older than all of them."""
    holding = [row for row in rows if parse_version(row["since"]) <= number]
    if not holding:
        raise NotModelledError(f"{name} is not modelled: constants begin with {rows[0]['since']}")
    return holding[-1]


def gib(value: float | str) -> int:
    """Bytes from a figure in GiB, rounded once."""
    return round(Decimal(str(value)) * GIB)


def thousandths(value: str) -> int:
    """A decimal as a whole number of thousandths."""
    return int(Decimal(value) * 1000)


@dataclass(frozen=True, slots=True)
class SchedulerDefault:
    """One row of the engine's defaults for max_num_seqs and max_num_batched_tokens."""

    generation: str
    minimum_bytes: int
    not_named: tuple[str, ...]
    seqs: int
    batched_tokens: int | None  # None: V0 without chunked prefill

    @classmethod
    def of(cls, row: Row) -> SchedulerDefault:
        """The row as a type."""
        least = row["minimum_gib"] * GIB
        return cls(row["generation"], least, tuple(row["not_named"]), row["seqs"], row["batched_tokens"])


@dataclass(frozen=True, slots=True)
class V2Rule:
    """Which models the V2 runner serves: those named, or every one without the traits in `all_but`."""

    architectures: tuple[str, ...]
    quantised: bool
    all_but: tuple[str, ...] | None

    @classmethod
    def of(cls, row: Row) -> V2Rule:
        """The row as a type."""
        all_but = row["all_but"]
        return cls(tuple(row["architectures"]), row["quantised"], None if all_but is None else tuple(all_but))


@dataclass(frozen=True, slots=True)
class Sampler:
    """What sampling S' rows of V logits takes, in thousandths of a byte per logit."""

    millibytes_per_logit: int
    float32_millibytes_per_logit: int
    scratch_bytes_per_multiprocessor: int
    bytes_per_hidden: int
    persistent_millibytes_per_logit: int
    multimodal_in_forward: bool
    source: str

    @classmethod
    def of(cls, row: Row) -> Sampler:
        """The row as a type."""
        return cls(
            millibytes_per_logit=thousandths(row["per_logit"]),
            float32_millibytes_per_logit=thousandths(row["float32_per_logit"]),
            scratch_bytes_per_multiprocessor=row["scratch_per_multiprocessor"],
            bytes_per_hidden=row["per_hidden"],
            persistent_millibytes_per_logit=thousandths(row["persistent_per_logit"]),
            multimodal_in_forward=row["multimodal"] == "forward",
            source=row["source"],
        )


@dataclass(frozen=True, slots=True)
class NonTorch:
    """Memory outside torch per GPU at tp 1, tp 2 and tp 4 and more; `evidence` and `families`: what was measured."""

    by_tp: tuple[int, int, int]
    evidence: tuple[int, ...]
    families: tuple[str, ...]
    pipeline: int  # at tp 1 with pipeline stages
    source: str

    @classmethod
    def of(cls, row: Row) -> NonTorch:
        """The row as a type."""
        one, two, four = (gib(value) for value in row["gib"])
        pipeline = gib(row.get("pipeline_gib", row["gib"][0]))
        return cls((one, two, four), tuple(row["evidence"]), tuple(row["families"]), pipeline, row["source"])

    def bytes_at(self, tp: int, pp: int = 1) -> int:
        """Bytes per GPU at this parallelism."""
        if tp == 1 and pp > 1:
            return self.pipeline
        return self.by_tp[0 if tp == 1 else 1 if tp == 2 else 2]


@dataclass(frozen=True, slots=True)
class Context:
    """Memory that is gone before the engine measures, at tp 1, tp 2 and tp 4 and more, by compute capability."""

    capability: tuple[int, ...]  # majors; empty: any
    by_tp: tuple[int, int, int]
    source: str

    @classmethod
    def of(cls, row: Row) -> Context:
        """The row as a type."""
        one, two, four = (gib(value) for value in row["gib"])
        return cls(tuple(row["capability"]), (one, two, four), row["source"])


@dataclass(frozen=True, slots=True)
class Mxfp4Kernel:
    """What a card's kernels make of MXFP4 experts after loading: sizes padded to multiples, scales swizzled with rows
    padded (`scale_rows`, 0: not), the loaded ones kept beside them or not, biases of so many bytes.
    """

    vendor: str  # empty: any
    capability: tuple[int, ...]  # majors; empty: any
    intermediate_multiple: int
    hidden_multiple: int
    scale_rows: int
    scales_kept: bool
    bias_bytes: int
    source: str

    @classmethod
    def of(cls, row: Row) -> Mxfp4Kernel:
        """The row as a type."""
        multiples = row["intermediate"], row["hidden"]
        scales = row["scale_rows"], row["scales_kept"]
        return cls(row["vendor"], tuple(row["capability"]), *multiples, *scales, row["bias_bytes"], row["source"])


@dataclass(frozen=True, slots=True)
class Graphs:
    """The CUDA graph estimate: (fixed + per layer x layers x sizes / 51) x factor."""

    fixed_bytes: int
    bytes_per_layer: int
    mla_permille: int
    sparse_permille: int
    source: str

    @classmethod
    def of(cls, row: Row) -> Graphs:
        """The row as a type."""
        return cls(
            gib(row["fixed_gib"]),
            gib(row["per_layer_gib"]),
            thousandths(row["mla_factor"]),
            thousandths(row["sparse_factor"]),
            row["source"],
        )


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Half of an 80 % interval around the reserve: where a replica is like those measured, and elsewhere."""

    measured_bytes: int
    other_bytes: int
    dense_only: bool  # only dense models on one GPU count as measured
    source: str

    @classmethod
    def of(cls, row: Row) -> Uncertainty:
        """The row as a type."""
        return cls(gib(row["measured_gib"]), gib(row["other_gib"]), row["dense_only"], row["source"])


@dataclass(frozen=True, slots=True)
class Recurrent:
    """How recurrent (Mamba, GDN, KDA) layers are cached, by layer type; `named_states` by architecture wins."""

    states: Mapping[str, int]
    named_states: Mapping[str, int]
    block_multiple: Mapping[str, int]

    @classmethod
    def of(cls, row: Row) -> Recurrent:
        """The row as a type."""
        return cls(row["states"], row["named_states"], row["block_multiple"])
