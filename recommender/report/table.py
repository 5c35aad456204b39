"""The answer as text for people, within 100 columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from recommender.report.by_hour import by_hour_lines
from recommender.report.grid import WIDTH, grid, page, paragraph
from recommender.report.launch import broken
from recommender.report.memory import breakdown, holds
from recommender.report.replays import replay_lines
from recommender.report.sentence import sentence
from recommender.report.sizing import sizing_lines
from recommender.report.speeds import speed_lines
from recommender.report.words import (
    UNPRICED,
    bought,
    bought_in_full,
    cards,
    dollars,
    hourly,
    joined,
    layout,
    monthly,
    percent,
    spread,
)
from recommender.search.plan import Adjustment, Certificate, LeftOut, Plan, Recommendation, Refusal, ReplicaGroup
from recommender.units import GIB, plural, show_figures

_HEAD = ("#", "$/hour", "$/month", "GPUs", "GPU", "tp x n", "weights", "KV", "max len", "headroom", "tok/s <=")
_LEFT = frozenset({4, 6, 7})
_WORDS = {"max_model_len": "max-model-len", "kv_dtype": "KV dtype", "gpus": "GPUs", "max_num_seqs": "max-num-seqs"}
_WORDS |= {"max_num_batched_tokens": "batched tokens", "dtype": "fp16"}
_LEGEND = (
    "Prices are on demand unless said. A month is 730 hours. tp x n: tensor parallel size x replicas. max len: "
    "max-model-len in tokens. tok/s <=: at most so many tokens a second for one request (memory bandwidth; an upper "
    "bound, not a forecast). Adjustments are numbered as in the ladder, cheapest first."
)


def answers_page(answers: Mapping[str, Recommendation]) -> str:
    """Several answers side by side in a line each, then each in full under its name."""
    if len(answers) == 1:
        return answer_page(*answers.values())
    named = {name or "as written": answer for name, answer in answers.items()}
    rows = [_beside(name, answer) for name, answer in named.items()]
    overview = page([grid(("", "$/hour", "$/month", "GPUs", "status", "set-up"), rows, frozenset({0, 4, 5}))])
    return "\n".join([overview, *(f"== {name} ==\n\n{answer_page(answer)}" for name, answer in named.items())])


def _beside(name: str, answer: Recommendation) -> tuple[str, ...]:
    """One answer in a line."""
    if not answer.plans:
        return (_shortened(name, 24), UNPRICED, UNPRICED, "", answer.status, "none")
    plan = answer.plans[0]
    kinds = joined(dict.fromkeys(f"{group.weights}/{group.kv_dtype}" for group in plan.replicas))
    money = (hourly(plan.micro_usd_per_hour), monthly(plan.micro_usd_per_hour))
    what = f"{cards(plan)}, {layout(plan)}, {kinds}"
    return (_shortened(name, 24), *money, f"{plan.gpus:,}", answer.status, _shortened(what, 44))


def _shortened(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def answer_page(answer: Recommendation) -> str:
    """The whole answer to one scenario."""
    blocks = [
        [*paragraph(answer.question), *paragraph(proof(answer))],
        plan_lines(answer.plans),
        paragraph(sentence(answer)),
        speed_lines(answer),
        sizing_lines(answer),
        by_hour_lines(answer),
        replay_lines(answer),
        _first_plan(answer),
        _others(answer),
        _refusals(answer.refusals),
        _bullets("Warnings", answer.warnings),
        _footing(answer),
    ]
    return page(blocks)


def proof(answer: Recommendation) -> str:
    """What was proven, and over how many candidates."""
    certificate = answer.certificate
    searched = f"{plural(certificate.candidates, 'candidate')}, {certificate.feasible_candidates:,} feasible"
    how = f"{searched}; {certificate.solver}; {certificate.cross_check}."
    proven = f"{answer.status.upper()}{_bound(certificate)}: {how}"
    first, last = certificate.plans_proven + 1, len(answer.plans)
    if certificate.plans_proven == 0 or first > last:
        return proven
    which = f"Plans {first} to {last} are" if first < last else f"Plan {first} is"
    return f"{proven} {which} the best of one instance type each: cheaper mixes may lie between."


def _bound(certificate: Certificate) -> str:
    if certificate.bound_micro_usd_per_hour is None:
        return ""
    gap = f", gap {percent(certificate.gap)}" if certificate.gap else ""
    return f" (no set-up costs less than ${hourly(certificate.bound_micro_usd_per_hour)} an hour{gap})"


def plan_lines(plans: Iterable[Plan]) -> list[str]:
    """The ranked plans: figures first, below them what is bought and what is adjusted."""
    plans = tuple(plans)
    if not plans:
        return []
    head, rule, *rows = grid(_HEAD, [row for plan in plans for row in _rows(plan)], _LEFT)
    lines = [head, rule]
    for plan in plans:
        lines += [rows.pop(0) for _ in plan.replicas]
        lines += [line for purchase in plan.offers for line in paragraph(bought_in_full(purchase), "    ", "      ")]
        lines += paragraph(_adjusted(plan), "    ", "      ")
    return [*lines, *paragraph(_LEGEND)]


def _rows(plan: Plan) -> Iterable[tuple[str, ...]]:
    """A row a replica group; only the first carries the figures of the whole plan."""
    whole = (str(plan.rank), hourly(plan.micro_usd_per_hour), monthly(plan.micro_usd_per_hour), f"{plan.gpus:,}")
    for place, group in enumerate(plan.replicas):
        bound = group.output_tokens_per_s_bound
        yield (
            *(whole if place == 0 else ("",) * len(whole)),
            group.gpu,
            f"{spread(group).removeprefix('tp ')} x {group.count}",
            group.weights,
            group.kv_dtype,
            f"{group.max_model_len:,}",
            percent(plan.headroom) if place == 0 else "",
            "?" if bound is None else f"{bound:,.0f}",
        )


def _adjusted(plan: Plan) -> str:
    """The rungs a plan takes. What each is set to stands in the plan's row; only the GPUs need more words."""
    steps = [f"{step.rung} {_WORDS.get(step.name, step.name)}{_more(step, plan)}" for step in plan.adjustments]
    idle = plan.gpus - sum(group.tp * group.pp * group.dp * group.count for group in plan.replicas)
    rest = f"; {plural(idle, 'GPU')} idle" if idle > 0 else ""
    return (f"adjusts {', '.join(steps)}" if steps else "adjusts nothing") + rest


