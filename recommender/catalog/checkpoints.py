"""Published (and computed) weights of models, from the table of checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recommender.catalog.models import Checkpoint, Quantisation
from recommender.catalog.table import Row, rows
from recommender.errors import Fault

COLUMNS = (
    "model",
    "id",
    "weights",
    "method",
    "group_size",
    "ignored",
    "static_inputs",
    "zero_points",
    "kv_dtype",
    "bytes_total",
    "size_kind",
    "source",
    "notes",
)
REQUIRED = ("model", "id", "weights", "method", "bytes_total", "size_kind", "source")
BITS = {"bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "int4": 4, "nvfp4": 4, "mxfp4": 4}
METHODS = (
    "none",
    "fp8",
    "fp8_block",
    "fbgemm_fp8",
    "compressed-tensors",
    "awq",
    "gptq",
    "modelopt",
    "mxfp4",
    "quark",
)
KV_DTYPES = ("fp8",)
YES_NO = ("yes", "no")
# Most trusted first. `unknown` is a repository whose size nobody stated.
SIZE_KINDS = ("index", "repository", "log", "stated", "computed", "unknown")


def read_checkpoints(path: Path, faults: list[Fault]) -> Iterator[tuple[int, Checkpoint]]:
    """(line, checkpoint) of a table; what is wrong with it is added to `faults`."""
    for row in rows(path, COLUMNS, REQUIRED, faults):
        yield row.line, _checkpoint(row)


def _checkpoint(row: Row) -> Checkpoint:
    """One checkpoint from its row. Without an id it would have to be made."""
    size_kind = row.word("size_kind", SIZE_KINDS)
    bytes_total = row.scaled("bytes_total")
    if (bytes_total is None) != (size_kind == "unknown"):
        row.fault(
            "size_kind", f"{size_kind!r} does not agree with bytes_total", "unknown, and only then, without a size"
        )
    return Checkpoint(
        id=row.text("id") or None,
        model=row.required("model"),
        weights=row.word("weights", tuple(BITS)),
        quantisation=_quantisation(row),
        bytes_total=bytes_total,
        size_kind=size_kind,
        source=row.required("source"),
        notes=row.text("notes"),
        kv_declared=row.word("kv_dtype", KV_DTYPES) if row.text("kv_dtype") else None,
    )


def _quantisation(row: Row) -> Quantisation | None:
    """How the linear weights are stored; None for plain 16-bit weights."""
    method = row.word("method", METHODS)
    weights = row.text("weights")
    if (method == "none") != (BITS.get(weights) == 16):
        row.fault("method", f"{method!r} does not agree with {weights!r} weights", "none for 16-bit weights only")
    if method == "none":
        return None
    return Quantisation(
        dtype=weights,
        method=method,
        bits=BITS.get(weights, 0),
        group_size=row.scaled("group_size"),
        ignored=tuple(row.text("ignored").split()),
        static_inputs=row.word("static_inputs", YES_NO, "no") == "yes",
        zero_points=row.word("zero_points", YES_NO, "no") == "yes",
    )
