"""The share of a card that an engine takes unless it is told one: --mem-fraction-static of SGLang and its like."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from recommender.memory.engine_rows import Row, thousandths
from recommender.units import GIB

MIB = 2**20
_PREFILL_SIZES = ((4, 33, 4), (48, 257, 16), (288, 513, 32), (576, 1025, 64), (1280, 4097, 256), (4608, 10**7, 512))
"""Token counts a prefill graph is captured for (SGLang 0.5.12-0.5.23, _generate_prefill_cuda_graph_batch_sizes)."""


@dataclass(frozen=True, slots=True)
class Work:
    """What the default depends on: the card in MiB, GPUs of the replica, tokens of a step, the largest decode graph."""

    card_mib: int
    gpus: int
    tokens: int
    graph: int
    latent: bool = False
    multimodal: bool = False
    eager: bool = False


class Share(Protocol):
    """A rule of the default share."""

    def of(self, work: Work) -> float:
        """The share of the memory, in thousandths as the engine rounds it."""
        ...


@dataclass(frozen=True, slots=True)
class FixedShare:
    """The same for every card."""

    share: float
    source: str

    def of(self, work: Work) -> float:
        """The share."""
        return self.share


@dataclass(frozen=True, slots=True)
class ShareByCard:
    """Reserved by the card's size: rows of (below MiB or None, fixed MiB, MiB a GPU)."""

    rows: tuple[tuple[int | None, Decimal, Decimal], ...]
    source: str

    def of(self, work: Work) -> float:
        """What is not reserved, as a share."""
        fixed, per_gpu = next(
            (fixed, per_gpu) for below, fixed, per_gpu in self.rows if below is None or work.card_mib < below
        )
        return _share(work, fixed + per_gpu * work.gpus)


@dataclass(frozen=True, slots=True)
class ShareByWork:
    """Reserved by what the engine is started for, in MiB (`since` 0.5.4: the terms are named in sglang.yaml)."""

    fixed: int
    per_token: Decimal
    least_tokens: int
    per_request: int
    per_gpu: int
    floor: int
    floor_above: int
    per_prefill_size: int
    latent_prefill: int
    eager_counts_graphs: bool
    source: str

    def of(self, work: Work) -> float:
        """What is not reserved, as a share."""
        reserved = self.fixed + self.per_token * max(work.tokens, self.least_tokens) + self.per_gpu * work.gpus
        if self.eager_counts_graphs or not work.eager:
            reserved += self.per_request * work.graph
        if not work.eager and not work.multimodal:
            reserved += self.latent_prefill if work.latent else self.per_prefill_size * prefill_sizes(work.tokens)
        return _share(work, max(reserved, Decimal(self.floor)) if work.card_mib > self.floor_above else reserved)


def prefill_sizes(tokens: int) -> int:
    """How many token counts a prefill graph is captured for, up to the tokens of a step."""
    return sum(len(range(first, min(end, tokens + 1), step)) for first, end, step in _PREFILL_SIZES)


def share_of(row: Row) -> Share:
    """The rule that a row of an engine's data states."""
    if row["rule"] == "fixed":
        return FixedShare(float(row["share"]), row["source"])
    if row["rule"] == "by_card":
        rows = tuple((each["below_mib"], _mib(each["fixed_gib"]), _mib(each["per_gpu_gib"])) for each in row["rows"])
        return ShareByCard(rows, row["source"])
    return ShareByWork(
        fixed=row["fixed_mib"],
        per_token=Decimal(thousandths(row["per_token_mib"])) / 1000,
        least_tokens=row["least_tokens"],
        per_request=row["per_request_mib"],
        per_gpu=row["per_gpu_mib"],
        floor=row["floor_mib"],
        floor_above=row["floor_above_mib"],
        per_prefill_size=row["prefill_graphs"]["per_size_mib"],
        latent_prefill=row["prefill_graphs"]["latent_mib"],
        eager_counts_graphs=row["eager_counts_graphs"],
        source=row["source"],
    )


def _mib(gib: str) -> Decimal:
    return Decimal(gib) * GIB / MIB


def _share(work: Work, reserved: Decimal) -> float:
    """As the engine works it out: a float, rounded to three decimals. Never below a thousandth."""
    return max(0.001, round((work.card_mib - float(reserved)) / work.card_mib, 3))