def _more(step: Adjustment, plan: Plan) -> str:
    if step.name == "weights" and any(group.weights_how == "to_make" for group in plan.replicas):
        return " (a checkpoint to make)"
    return f" {step.change.split(' GPUs')[0]}" if step.name == "gpus" else ""


def _steps(plan: Plan) -> list[str]:
    """What each adjustment changes, and what to mind."""
    return [
        f"adjustment {step.rung}, {_WORDS.get(step.name, step.name)}: {_grouped(step.change)}; {step.caution}"
        for step in plan.adjustments
    ]


def _grouped(text: str) -> str:
    """The text with its large numbers in groups of three."""
    return re.sub(r"\b\d{4,}\b", lambda number: f"{int(number[0]):,}", text)


def _first_plan(answer: Recommendation) -> list[str]:
    """Memory, launch lines, cautions and warnings of rank 1."""
    if not answer.plans:
        return []
    plan = answer.plans[0]
    most = answer.sizing.looked_at if answer.sizing else None
    verb = "keep the limits" if answer.speed_limited else "fit"
    lines = [line for group in plan.replicas for line in [*_replica(group, plan, most, verb), ""]]
    return [*lines, *_bullets("Before you rely on it", [*_steps(plan), *plan.warnings])]


def _replica(group: ReplicaGroup, plan: Plan, most: int | None, verb: str) -> list[str]:
    purchase = plan.offers[group.offer_index]
    each = " each" if group.count > 1 else ""
    rate = "" if group.rate_per_s is None else f"{show_figures(group.rate_per_s)} requests a second{each}, at most "
    each = "" if rate else each
    at_once = f"{plural(group.concurrency, 'request')} at once{each}"
    per = f"{rate}{at_once} ({_room(group, most, verb)}); one more waits in the queue"
    title = f"Rank 1, {plural(group.count, 'replica')} of {spread(group)} on {bought(purchase)}: {per}."
    longest = group.longest_max_model_len
    room = f" The longest max-model-len that still fits: {longest:,}." if longest else ""
    return [
        *paragraph(title),
        "",
        *breakdown(group.memory),
        *paragraph(f"{holds(group.memory)}{room}{_need(group)}"),
        "",
        *_start(group, purchase.gpus_per_instance),
    ]


