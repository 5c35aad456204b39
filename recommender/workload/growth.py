"""Requests in service, and the blocks that those which decode need in the steps ahead."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from recommender.workload.holding import Kept


@dataclass(slots=True, eq=False)
class InService:
    """A request on its way. Decoding, it holds `tokens` + (step - since) tokens after each step."""

    number: int
    prompt: int
    output: int
    sent_s: float
    generated: int = 0
    computed: int = 0  # tokens in the cache while the prompt is being computed
    held: int = 0  # blocks, while the prompt is being computed
    decoding: bool = False
    tokens: int = 0
    since: int = 0
    ends: int = 0  # step that gives the last token
    grows: dict[int, int] = field(default_factory=dict)  # kinds of layers in which it still grows, each with a mark
    first_token_s: float = -1.0
    preemptions: int = 0

    @property
    def length(self) -> int:
        """Tokens that must be computed before the next one can be generated."""
        return self.prompt + self.generated


@dataclass(slots=True)
class _Growth:
    """Decoding sequences that still grow in one kind of layers, by the step (modulo block) of their next block."""

    size: int
    groups: int
    most: int | None  # blocks at which a decoding sequence stops to grow
    by_place: list[int]
    count: int = 0

    @classmethod
    def of(cls, kind: Kept) -> _Growth:
        return cls(kind.block_tokens, kind.groups, kind.most(1), [0] * kind.block_tokens)

    def place(self, sequence: InService) -> int:
        """The step, modulo the block size, in which a decoding sequence needs its next block."""
        return (sequence.since + 1 - sequence.tokens) % self.size

    def count_in(self, sequence: InService, change: int) -> None:
        """Count one sequence more, or one less."""
        self.by_place[self.place(sequence)] += change
        self.count += change

    def last_step(self, sequence: InService) -> int | None:
        """The step in which a decoding sequence takes its last block; None: it grows as long as it runs."""
        if self.most is None:
            return None
        return sequence.since + (self.most - 1) * self.size + 1 - sequence.tokens


@dataclass(slots=True)
class Growing:
    """All decoding sequences by when they need blocks. Windows fill; from then on their layers need no more."""

    kinds: tuple[_Growth, ...]
    period: int  # steps after which each sequence that still grows has grown alike in all kinds
    filling: list[tuple[int, int, int, InService]] = field(default_factory=list)  # (last step it grows in, kind, ...)
    added: int = 0

    @classmethod
    def of(cls, kinds: Iterable[Kept]) -> Growing:
        """None yet, of layers that keep so."""
        growths = tuple(_Growth.of(kind) for kind in kinds)
        return cls(growths, math.lcm(*(growth.size for growth in growths)))

    def add(self, sequence: InService) -> None:
        """Count a sequence that begins to decode."""
        for number, growth in enumerate(self.kinds):
            last = growth.last_step(sequence)
            if last is not None:
                if last <= sequence.since:
                    continue
                self.added += 1  # sequences that fill in the same step are taken as they came
                heappush(self.filling, (last, self.added, number, sequence))
            sequence.grows[number] = self.added
            growth.count_in(sequence, 1)

    def drop(self, sequence: InService) -> None:
        """No longer count a sequence: it is done, or preempted."""
        for number in sequence.grows:
            self.kinds[number].count_in(sequence, -1)
        sequence.grows.clear()

    def settle(self, step: int) -> None:
        """No longer count sequences in layers whose window is full after this step."""
        while self.filling and self.filling[0][0] <= step:
            _, added, number, sequence = heappop(self.filling)
            if sequence.grows.get(number) == added:
                del sequence.grows[number]
                self.kinds[number].count_in(sequence, -1)

    def needed(self, step: int) -> int:
        """Blocks that all of them need in a step."""
        return sum(growth.groups * growth.by_place[step % growth.size] for growth in self.kinds)

    def needed_by(self, sequence: InService, step: int) -> int:
        """Blocks that one of them needs in a step."""
        grows = (self.kinds[number] for number in sequence.grows)
        return sum(growth.groups for growth in grows if growth.place(sequence) == step % growth.size)

    def affordable(self, step: int, steps: int, free: int) -> tuple[int, int]:
        """How many of the steps from `step` on find all their blocks, and the blocks they take.

        Steps beyond the next in which a window fills are not looked at.
        """
        steps = self._up_to_next_full(step, steps)
        in_a_round = sum(growth.groups * growth.count * (self.period // growth.size) for growth in self.kinds)
        rounds = min(steps // self.period, free // in_a_round) if in_a_round else steps // self.period
        taken, done = rounds * in_a_round, rounds * self.period
        while done < steps:
            need = self.needed(step + done)
            if taken + need > free:
                break
            taken += need
            done += 1
        return done, taken

    def _up_to_next_full(self, step: int, steps: int) -> int:
        while self.filling:
            last, added, number, sequence = self.filling[0]
            if sequence.grows.get(number) == added:
                return min(steps, last - step + 1)
            heappop(self.filling)
        return steps
