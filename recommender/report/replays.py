"""Replays of the best plans in words."""

from __future__ import annotations

from collections.abc import Iterable

from recommender.report.grid import paragraph
from recommender.report.sizing import step_words
from recommender.report.words import joined
from recommender.search.plan import Recommendation, Replayed, ReplicaGroup
from recommender.units import plural, show_figures, show_seconds
from recommender.workload.replay import Replay, Times


def rejected(answer: Recommendation) -> Iterable[str]:
    """That a replay rejects the best plan, as a part of the sentence."""
    rejections = [each for each in answer.replays if each.rank == 1 and each.accepted is False]
    if rejections:
        saved = [each.watermark.argument for each in rejections if each.watermark and each.watermark.accepted]
        cure = f" (with {saved[0]} it stands)" if len(saved) == len(rejections) and saved[0] else ""
        yield f"but a replay rejects it: {rejections[0].reason}{cure}"


def replay_lines(answer: Recommendation) -> list[str]:
    """A paragraph a replayed engine; plans that differ in what is bought alone share one."""
    ranks: dict[tuple[str, str], list[int]] = {}
    for each in answer.replays:
        group = answer.plans[each.rank - 1].replicas[each.replica]
        ranks.setdefault((group.gpu, _replayed(each, group)), []).append(each.rank)
    lines = [
        line
        for (gpu, said), ranked in ranks.items()
        for line in paragraph(f"{_ranks(dict.fromkeys(ranked))} on {gpu}: {said}", "- ")
    ]
    return [*paragraph("Replayed, one engine each:"), *lines] if lines else []


def _ranks(ranks: Iterable[int]) -> str:
    named = [str(rank) for rank in ranks]
    return f"Rank {named[0]}" if len(named) == 1 else f"Ranks {joined(named)}"


def _replayed(each: Replayed, group: ReplicaGroup) -> str:
    if each.result is None:
        return f"{each.reason}."
    verdict = "it stands" if each.accepted else f"REJECTED, {each.reason}"
    how, remark = f"{each.how[:1].upper()}{each.how[1:]}", _watermark(each, group)
    return f"{verdict}. {how}; {_figures(each.result, each.kv_tokens)}. {_timing(each)}{remark}"


def _timing(each: Replayed) -> str:
    """What the seconds rest on."""
    return f"It takes, {each.timing}, {step_words(each.step_time)}." if each.step_time else ""


def _watermark(each: Replayed, group: ReplicaGroup) -> str:
    """What keeping some blocks free would change, and how this engine version is told to."""
    tried, result = each.watermark, each.result
    if tried is None or result is None:
        return ""
    found = f"{tried.result.preemptions_per_request:.3g} preemptions each, the first token at p99 in"
    found += f" {show_seconds(tried.result.ttft.p99_s)} s"
    engine = f"{group.memory.engine} {group.memory.engine_version}"
    if tried.result.preemptions >= result.preemptions:
        return f" Keeping {100 * tried.share:g} % of the blocks free at admission would not help: {found}."
    stands = ", and it stands" if tried.accepted and not each.accepted else ""
    if tried.argument is None:
        return (
            f" With {100 * tried.share:g} % of the blocks kept free at admission: {found}{stands}; but {engine} has no"
            " option for that."
        )
    return f" With {tried.argument} added to its launch line: {found}{stands}."


def _figures(result: Replay, kv_tokens: int | None) -> str:
    fills = f"{result.peak_kv_tokens:,} of {kv_tokens:,} tokens" if kv_tokens else f"{100 * result.peak_kv_share:.0f} %"
    requests = plural(result.requests, "request")
    return (
        f"{requests} (seed {result.seed}): {result.preemptions_per_request:.3g} preemptions each;"
        f" {show_figures(result.mean_running)} run on average; the cache fills up to {fills};"
        f" the first token takes {_times(result.ttft)}, the answer {_times(result.latency)};"
        f" {show_figures(result.output_tokens_per_s)} output tokens a second"
    )


def _times(times: Times) -> str:
    shown = " / ".join(show_seconds(each) for each in (times.p50_s, times.p95_s, times.p99_s))
    return f"{shown} s (p50 / p95 / p99)"
