"""Corrections of the reserve that start-up logs of one's own machines give, kept in a small JSON file.

A row is keyed by engine version (its first two numbers), GPU architecture, tp and pp. Memory outside PyTorch is
corrected by bytes, since it does not grow with the model; activations and CUDA graphs by a factor, since they do.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recommender.catalog.gpus import Gpu
from recommender.errors import Fault, InputError
from recommender.memory.engine_rows import parse_version
from recommender.memory.reserve import ReserveTerms

if TYPE_CHECKING:
    from recommender.memory.engine import EngineConstants

SCHEMA_VERSION = 1
MILLION = 10**6
LEAST_PPM, MOST_PPM = MILLION // 4, 4 * MILLION
"""A factor outside these is no calibration: the log and the prediction speak of different things."""
MOST_BYTES = 64 * 2**30
LONGEST_FILE = 10**6


@dataclass(frozen=True, slots=True)
class Correction:
    """What one start-up log says about the reserve of its like; `measured_on` is the configuration it comes from.

    `non_torch_bytes` is added to what is predicted, the two factors are parts per million of what is predicted.
    """

    engine: str
    engine_version: str
    gpu_class: str
    tp: int
    pp: int
    non_torch_bytes: int
    activation_ppm: int
    cuda_graph_ppm: int
    measured_on: str

    @property
    def key(self) -> tuple[str, tuple[int, int], str, int, int]:
        """What it holds for."""
        major, minor, _ = parse_version(self.engine_version)
        return self.engine, (major, minor), self.gpu_class.casefold(), self.tp, self.pp


@dataclass(frozen=True, slots=True)
class Calibration:
    """The corrections of one file, one for each key."""

    corrections: tuple[Correction, ...] = ()

    def correction_for(self, constants: EngineConstants, gpu: Gpu, tp: int, pp: int = 1) -> Correction | None:
        """The correction measured on this engine version, card class and parallelism; None where there is none."""
        key = (constants.engine, constants.number[:2], gpu.architecture.casefold(), tp, pp)
        return next((each for each in self.corrections if each.key == key), None)

    def with_correction(self, correction: Correction) -> Calibration:
        """The calibration with one correction more, in place of an earlier one of its key."""
        others = [each for each in self.corrections if each.key != correction.key]
        return Calibration(tuple(sorted((*others, correction), key=lambda each: each.key)))


def calibrated(terms: ReserveTerms, correction: Correction | None) -> ReserveTerms:
    """The reserve of one GPU as measured on its like: exact for the replica it was measured on, scaled for others."""
    if correction is None:
        return terms

    def active(count_bytes: int) -> int:
        return _times(count_bytes, correction.activation_ppm)

    return replace(
        terms,
        forward_bytes_per_token=active(terms.forward_bytes_per_token),
        forward_extra_bytes=active(terms.forward_extra_bytes),
        sampler_bytes_per_seq=active(terms.sampler_bytes_per_seq),
        sampler_bytes_per_token=active(terms.sampler_bytes_per_token),
        scratch_bytes=active(terms.scratch_bytes),
        peak_extra_bytes=active(terms.peak_extra_bytes),
        persistent_bytes_per_seq=active(terms.persistent_bytes_per_seq),
        image_kept_bytes=active(terms.image_kept_bytes),
        image_encoder_bytes=active(terms.image_encoder_bytes),
        non_torch_bytes=max(0, terms.non_torch_bytes + correction.non_torch_bytes),
        graph_fixed_bytes=_times(terms.graph_fixed_bytes, correction.cuda_graph_ppm),
        graph_bytes=_times(terms.graph_bytes, correction.cuda_graph_ppm),
    )


def _times(count_bytes: int, ppm: int) -> int:
    return (count_bytes * ppm + MILLION // 2) // MILLION


def calibration_text(calibration: Calibration) -> str:
    """The file of a calibration: the same bytes for the same corrections."""
    rows = [{name: getattr(each, name) for name in Correction.__slots__} for each in calibration.corrections]
    return json.dumps({"schema_version": SCHEMA_VERSION, "corrections": rows}, indent=2, ensure_ascii=False) + "\n"


def calibration_of(path: Path) -> Calibration:
    """The calibration in a file. Raises InputError where it cannot be read or is none."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(LONGEST_FILE + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "is not text"
        raise InputError(Fault(f"cannot be read: {reason}", str(path), key="calibration")) from None
    return read_calibration(text, str(path))


def read_calibration(text: str, name: str) -> Calibration:
    """The calibration a file holds. Raises InputError with every fault of it."""
    from pydantic import ValidationError

    if len(text) > LONGEST_FILE:
        raise InputError(Fault(f"is longer than {LONGEST_FILE:,} characters: no calibration", name))
    try:
        file = _file_type().model_validate_json(text)
    except ValidationError as error:
        faults = [
            Fault(str(each["msg"]), name, key=".".join(map(str, each["loc"])) or None)
            for each in error.errors(include_url=False)
        ]
        raise InputError(faults) from None
    read = [Correction(**row.model_dump()) for row in file.corrections]
    keys = [each.key for each in read]
    twice = [each for place, each in enumerate(read) if each.key in keys[:place]]
    if twice:
        raise InputError(
            [Fault(f"{each.gpu_class}, tp {each.tp}, {each.engine_version} appears twice", name) for each in twice]
        )
    return Calibration(tuple(sorted(read, key=lambda each: each.key)))


@lru_cache(maxsize=1)
def _file_type() -> Any:
    """The form of the file, made where a file is read: pydantic is not loaded before."""
    from typing import Annotated, Literal

    from pydantic import BaseModel, ConfigDict, Field

    class Row(BaseModel):
        """One correction."""

        model_config = ConfigDict(extra="forbid", strict=True)
        engine: Literal["vllm"]
        engine_version: Annotated[str, Field(pattern=r"^v?\d{1,4}\.\d{1,4}(\.\d{1,4})?[\w.+-]{0,60}$")]
        gpu_class: Annotated[str, Field(min_length=1, max_length=60)]
        tp: Annotated[int, Field(ge=1, le=1024)]
        pp: Annotated[int, Field(ge=1, le=1024)] = 1
        non_torch_bytes: Annotated[int, Field(ge=-MOST_BYTES, le=MOST_BYTES)] = 0
        activation_ppm: Annotated[int, Field(ge=LEAST_PPM, le=MOST_PPM)] = MILLION
        cuda_graph_ppm: Annotated[int, Field(ge=LEAST_PPM, le=MOST_PPM)] = MILLION
        measured_on: Annotated[str, Field(max_length=1000)] = ""

    class File(BaseModel):
        """A calibration file."""

        model_config = ConfigDict(extra="forbid", strict=True)
        schema_version: Literal[1]
        corrections: Annotated[list[Row], Field(max_length=10_000)]

    return File
