"""The command `fit`: one replica."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recommender.answer import fit
from recommender.catalog.catalog import load_catalog
from recommender.command.flags import as_typed, flag
from recommender.errors import Fault, InputError
from recommender.memory.fit import Fit
from recommender.memory.pool_engine import pool_engines
from recommender.report import csv_, json_
from recommender.report.memory import fit_page
from recommender.scenario_file.values import Tokens
from recommender.units import parse_tokens

_TOKENS = ("max_model_len", "max_num_batched_tokens")
_CHOICES = {
    "kv_dtype": ("auto", "fp8"),
    "memory_model": ("vllm", "article"),
    "engine": ("vllm", *pool_engines()),
}


def fit_replica_of(asked: Mapping[str, Any], overlays: tuple[str, ...]) -> Fit:
    """Whether the replica that the options describe starts, and what it holds."""
    faults: list[Fault] = []
    options: dict[str, Any] = {
        key: _tokens(key, value, faults) if key in _TOKENS else value for key, value in asked.items()
    }
    for key, choices in _CHOICES.items():
        if options[key] not in choices:
            faults.append(Fault(f"{options[key]!r} is not valid", key=flag(key), expected=" | ".join(choices)))
    share = options["gpu_memory_utilization"]
    if share is not None and not 0 < share <= 1:
        faults.append(
            Fault(f"{share} is not valid", key=flag("gpu_memory_utilization"), expected="a share above 0, up to 1")
        )
    if faults:
        raise InputError(faults)
    catalog = load_catalog(overlays)
    try:
        return fit(**options, catalog=catalog)
    except InputError as error:
        raise as_typed(error, options) from None


def _tokens(key: str, text: str | None, faults: list[Fault]) -> int | None:
    if text is None:
        return None
    bounds = Tokens()
    try:
        tokens = parse_tokens(text)
    except ValueError:
        tokens = 0
    if not bounds.low <= tokens <= bounds.high:
        expected = f"tokens from {bounds.low:,} to {bounds.high:,}, such as 8192 or 8K"
        faults.append(Fault(f"{text!r} is not valid", key=flag(key), expected=expected))
    return tokens


def show_fit(found: Fit, written: str) -> str:
    """The replica as text of one format."""
    if written == "json":
        return json_.encode(json_.fit_record(found))
    return csv_.flat_csv([found]) if written == "csv" else fit_page(found)
