"""A verification as a page, as a JSON record and as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from recommender.report import csv_, json_
from recommender.report.grid import grid, page, paragraph
from recommender.report.record import plain
from recommender.units import GB, GIB
from recommender.verify.compare import Row, Verification
from recommender.verify.configuration import DEFAULT

COLUMNS = (
    "line",
    "what",
    "unit",
    "predicted",
    "logged",
    "difference",
    "rounding",
    "share_of_budget",
    "beyond_tolerance",
    "log_line",
    "said_by",
    "note",
)


def verification_page(found: Verification) -> str:
    """The whole answer of `verify`."""
    return page([_head(found), _memory(found), _counts(found), _verdict(found), _causes(found), _settings(found)])


def _head(found: Verification) -> list[str]:
    fit, log = found.prediction.fit, found.log
    gpus = fit.tp * fit.pp * fit.dp
    held = f"{fit.weights} weights, {fit.kv_dtype} KV cache"
    what = f"{found.prediction.named}, {held}, on {gpus} x {fit.gpu}, vLLM {fit.engine_version}"
    lines = paragraph(what)
    if log.startups > 1:
        lines += paragraph(
            f"The log holds {log.startups} start-ups; the last that states memory begins in line {log.first_line}."
        )
    if found.readings.ranks > 1:
        lines += paragraph(
            f"{found.readings.ranks} ranks; {found.readings.binding} leaves least for the KV cache and binds."
        )
    return lines + [line for note in _assumptions(found) for line in paragraph(note)]


def _assumptions(found: Verification) -> Iterator[str]:
    """What was concluded rather than read."""
    device, prediction = found.prediction.device, found.prediction
    if device.others:
        others = ", ".join(device.others)
        yield f"Taken as {device.gpu.name}, {device.how}; {others} would fit as well (--gpu decides)."
    stated = found.configuration.model
    if stated is not None and stated != prediction.named:
        yield f"The log serves {stated!r}: taken as {prediction.fit.model} by its name (--model decides)."


def _memory(found: Verification) -> list[str]:
    head = ("per GPU", "predicted GB", "GiB", "logged GB", "GiB", "diff. GiB", "of budget", "line")
    rows = [_memory_row(row) for row in found.rows if row.unit == "bytes"]
    return grid(head, rows) if rows else []


def _memory_row(row: Row) -> tuple[str, ...]:
    difference = "-" if row.difference is None else f"{round(row.difference / GIB, 2) + 0.0:+.2f}"
    return (row.what, *_two(row.predicted), *_two(row.logged), difference, _percent(row.share), str(row.line or ""))


def _two(count: int | float | None) -> tuple[str, str]:
    return ("-", "-") if count is None else (f"{count / GB:.2f}", f"{count / GIB:.2f}")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{round(100 * share, 2) + 0.0:+.2f} %"  # no minus before zero


def _counts(found: Verification) -> list[str]:
    head = ("per replica", "predicted", "logged", "difference", "of budget", "line")
    rows = [_count_row(row) for row in found.rows if row.unit != "bytes"]
    return grid(head, rows) if rows else []


def _count_row(row: Row) -> tuple[str, ...]:
    if row.unit == "starts":
        said = tuple("-" if value is None else "yes" if value else "no" for value in (row.predicted, row.logged))
        return (row.what, *said, "-" if row.predicted == row.logged else "differs", "-", str(row.line or ""))
    places = 2 if row.unit == "requests" else 0
    predicted, logged = ("-" if value is None else f"{value:,.{places}f}" for value in (row.predicted, row.logged))
    relative = "-" if row.difference is None or not row.logged else _percent(row.difference / row.logged)
    return (row.what, predicted, logged, relative, _percent(row.share), str(row.line or ""))


def _verdict(found: Verification) -> list[str]:
    """Whether it agrees, and the refusals of either side."""
    lines, budget = [], f"{found.budget_bytes / GB:.2f} GB ({found.budget_bytes / GIB:.2f} GiB)"
    if found.log.refusal is not None:
        lines += paragraph(f"The log ends in a refusal (line {found.log.signs[found.log.refusal]}).")
    if not found.prediction.fit.starts:
        refusal = found.prediction.fit.refusal or "no reason is known"
        lines += paragraph(f"Predicted: it does not start. {refusal}")
    if found.contradictions:
        lines += ["The log contradicts itself, so it proves nothing:"]
        lines += [line for said in found.contradictions for line in paragraph(f"{said}.", "- ")]
    if found.agrees:
        return lines + paragraph(f"All lines agree within {100 * found.tolerance:g} % of the budget of {budget}.")
    if not found.beyond:
        return lines
    names = ", ".join(row.what for row in found.beyond)
    return lines + paragraph(f"Beyond {100 * found.tolerance:g} % of the budget of {budget}: {names}.")


def _causes(found: Verification) -> list[str]:
    if not found.causes:
        return []
    lines = ["Likeliest causes, the one that explains most first:"]
    for number, cause in enumerate(found.causes, 1):
        lines += paragraph(f"{cause.what}: {cause.reasoning}.", f"{number}. ")
    return lines


def _settings(found: Verification) -> list[str]:
    """The configuration used, and where each value was read."""
    lines = ["Configuration:"]
    for name, value, origin in settings(found):
        shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
        lines += paragraph(f"{name} {shown} ({origin})", "- ")
    return lines


def settings(found: Verification) -> list[tuple[str, Any, str]]:
    """(name, value, where it was read) of everything the prediction used."""
    fit, origins = found.prediction.fit, found.configuration.origins
    rows: list[tuple[str, Any, str]] = [
        ("model", fit.model, origins.get("model", "as asked for") if found.configuration.model else "as asked for"),
        ("gpu", fit.gpu, found.prediction.device.how),
        ("engine_version", fit.engine_version, "log" if fit.engine_version == found.log.version else "as asked for"),
    ]
    for name, value in (
        ("tp", fit.tp),
        ("pp", fit.pp),
        ("dp", found.configuration.dp),
        ("ep", fit.ep),
        ("max_model_len", fit.max_model_len),
        ("max_num_seqs", fit.max_num_seqs),
        ("max_num_batched_tokens", fit.max_num_batched_tokens),
        ("gpu_memory_utilization", fit.gpu_memory_utilization),
        ("kv_cache_memory_bytes", found.configuration.kv_cache_memory_bytes),
        ("kv_dtype", fit.kv_dtype),
        ("quantization", found.configuration.quantization),
        ("enforce_eager", found.configuration.enforce_eager),
    ):
        key = "enable_expert_parallel" if name == "ep" else name
        if value is not None:
            rows.append((name, value, origins.get(key, DEFAULT)))
    return rows


def verification_record(found: Verification) -> dict[str, Any]:
    """The object that `verify --format json` prints."""
    log, device = found.log, found.prediction.device
    return {
        "schema_version": json_.SCHEMA_VERSION,
        "within_tolerance": found.agrees,
        "contradictions": list(found.contradictions),
        "tolerance": found.tolerance,
        "budget_bytes": found.budget_bytes,
        "log": {
            "version": log.version,
            "generation": log.generation,
            "startups": log.startups,
            "first_line": log.first_line,
            "refusal": log.refusal,
            "ranks": found.readings.ranks,
            "binding_rank": found.readings.binding,
        },
        "configuration": {name: {"value": value, "from": origin} for name, value, origin in settings(found)},
        "gpu": {"name": device.gpu.name, "how": device.how, "others": list(device.others)},
        "lines": [_record(found, row) for row in found.rows],
        "causes": [plain(cause) for cause in found.causes],
        "predicted": json_.fit_record(found.prediction.fit),
    }


def _record(found: Verification, row: Row) -> dict[str, Any]:
    values = (
        row.name,
        row.what,
        row.unit,
        row.predicted,
        row.logged,
        row.difference,
        row.rounding,
        None if row.share is None else round(row.share, 6),
        row in found.beyond,
        row.line,
        row.said_by,
        row.note,
    )
    return dict(zip(COLUMNS, values, strict=True))


def verification_csv(found: Verification) -> str:
    """One row a line."""
    rows: Iterable[dict[str, Any]] = (_record(found, row) for row in found.rows)
    return csv_.encode(rows, COLUMNS)
