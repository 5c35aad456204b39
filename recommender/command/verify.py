"""The command `verify`: an engine's start-up log against what is predicted for it."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import BinaryIO

from recommender.catalog.catalog import load_catalog
from recommender.errors import Fault, InputError
from recommender.memory.calibration import Calibration, calibration_of, calibration_text
from recommender.report import json_
from recommender.units import parse_decimal
from recommender.verify.compare import TOLERANCE, Verification, verify_log
from recommender.verify.correction import correction_of
from recommender.verify.log import read_log
from recommender.verify.page import verification_csv, verification_page, verification_record

BLOCK = 2**16
STANDARD_INPUT = Path("-")


def verification_of(
    path: Path,
    *,
    model: str | None,
    gpu: str | None,
    engine_version: str | None,
    tolerance: str | None,
    overlays: tuple[str, ...],
) -> Verification:
    """The comparison of the log in a file. Raises InputError where it is none, or says too little."""
    share = TOLERANCE if tolerance is None else read_tolerance(tolerance)
    try:
        with _opened(path) as file:
            log = read_log(iter(partial(file.read, BLOCK), b""))
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror or error}", str(path))) from None
    return verify_log(
        log,
        load_catalog(overlays),
        model=model,
        gpu=gpu,
        engine_version=engine_version,
        tolerance=share,
        name="standard input" if path == STANDARD_INPUT else str(path),
    )


def _opened(path: Path) -> AbstractContextManager[BinaryIO]:
    """The file to read: standard input for `-`, which stays open."""
    if path != STANDARD_INPUT:
        file = path.open("rb")
        if stat.S_ISCHR(os.fstat(file.fileno()).st_mode) and not file.isatty():  # such as /dev/zero: it has no end
            file.close()
            raise InputError(Fault("is a device", str(path), expected="a file, a pipe, or - for standard input"))
        return file
    if sys.stdin is None:  # the shell's `<&-`
        raise InputError(Fault("cannot be read: it is closed", "standard input"))
    return nullcontext(sys.stdin.buffer)


def read_tolerance(text: str) -> float:
    """A share of the budget from `0.03` or `3%`. Raises InputError."""
    word = text.strip()
    try:
        share = float(parse_decimal(word.removesuffix("%").strip())) / (100 if word.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise InputError(
            Fault(f"{text!r} is not valid", key="--tolerance", expected="a share of the budget: 0.03 or 3%")
        )
    return share


def show_verification(found: Verification, written: str) -> str:
    """The comparison as text of one format."""
    if written == "json":
        return json_.encode(verification_record(found))
    return verification_csv(found) if written == "csv" else verification_page(found)


def calibration_with(found: Verification, source: Path, file: Path) -> str:
    """The text of a calibration file with what this log says added to what the file holds."""
    correction = correction_of(found, "standard input" if source == STANDARD_INPUT else source.name)
    held = calibration_of(file) if file.exists() else Calibration()
    return calibration_text(held.with_correction(correction))
