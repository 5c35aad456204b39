"""The command `lengths`: what a log, a cell file, a server's metrics or a shipped trace says about request lengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recommender.errors import Fault, InputError
from recommender.report.lengths import lengths_csv, lengths_json, lengths_page
from recommender.units import parse_tokens
from recommender.workload.inflight import InFlight, inflight_of
from recommender.workload.source import describe, lengths_of
from recommender.workload.summary import LengthsSummary

ROLES = ("input", "output", "timestamp")


@dataclass(frozen=True, slots=True)
class Described:
    """The summary of a source, and what its requests in flight hold where that was asked."""

    summary: LengthsSummary
    need: InFlight | None


def described(
    name: str,
    *,
    columns: str | None,
    timestamp_unit: str | None,
    concurrency: int | None,
    epsilon: float,
    max_model_len: str | None,
) -> Described:
    """What the source of that name says. Raises InputError."""
    longest, named = read_tokens(max_model_len), read_columns(columns)
    summary = describe(name, columns=named, timestamp_unit=timestamp_unit)
    if concurrency is None:
        return Described(summary, None)
    lengths = lengths_of(name, columns=named, timestamp_unit=timestamp_unit)
    return Described(summary, inflight_of(lengths, concurrency, epsilon, longest))


def read_columns(text: str | None) -> Mapping[str, str]:
    """Columns by role from `input=a,output=b,timestamp=c`. Raises InputError."""
    pairs = [part.partition("=") for part in (text or "").split(",") if part.strip()]
    named = {role.strip(): column.strip() for role, _, column in pairs}
    if not all(column and role in ROLES for role, column in named.items()):
        raise InputError(Fault(f"{text!r} is not valid", key="--columns", expected="input=NAME,output=NAME"))
    return named


def read_tokens(text: str | None) -> int | None:
    """Tokens from `8192` or `8K`. Raises InputError."""
    try:
        return None if text is None else parse_tokens(text)
    except ValueError as error:
        raise InputError(Fault(str(error), key="--max-model-len", expected="tokens, such as 8192 or 8K")) from None


def show_lengths(found: Described, written: str) -> str:
    """The description as text of one format."""
    show = {"json": lengths_json, "csv": lengths_csv}.get(written, lengths_page)
    return show(found.summary, found.need)
