"""What the first rung really saves: max-model-len cut to what is promised, by either sizing."""

from __future__ import annotations

from dataclasses import dataclass

from recommender.memory.fit import Fit
from recommender.search.candidates import Row
from recommender.search.longest import longest_of
from recommender.search.plans import Question
from recommender.units import round_up
from recommender.workload.inflight import inflight_of

BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class LengthRung:
    """An exact comparison: `shortest` serves the promised share of requests, `holds_up_to` still holds them all.

    On the GPUs the ladder starts with; `holds` is whether they hold all requests at the shortest, and `holds_up_to` is
    None where they do not, or where it is not worked out. Tokens are what `requests` at once need at `longest` and at
    `shortest`; `statistical_tokens` None: a fixed total has no more to say.
    """

    longest: int
    shortest: int
    holds: bool
    holds_up_to: int | None
    requests: int
    worst_case_tokens: tuple[int, int]
    statistical_tokens: tuple[int, int] | None


def length_rung(question: Question, longest: int, shortest: int, row: Row, memory: Fit) -> LengthRung:
    """The comparison on one replica; `row` and `memory` are those at the shortest length."""
    scenario, load = question.scenario, question.load
    size = memory.block_size or BLOCK_TOKENS
    requests = scenario.workload.concurrency or max(1, row.slots)
    holds = row.sequences >= load.demand
    return LengthRung(
        longest=longest,
        shortest=shortest,
        holds=holds,
        holds_up_to=longest_of(question, memory, load.demand, row) if holds else None,
        requests=requests,
        worst_case_tokens=(requests * round_up(longest, size), requests * round_up(shortest, size)),
        statistical_tokens=(
            None
            if scenario.workload.lengths.total_only
            else (_need(question, requests, longest, size), _need(question, requests, shortest, size))
        ),
    )


def _need(question: Question, requests: int, max_model_len: int, size: int) -> int:
    """Tokens that requests in flight need, one whole request of max_model_len among them."""
    work = question.scenario.workload
    need = inflight_of(work.lengths, requests, question.scenario.epsilon, max_model_len, size, work.shared_prefix)
    return max(need.statistical_tokens, round_up(max_model_len, size))