def _room(group: ReplicaGroup, most: int | None, verb: str) -> str:
    """How many would fit, and how many at the low end of what the reserve may leave; `most` is where looking ended."""
    sure = f", {group.capacity:,} at the low end" if group.capacity < group.expected_capacity else ""
    ended = most is not None and group.expected_capacity >= most * group.dp
    one = verb.replace("keep", "keeps").replace("fit", "fits")
    does = one if group.expected_capacity == 1 else verb
    return f"{'at least' if ended else 'up to'} {group.expected_capacity:,} {does}{sure}"


def _need(group: ReplicaGroup) -> str:
    """What the requests need of the pool, and the utilization that would do."""
    if group.need is None:
        return ""
    kv = f"{group.need.kv_cache_bytes / GIB:.2f} GiB of the KV cache"
    least = f"a utilization of {group.need.least_utilization:.2f} would do"
    return f" The requests it is given need {kv}: {least}."


def _start(group: ReplicaGroup, gpus_per_instance: int) -> list[str]:
    """The launch line, broken as a shell allows."""
    needed, several = group.tp * group.pp * group.dp, group.count > 1
    what = "Start each replica" if several else "Start it"
    if needed < gpus_per_instance:
        port = " and its own --port" if several else ""
        what += f" on {'its own ' if several else ''}{plural(needed, 'GPU')} (CUDA_VISIBLE_DEVICES){port}"
    return [f"{what} with:", *broken(group.launch, WIDTH)]


def _others(answer: Recommendation) -> list[str]:
    """Single plans beside the ranking, and what the defaults left out."""
    lines: list[str] = []
    beside = {
        "Cheapest with quality untouched": answer.cheapest_quality_untouched,
        "Cheapest without a checkpoint to make": answer.cheapest_no_checkpoint_needed,
        "Cheapest on fresh prices": answer.cheapest_on_fresh_prices,
    }
    for what, plan in beside.items():
        if plan is not None and plan.offers != (answer.plans[0].offers if answer.plans else ()):
            offers = " + ".join(bought_in_full(purchase) for purchase in plan.offers)
            price = "" if plan.micro_usd_per_hour is None else f"{dollars(plan.micro_usd_per_hour)} an hour, "
            lines += paragraph(f"{what}: {price}{offers}; {_adjusted(plan)}.")
    left = _left_out(answer.left_out)
    return [*lines, *([""] if lines and left else []), *left]


def _left_out(left: Iterable[LeftOut]) -> list[str]:
    """A row for each default that narrows the search: what it would cost with it lifted, and the key that lifts it."""
    rows = [
        (
            each.what,
            f"{each.offers:,}",
            hourly(each.cheapest_micro_usd_per_hour),
            hourly(each.quality_untouched_micro_usd_per_hour),
            re.sub(r"\[.*, (\w+)\]", r"+ \1", each.how_to_include),  # only what is new in a list
        )
        for each in left
    ]
    head = ("left out by default", "offers", "$/hour", "untouched", "include with")
    return grid(head, rows, frozenset({0, 4})) if rows else []


def _refusals(refusals: Iterable[Refusal]) -> list[str]:
    """A line a reason, with all the GPUs it stands for."""
    gpus: dict[tuple[str, str | None], list[str]] = {}
    for refusal in refusals:
        reason = refusal.reason.removeprefix(f"{refusal.gpu}: ")
        gpus.setdefault((reason, refusal.change), []).extend([refusal.gpu] if refusal.gpu else [])
    lines = []
    for (reason, change), names in gpus.items():
        what = f"{', '.join(names)}: {reason}" if names else reason
        lines.append(f"{what}; would do: {change}" if change else what)
    return _bullets("Refused, and why", lines)


def _bullets(title: str, notes: Iterable[str]) -> list[str]:
    notes = list(notes)
    return [f"{title}:", *(line for note in notes for line in paragraph(note, "- "))] if notes else []


def _footing(answer: Recommendation) -> list[str]:
    stamp = answer.catalog
    prices = f"prices of {stamp.oldest_price} to {stamp.newest_price}" if stamp.newest_price else "no prices"
    lines = paragraph(f"Catalog {stamp.version} ({stamp.sha256[:12]}), {prices}.")
    said = [f"{key} {_plain(value)}" for key, value in answer.defaults.items() if value not in (None, [], ())]
    return [*lines, *(paragraph(f"Defaults: {'; '.join(said)}.") if said else [])]


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
