"""What one GPU can do, and how it talks to its neighbours, from its data sheet."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from recommender.catalog.gpus import Gpu
from recommender.errors import NotModelledError
from recommender.speed.families import gpu_family

SWITCHED, PCIE, STAGED = "switched", "pcie", "staged"
_RATE = re.compile(r"(\d+(?:\.\d+)?) GB/s")
_PCIE = re.compile(r"PCIe (\d)\.0(?: x(\d+))?")
# One direction of 16 lanes, in bytes a second, by generation (PCI-SIG: 8, 16 and 32 GT/s, 128b/130b).
_PCIE_BYTES_PER_S = {3: 15.75e9, 4: 31.5e9, 5: 63.0e9}
_LANES = 16
# GeForce cards copy between GPUs through host memory: peer-to-peer over PCIe is switched off in their driver.
_GEFORCE = re.compile(r"RTX\d0\d0$")


@dataclass(frozen=True, slots=True)
class Hardware:
    """One GPU. FLOP/s are dense peaks; `fp8_flops` and `fp4_flops` are None where the card computes wider instead.

    `link_bytes_per_s` is one direction of what its neighbours in the same instance are reached by; `link` is the kind:
    switched (NVLink with a switch, Infinity Fabric), pcie, or staged (PCIe through host memory).
    """

    name: str
    family: str
    bandwidth_bytes_per_s: float
    bf16_flops: float
    fp8_flops: float | None
    int8_ops: float | None
    fp4_flops: float | None
    link: str
    link_bytes_per_s: float
    memory_bytes: int | None

    def peak_flops(self, weights: str) -> float:
        """Peak of the arithmetic that weights of this dtype are multiplied in.

        Weight-only formats (int4; FP8 and FP4 on cards without such arithmetic) are multiplied in 16 bit. MXFP4 weights
        meet 8-bit activations where the card has FP4 arithmetic, else 16-bit ones.
        """
        if weights == "fp8":
            return self.fp8_flops or self.bf16_flops
        if weights == "int8":
            return self.int8_ops or self.bf16_flops
        if weights == "nvfp4":
            return self.fp4_flops or self.bf16_flops
        if weights == "mxfp4":
            return self.fp8_flops if self.fp4_flops and self.fp8_flops else self.bf16_flops
        return self.bf16_flops


@lru_cache(maxsize=256)
def hardware_of(gpu: Gpu) -> Hardware:
    """The hardware of a catalog GPU. Raises NotModelledError where its bandwidth or FLOP/s are not known."""
    missing = [
        name
        for name, value in (("memory bandwidth", gpu.bandwidth_bytes_per_s), ("16-bit FLOP/s", gpu.bf16_flops))
        if value is None
    ]
    if gpu.bandwidth_bytes_per_s is None or gpu.bf16_flops is None:
        raise NotModelledError(f"serving speed on {gpu.name} is not modelled: {' and '.join(missing)} not known")
    kind, rate = _link(gpu)
    eight_bit = gpu.supports_fp8_compute.startswith("yes")
    return Hardware(
        name=gpu.name,
        family=gpu_family(gpu),
        bandwidth_bytes_per_s=float(gpu.bandwidth_bytes_per_s),
        bf16_flops=float(gpu.bf16_flops),
        fp8_flops=float(gpu.fp8_flops) if gpu.fp8_flops and eight_bit else None,
        int8_ops=float(gpu.int8_ops) if gpu.int8_ops else None,
        fp4_flops=float(gpu.fp4_flops) if gpu.fp4_flops else None,
        link=kind,
        link_bytes_per_s=rate,
        memory_bytes=gpu.memory_bytes,
    )


def _link(gpu: Gpu) -> tuple[str, float]:
    """(kind, bytes a second one way). Bridges between pairs are an option few instances have: PCIe is assumed there."""
    text = gpu.link
    bridged = "bridge" in text and "NVLink" in text
    rate = _RATE.search(text)
    fabric = ("NVLink" in text and "no NVLink" not in text and not bridged) or "Infinity Fabric" in text
    if fabric and rate is not None and "Infinity Fabric bridge" not in text:
        return SWITCHED, float(rate[1]) * 1e9 / 2
    found = _PCIE.search(text)
    generation, lanes = (int(found[1]), int(found[2] or _LANES)) if found else (3, _LANES)
    one_way = _PCIE_BYTES_PER_S.get(generation, _PCIE_BYTES_PER_S[3]) * lanes / _LANES
    return (STAGED if _GEFORCE.match(gpu.name) else PCIE), one_way
