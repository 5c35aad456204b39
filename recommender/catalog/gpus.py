"""What a GPU is, apart from how it is sold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recommender.catalog.table import Row, rows
from recommender.errors import Fault
from recommender.units import GB

COLUMNS = (
    "name",
    "vendor",
    "architecture",
    "compute_capability",
    "target",
    "engine",
    "memory_gb_marketing",
    "memory_mib_driver",
    "memory_bytes_reported",
    "memory_confidence",
    "memory_source",
    "bandwidth_gb_per_s",
    "bf16_tflops",
    "fp8_tflops",
    "int8_tops",
    "fp4_tflops",
    "supports_bf16",
    "supports_fp8_compute",
    "supports_fp8_kv",
    "link",
    "max_gpus_per_node",
    "tdp_watts",
    "multiprocessors",
    "multiprocessors_source",
    "spec_confidence",
    "spec_source",
    "launch_year",
    "price_usd_low",
    "price_usd_typical",
    "price_usd_high",
    "price_source",
    "notes",
)
REQUIRED = ("name", "vendor", "architecture", "engine", "memory_gb_marketing", "memory_confidence", "spec_source")
ENGINES = ("vllm", "none")
TERA = 10**12
# Clouds state GPU memory loosely (22 or 24 GB for an L4); a figure further off belongs to another part or to the host.
MEMORY_TOLERANCE = 0.07
# Makers count 1 GB as up to 2^30 bytes.
GIB_PER_GB = 2**30 / GB


@dataclass(frozen=True, slots=True)
class Gpu:
    """One accelerator as the catalog states it; None is unknown, never zero.

    `memory_bytes` is what the engine sees (torch's total), `memory_bytes_marketing` the GB on the box x 1e9 and
    `memory_mib_driver` the total that nvidia-smi or rocm-smi prints, a little above what the engine sees.
    FLOP/s are dense. `compute_capability` is (major, minor) on NVIDIA, None elsewhere, where `target` names the
    architecture (gfx942).
    """

    name: str
    vendor: str
    architecture: str
    compute_capability: tuple[int, int] | None
    target: str | None
    memory_bytes_marketing: int
    memory_bytes: int | None
    memory_confidence: str
    memory_source: str
    bandwidth_bytes_per_s: int | None
    bf16_flops: int | None
    fp8_flops: int | None
    int8_ops: int | None
    fp4_flops: int | None
    supports_bf16: str  # yes | no | unknown, as in the facts
    supports_fp8_compute: str
    supports_fp8_kv: str
    link: str
    max_gpus_per_node: int | None
    tdp_watts: int | None
    multiprocessors: int | None
    spec_confidence: str
    spec_source: str
    engine: str  # vllm | none: whether vLLM runs on it at all
    notes: str
    memory_mib_driver: int | None = None
    multiprocessors_source: str = ""
    launch_year: int | None = None
    price_usd_low: int | None = None  # of one card, where published
    price_usd_typical: int | None = None
    price_usd_high: int | None = None
    price_source: str = ""

    @property
    def memory_verified(self) -> bool:
        """Whether the memory was read off a real card of this type."""
        return not self.memory_confidence.startswith("unverified")

    @property
    def searched(self) -> bool:
        """Whether the search may use it: the engine runs on it and its memory is known."""
        return self.engine == "vllm" and self.memory_bytes is not None


def read_gpus(path: Path, faults: list[Fault]) -> Iterator[tuple[int, Gpu]]:
    """(line, GPU) of a table; what is wrong with it is added to `faults`."""
    for row in rows(path, COLUMNS, REQUIRED, faults):
        gpu = _gpu(row)
        _check_memory(row, gpu)
        yield row.line, gpu


def _check_memory(row: Row, gpu: Gpu) -> None:
    """Note memory, as reported or as the driver has it, that cannot be that of a card of this marketing size."""
    least, most = gpu.memory_bytes_marketing * (1 - MEMORY_TOLERANCE), gpu.memory_bytes_marketing * GIB_PER_GB
    for key, size in (
        ("memory_bytes_reported", gpu.memory_bytes),
        ("memory_mib_driver", (gpu.memory_mib_driver or 0) << 20),
    ):
        if size and not least <= size <= most:
            row.fault(
                key,
                f"{size:,} bytes is not a card of {row.text('memory_gb_marketing')} GB",
                "93 % of it to as many GiB",
            )


def _gpu(row: Row) -> Gpu:
    """One GPU from its row."""
    return Gpu(
        name=row.required("name"),
        vendor=row.required("vendor"),
        architecture=row.required("architecture"),
        compute_capability=_capability(row),
        target=row.text("target") or None,
        memory_bytes_marketing=row.whole("memory_gb_marketing") * GB,
        memory_bytes=row.scaled("memory_bytes_reported"),
        memory_confidence=row.required("memory_confidence"),
        memory_source=row.text("memory_source"),
        bandwidth_bytes_per_s=row.scaled("bandwidth_gb_per_s", GB),
        bf16_flops=row.scaled("bf16_tflops", TERA),
        fp8_flops=row.scaled("fp8_tflops", TERA),
        int8_ops=row.scaled("int8_tops", TERA),
        fp4_flops=row.scaled("fp4_tflops", TERA),
        supports_bf16=row.text("supports_bf16") or "unknown",
        supports_fp8_compute=row.text("supports_fp8_compute") or "unknown",
        supports_fp8_kv=row.text("supports_fp8_kv") or "unknown",
        link=row.text("link"),
        max_gpus_per_node=row.scaled("max_gpus_per_node"),
        tdp_watts=row.scaled("tdp_watts"),
        multiprocessors=row.scaled("multiprocessors"),
        spec_confidence=row.text("spec_confidence"),
        spec_source=row.required("spec_source"),
        engine=row.word("engine", ENGINES),
        notes=row.text("notes"),
        memory_mib_driver=row.scaled("memory_mib_driver"),
        multiprocessors_source=row.text("multiprocessors_source"),
        launch_year=row.scaled("launch_year"),
        price_usd_low=row.scaled("price_usd_low"),
        price_usd_typical=row.scaled("price_usd_typical"),
        price_usd_high=row.scaled("price_usd_high"),
        price_source=row.text("price_source"),
    )


def _capability(row: Row) -> tuple[int, int] | None:
    """The CUDA compute capability, None where there is none or it is not known."""
    cell = row.text("compute_capability")
    if not cell:
        return None
    major, dot, minor = cell.partition(".")
    if dot and major.isdecimal() and minor.isdecimal():
        return (int(major), int(minor))
    row.fault("compute_capability", f"{cell!r} cannot be read", "major.minor such as 9.0")
    return None
