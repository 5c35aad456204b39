"""The command `lengths`: what a log, a cell file, a server's metrics or a shipped trace says about request lengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recommender.command.flags import as_typed, flag
from recommender.errors import Fault, InputError
from recommender.report.lengths import lengths_csv, lengths_json, lengths_page
from recommender.units import parse_tokens
from recommender.workload.inflight import DEFAULT_EPSILON, InFlight, inflight_of
from recommender.workload.readers import TIMESTAMP_UNITS
from recommender.workload.source import describe, is_metrics, lengths_of
from recommender.workload.summary import LengthsSummary

ROLES = ("input", "output", "timestamp")
_OPTIONS = ("columns", "timestamp_unit", "concurrency", "epsilon", "max_model_len")


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
    if concurrency is None:
        _nothing_to_hold(None if is_metrics(name) else longest, epsilon)
    if timestamp_unit not in (None, *TIMESTAMP_UNITS):
        expected = ", ".join(TIMESTAMP_UNITS)
        raise InputError(Fault(f"{timestamp_unit!r} is no unit", key="--timestamp-unit", expected=expected))
    try:
        summary = describe(name, columns=named, timestamp_unit=timestamp_unit, longest=longest)
        if concurrency is None:
            return Described(summary, None)
        lengths = lengths_of(name, columns=named, timestamp_unit=timestamp_unit, longest=longest)
        return Described(summary, inflight_of(lengths, concurrency, epsilon, longest))
    except InputError as error:
        raise as_typed(error, _OPTIONS) from None


def _nothing_to_hold(longest: int | None, epsilon: float) -> None:
    """Raise InputError for options that only say what requests in flight hold."""
    given = {"max_model_len": longest is not None, "epsilon": epsilon != DEFAULT_EPSILON}
    faults = [
        Fault("has no effect on its own", key=flag(key), expected="--concurrency beside it")
        for key, said in given.items()
        if said
    ]
    if faults:
        raise InputError(faults)


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
    except ValueError:
        fault = Fault(f"{text!r} is not valid", key="--max-model-len", expected="tokens, such as 8192 or 8K")
        raise InputError(fault) from None


def show_lengths(found: Described, written: str) -> str:
    """The description as text of one format."""
    show = {"json": lengths_json, "csv": lengths_csv}.get(written, lengths_page)
    return show(found.summary, found.need)
