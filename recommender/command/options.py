"""What options and arguments of the command line may be."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """How an answer is written."""

    table = "table"
    json = "json"
    csv = "csv"


class GroupBy(StrEnum):
    """Of what only the best plan is kept."""

    gpu = "gpu"
    provider = "provider"
    region = "region"


class Whole:
    """Reads a whole number within bounds; digits only, so that `5_0` and `1,5` are not taken for fifty and fifteen."""

    __name__ = "whole"

    def __init__(self, low: int, high: int) -> None:
        self._low, self._high = low, high

    def __call__(self, text: str | int) -> int:
        """The number. Raises BadParameter."""
        digits = re.fullmatch(r"[0-9]{1,15}|[1-9][0-9]{0,2}(?:,[0-9]{3}){1,4}", str(text).strip())
        number = int(digits[0].replace(",", "")) if digits else -1
        if not self._low <= number <= self._high:
            raise typer.BadParameter(f"{text!r} is not a whole number from {self._low:,} to {self._high:,}")
        return number


def share(text: str | float) -> float:
    """A share from `0.01` or `1e-2`; its bounds are checked where it is used. Raises BadParameter."""
    if not re.fullmatch(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?", str(text).strip()):
        raise typer.BadParameter(f"{text!r} is not a number such as 0.01")
    return float(text)


SIZE, COUNT, BYTES = Whole(1, 1024), Whole(1, 10**7), Whole(1, 10**15)

Scenario = Annotated[str, typer.Argument(metavar="SCENARIO", help="A scenario file, or the name of a shipped one.")]
Written = Annotated[Format, typer.Option("--format", help="How the answer is written.")]
Output = Annotated[Path | None, typer.Option(metavar="FILE", help="Write to this file instead of standard output.")]
Overlays = Annotated[
    list[str] | None, typer.Option("--catalog", metavar="FILE", help="A catalog overlay; may be given again.")
]
Contains = Annotated[str, typer.Argument(metavar="TEXT", help="Only rows whose names contain all these words.")]
Tp = Annotated[int, typer.Option(parser=SIZE, metavar="N", help="Tensor-parallel size.")]
Pp = Annotated[int, typer.Option(parser=SIZE, metavar="N", help="Pipeline-parallel size.")]
Dp = Annotated[int, typer.Option(parser=SIZE, metavar="N", help="Data-parallel size.")]
Ep = Annotated[int, typer.Option(parser=SIZE, metavar="N", help="Expert-parallel size: 1, or tp x dp.")]
Weights = Annotated[str | None, typer.Option(metavar="DTYPE", help="Absent: the model's own.")]
KvDtype = Annotated[str, typer.Option(metavar="DTYPE", help="auto or fp8.")]

Partial = Annotated[bool, typer.Option("--partial", help="Answer even where words are not understood, and list them.")]
Utilization = Annotated[
    float | None, typer.Option(parser=share, metavar="SHARE", help="Of the GPU's memory, above 0 to 1.")
]
CacheBytes = Annotated[
    int | None, typer.Option(parser=BYTES, metavar="N", help="KV cache per GPU, instead of that share.")
]
MeasuredBytes = Annotated[
    int | None,
    typer.Option(parser=BYTES, metavar="N", help="Measured on one GPU, for a model that is not modelled."),
]
Concurrency = Annotated[int | None, typer.Option(parser=COUNT, metavar="N", help="Another name for --max-num-seqs.")]
Calibration = Annotated[Path | None, typer.Option(metavar="FILE", help="Add what the log corrects to it.")]
Tolerance = Annotated[
    str | None, typer.Option(metavar="SHARE", help="Of the budget, such as 0.03 (the default) or 3%.")
]
InFlight = Annotated[int | None, typer.Option(parser=COUNT, metavar="N", help="Adds what so many hold in flight.")]
Epsilon = Annotated[
    float, typer.Option(parser=share, metavar="SHARE", help="Share of the engine's steps that may need more.")
]
Loads = Annotated[
    str | None, typer.Option(metavar="N", help="Requests in flight, or a list such as 1,8,64. Absent: a curve.")
]
Replicas = Annotated[int, typer.Option(parser=SIZE, metavar="N", help="Equal replicas that share the requests.")]
Benchmarks = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Your own run of this very set-up; may be given again."),
]
HourlyPrice = Annotated[
    str | None, typer.Option(metavar="USD", help="What all its GPUs cost an hour. Absent: the cheapest offer.")
]
OfferName = Annotated[str | None, typer.Option(metavar="PROVIDER/INSTANCE", help="Priced as this offer.")]
ApiInput = Annotated[
    str | None, typer.Option(metavar="USD", help="A hosted API's price of prompt tokens, to compare with.")
]
ApiOutput = Annotated[str | None, typer.Option(metavar="USD", help="The same of output tokens.")]
Engine = Annotated[str, typer.Option("--engine", metavar="NAME", help="vllm, sglang or tensorrt-llm.")]
