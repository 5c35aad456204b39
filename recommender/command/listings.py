"""The commands that show what is known: models, GPUs, offers, the scenario's schema, a scenario to start from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from recommender.catalog.catalog import Catalog, load_catalog, shipped
from recommender.catalog.entries import Entry
from recommender.catalog.offers import MARKETS, Offer
from recommender.errors import Fault, InputError
from recommender.report import csv_, json_
from recommender.report.grid import grid, page, paragraph
from recommender.report.record import plain
from recommender.report.words import hourly
from recommender.units import GB, GIB, micro_usd, plural, usd


def listing(kind: str, text: str, overlays: tuple[str, ...], written: str) -> str:
    """The rows of `models`, `gpus` or `offers` that contain the text, in one format."""
    catalog = load_catalog(overlays)
    records = [record for record in _RECORDS[kind](catalog) if _contains(record, _SEARCHED[kind], text)]
    if written == "json":
        return json_.encode({"schema_version": json_.SCHEMA_VERSION, kind: records})
    if written == "csv":
        return csv_.flat_csv(records)
    return _table(kind, records, text)


def _contains(record: dict[str, Any], keys: Sequence[str], text: str) -> bool:
    """Whether every word of the text is part of the record's names."""
    names = " ".join(str(record[key]) for key in keys).casefold()
    return all(word in names for word in text.casefold().split())


def _models(catalog: Catalog) -> Iterable[dict[str, Any]]:
    for entry in sorted(catalog.models, key=lambda each: each.id.casefold()):
        yield _model(catalog, entry)


def _model(catalog: Catalog, entry: Entry) -> dict[str, Any]:
    """An entry with its figures; where its architecture is not modelled, with the reason instead."""
    known: dict[str, Any] = {"id": entry.id, "aliases": list(entry.aliases), "quantisation_of": entry.base}
    try:
        model = catalog.model(entry.id)
    except InputError as error:
        return known | dict.fromkeys(_MODEL_FIGURES) | {"not_modelled": str(error.faults[0].what)}
    figures = (model.parameters, model.native, model.max_model_len, model.layers, model.kv_heads, model.experts)
    return known | dict(zip(_MODEL_FIGURES, figures, strict=True)) | {"not_modelled": None}


_MODEL_FIGURES = ("parameters", "native", "max_model_len", "layers", "kv_heads", "experts")


def _gpus(catalog: Catalog) -> Iterable[dict[str, Any]]:
    return (plain(gpu) for gpu in sorted(catalog.gpus, key=lambda each: each.name.casefold()))


def _offers(catalog: Catalog) -> Iterable[dict[str, Any]]:
    return (_offer(offer) for offer in sorted(catalog.offers, key=lambda each: each.key))


def _offer(offer: Offer) -> dict[str, Any]:
    record: dict[str, Any] = plain(offer)
    prices = record.pop("prices")
    dollars = {f"usd_per_hour_{market}": usd(prices[market]) if market in prices else None for market in MARKETS}
    return record | dollars


_SEARCHED = {
    "models": ("id", "aliases", "quantisation_of"),
    "gpus": ("name", "vendor", "architecture"),
    "offers": ("provider", "segment", "instance_type", "region", "gpu"),
}
_RECORDS = {"models": _models, "gpus": _gpus, "offers": _offers}


def _table(kind: str, records: Sequence[dict[str, Any]], text: str) -> str:
    head, left, row = _COLUMNS[kind]
    found = plural(len(records), _NOUN[kind]) + (f" with {text!r}" if text else "")
    return page([grid(head, [row(record) for record in records], left), paragraph(f"{found}. {_HINT[kind]}")])


def _model_row(record: dict[str, Any]) -> tuple[str, ...]:
    name = _short(record["id"], 42)
    if record["not_modelled"]:
        return (name, "", "", "", _short(f"not modelled yet: {record['not_modelled']}", 24))
    count = f"{record['parameters'] / GB:,.2f} B"
    return (name, count, record["native"], f"{record['max_model_len']:,}", _short(", ".join(record["aliases"]), 24))


def _gpu_row(record: dict[str, Any]) -> tuple[str, ...]:
    seen = "?" if record["memory_bytes"] is None else f"{record['memory_bytes'] / GIB:,.2f}"
    speed = record["bandwidth_bytes_per_s"]
    capability = record["compute_capability"]
    return (
        record["name"],
        record["architecture"],
        ".".join(map(str, capability)) if capability else record["target"] or "",
        f"{record['memory_bytes_marketing'] / GB:,.0f}",
        seen,
        "?" if speed is None else f"{speed / GB:,.0f}",
        "?" if record["tdp_watts"] is None else f"{record['tdp_watts']:,}",
        record["engine"],
    )


def _offer_row(record: dict[str, Any]) -> tuple[str, ...]:
    return (
        _short(record["provider"], 16),
        _short(record["instance_type"], 20),
        _short(record["region"], 15),
        _short(f"{record['gpus']} x {record['gpu']}", 17),
        _price(record),
        str(record["as_of"]),
    )


def _price(record: dict[str, Any]) -> str:
    """The first known price of an instance, with the market where it is not on demand."""
    for market, word in (("on_demand", ""), ("spot", "spot "), ("reserved_1y", "1y "), ("reserved_3y", "3y ")):
        amount = record[f"usd_per_hour_{market}"]
        if amount is not None:
            return word + hourly(micro_usd(amount))
    return "?"


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


_COLUMNS: dict[str, tuple[tuple[str, ...], frozenset[int], Any]] = {
    "models": (("model", "parameters", "native", "max len", "aliases"), frozenset({0, 2, 4}), _model_row),
    "gpus": (
        ("GPU", "architecture", "capability", "GB", "GiB seen", "GB/s", "W", "engine"),
        frozenset({0, 1, 2, 7}),
        _gpu_row,
    ),
    "offers": (
        ("provider", "instance type", "region", "GPUs", "$/hour", "as of"),
        frozenset({0, 1, 2, 3}),
        _offer_row,
    ),
}
_NOUN = {"models": "model", "gpus": "GPU", "offers": "offer"}
_HINT = {
    "models": "Names are looked up without regard to case. --format json shows all figures.",
    "gpus": "GB is what the box says, GiB what the driver reports. --format json shows sources.",
    "offers": "Prices are US dollars for the whole instance. --format csv shows all prices and sources.",
}


def validated(overlays: tuple[str, ...], written: str) -> str:
    """What was checked, as text of one format. Raises InputError with every fault."""
    from recommender.catalog.validate import validate

    checked = str(validate(overlays))
    if written == "json":
        return json_.encode({"faults": 0, "checked": checked})
    return f'faults,checked\n0,"{checked}"\n' if written == "csv" else f"{checked}\n"


def scenario_schema() -> str:
    """The JSON schema of a scenario file."""
    from recommender.scenario_file.forms import ScenarioForm

    return json_.encode(ScenarioForm.model_json_schema())


def first_scenario(path: Path) -> str:
    """The text of a small scenario. Raises InputError where the file exists."""
    if path.exists():
        raise InputError(Fault("exists already and is left as it is", str(path)))
    return (shipped("scenarios") / "llama70b-50x8k.yaml").read_text(encoding="utf-8")
