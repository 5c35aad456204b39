"""Which column of a log means what: the names that servers, gateways, benchmarks and public traces use.

Sources: the public traces' and tools' own files (Azure, BurstGPT, Mooncake, Qwen-Bailian, vidur, splitwise-sim,
LiteLLM's schema.prisma, OpenAI-style responses, `vllm bench serve`, guidellm, aiperf, WEKA, baseten). Names are
compared without case, spaces, underscores and hyphens; the first that is present counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recommender.errors import Fault, InputError, nearest

NAMES: dict[str, tuple[str, ...]] = {
    "input": (
        "contexttokens",
        "requesttokens",
        "inputlength",
        "numprefilltokens",
        "promptsize",
        "usage.prompttokens",
        "prompttokens",
        "usage.inputtokens",
        "inputtokens",
        "promptlen",
        "inputlens",
        "inputlen",
        "prompttokenscount",
        "prompttokenscolumn",
        "inputsequencelength.value",
        "inputsequencelength",
        "inputmetrics.texttokens",
        "inputtokencount",
        "isl",
        "in",
    ),
    "output": (
        "generatedtokens",
        "responsetokens",
        "outputlength",
        "numdecodetokens",
        "tokensize",
        "usage.completiontokens",
        "completiontokens",
        "usage.outputtokens",
        "outputtokens",
        "outputlen",
        "outputlens",
        "outputtokenscount",
        "outputsequencelength.value",
        "outputtokencount.value",
        "outputsequencelength",
        "outputmetrics.texttokens",
        "outputtokencount",
        "osl",
        "out",
    ),
    "timestamp": (
        "timestamp",
        "arrivedat",
        "arrivaltimestamp",
        "arrivaltime",
        "timestampstartunixms",
        "starttime",
        "starttimes",
        "requeststartns",
        "requeststart",
        "created",
        "createdat",
        "time",
        "ts",
        "t",
    ),
    "end": ("endtime", "requestendns"),
    "first_token": ("completionstarttime", "firsttokentime"),
    "elapsed": ("elapsedtime",),
    "kind": ("calltype", "object"),
    "status": ("status",),
    "cached": ("cachehit",),
    "cancelled": ("wascancelled",),
    "total": ("totaltokens", "numtotaltokens", "usage.totaltokens"),
    "requests": ("nrequests", "apirequests", "numrequests", "requestcount", "completed"),
}
TIMES = ("timestamp", "end", "first_token")
"""Roles that hold moments."""
WORDS = ("kind", "status", "cached", "cancelled")
"""Roles whose words say whether a row counts."""
TOTALS = {
    "input": ("ncontexttokenstotal", "totalinputtokens", *NAMES["input"]),
    "output": ("ngeneratedtokenstotal", "totaloutputtokens", *NAMES["output"]),
}
"""Sums over many requests, in exports that also hold a number of requests."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The column (or dotted path) of each role; `unit` is that of the timestamps, None where nobody can tell."""

    of: Mapping[str, str]
    present: tuple[str, ...]

    @property
    def summed(self) -> bool:
        """Whether rows are sums over many requests, whose lengths nobody can know."""
        return "requests" in self.of


def folded(name: str) -> str:
    """The name without case, spaces, underscores and hyphens; dots between the steps of a path stay."""
    return "".join(letter for letter in str(name).casefold() if letter not in " _-\t\"'\ufeff")


def choose(names: Sequence[str], wanted: Mapping[str, str] | None = None, *, file: str | None = None) -> Columns:
    """The column of each role among `names`. Raises InputError listing them where prompt or output has none."""
    of = _stated(names, wanted or {}, file)
    by_folded: dict[str, str] = {}
    for name in names:
        by_folded.setdefault(folded(name), name)
    for role, aliases in NAMES.items():
        found = of.get(role) or _first(by_folded, aliases)
        if found is not None:
            of[role] = found
    if "requests" in of:
        _keep_if_summed(of, by_folded)
    missing = [role for role in ("input", "output") if role not in of]
    if missing:
        raise InputError(_missing(missing, names, file))
    twice = [
        Fault(f"column {name!r} stands {names.count(name)} times: nobody can say which counts", file, key=role)
        for role, name in of.items()
        if names.count(name) > 1
    ]
    if twice:
        raise InputError(twice)
    return Columns(of, tuple(names))


def _stated(names: Sequence[str], wanted: Mapping[str, str], file: str | None) -> dict[str, str]:
    faults = []
    for role, name in wanted.items():
        if role not in NAMES:
            near = nearest(role, NAMES)
            suggestion = near[0] if near else None
            faults.append(Fault("unknown role", file, key=f"columns.{role}", suggestion=suggestion))
        elif name not in names:
            near = nearest(str(name), [str(each) for each in names])
            suggestion = near[0] if near else None
            faults.append(Fault(f"no column {name!r}", file, key=f"columns.{role}", suggestion=suggestion))
    if faults:
        raise InputError(faults)
    return dict(wanted)


def _first(by_folded: Mapping[str, str], aliases: Iterable[str]) -> str | None:
    """The name that matches the first alias as a whole, or else as the end of its path, the shortest path first."""
    for alias in aliases:
        if alias in by_folded:
            return by_folded[alias]
        ends = sorted(
            (path for path in by_folded if path.endswith(f".{alias}")), key=lambda path: (path.count("."), path)
        )
        if ends:
            return by_folded[ends[0]]
    return None


def _keep_if_summed(of: dict[str, str], by_folded: Mapping[str, str]) -> None:
    """Rows with a number of requests are sums; their token columns may have names of their own.

    A benchmark's result holds both sums and, where it was asked to, the lists that they sum.
    """
    if "inputlens" in by_folded or (folded(of["requests"]) == "completed" and "totalinputtokens" not in by_folded):
        del of["requests"]
        return
    for role, aliases in TOTALS.items():
        found = _first(by_folded, aliases)
        if found is not None:
            of[role] = found


def _missing(roles: Sequence[str], names: Sequence[str], file: str | None) -> Fault:
    what = f"no column with {' and '.join(f'{role} tokens' for role in roles)}; columns: {_listed(names)}"
    if any(folded(name).split(".")[0] in ("conversations", "messages", "prompt") for name in names):
        what += "; this looks like text: count its tokens first"
    return Fault(what, file, expected="names such as prompt_tokens and completion_tokens, or columns: {input, output}")


def _listed(names: Sequence[str]) -> str:
    shown = [str(name)[:40] for name in names[:20]]
    return ", ".join(shown) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def paths(record: Mapping[str, Any], depth: int = 4) -> list[str]:
    """The dotted paths of a nested record's values, as if it were a flat row."""
    found: list[str] = []
    for key, value in record.items():
        if isinstance(value, Mapping) and depth > 1:
            found.extend(f"{key}.{path}" for path in paths(value, depth - 1))
        else:
            found.append(str(key))
    return found


def value_at(record: Any, path: str) -> Any:
    """The value at a dotted path of a nested record; None where there is none."""
    if isinstance(record, Mapping) and path in record:
        return record[path]
    for step in path.split("."):
        if not isinstance(record, Mapping):
            return None
        record = record.get(step)
    return record
