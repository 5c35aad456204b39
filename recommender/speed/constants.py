"""The fitted constants of serving speed: data with provenance, looked up by the levels each candidate has."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from recommender.speed.candidates import Candidates, Float, Int
from recommender.speed.families import DATA

EVERYWHERE = "all"
LEVELS = ("all", "engine", "gpu_family", "model_family", "engine+model_family", "weights", "link")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One factor of a constant: `name` is the product of all its factors, each known by the level it depends on.

    `prior` is what is believed without measurements (1 for deviations of a level), `spread` the standard deviation of
    its logarithm; `level` is the level it is believed of, empty for all that have no row of their own.
    """

    name: str
    by: str
    level: str
    prior: float
    spread: float
    unit: str
    source: str

    @property
    def factor(self) -> tuple[str, str]:
        """The factor it is a row of."""
        return self.name, self.by


@dataclass(frozen=True, slots=True)
class Levels:
    """For each kind of level, the names it takes and the one of each candidate."""

    names: Mapping[str, tuple[str, ...]]
    codes: Mapping[str, Int]


@dataclass(frozen=True)
class Constants:
    """Values by (name, by, level). A level nobody measured takes its prior."""

    parameters: tuple[Parameter, ...]
    values: Mapping[tuple[str, str, str], float]

    def of(self, levels: Levels) -> dict[str, Float]:
        """Each constant for each candidate."""
        found: dict[str, Float] = {}
        for (name, by), believed in by_factor(self.parameters).items():
            table = np.array(
                [self.values.get((name, by, level), prior_of(believed, level).prior) for level in levels.names[by]]
            )
            factor = table[levels.codes[by]]
            found[name] = found[name] * factor if name in found else factor
        return found

    def known(self, by: str, level: str) -> bool:
        """Whether some constant was fitted on measurements of that level."""
        return any(key[1] == by and key[2] == level for key in self.values)


def by_factor(parameters: Iterable[Parameter]) -> dict[tuple[str, str], dict[str, Parameter]]:
    """The rows of each factor by level, in the order they come."""
    found: dict[tuple[str, str], dict[str, Parameter]] = {}
    for parameter in parameters:
        found.setdefault(parameter.factor, {})[parameter.level] = parameter
    return found


def prior_of(believed: Mapping[str, Parameter], level: str) -> Parameter:
    """What is believed of a level of a factor."""
    return believed[level] if level in believed else believed[""]


def levels_of(rows: Candidates) -> Levels:
    """The levels of each candidate."""
    families = tuple(shape.family for shape in rows.shapes)
    pairs = tuple(f"{engine}+{family}" for engine in rows.engines for family in families)
    names = {
        "all": (EVERYWHERE,),
        "engine": rows.engines,
        "gpu_family": tuple(gpu.family for gpu in rows.gpus),
        "model_family": families,
        "engine+model_family": pairs,
        "weights": tuple(shape.weights for shape in rows.shapes),
        "link": tuple(gpu.link for gpu in rows.gpus),
    }
    codes = {
        "all": np.zeros(len(rows), dtype=np.int64),
        "engine": rows.engine,
        "gpu_family": rows.gpu,
        "model_family": rows.shape,
        "engine+model_family": rows.engine * len(families) + rows.shape,
        "weights": rows.shape,
        "link": rows.gpu,
    }
    return Levels(names, codes)


def read_parameters(path: Path) -> tuple[Parameter, ...]:
    """What is fitted, with its priors."""
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(
            Parameter(
                name=row["name"],
                by=row["by"],
                level=row["level"],
                prior=float(row["prior"]),
                spread=float(row["spread"]),
                unit=row["unit"],
                source=row["source"],
            )
            for row in csv.DictReader(file)
        )


def read_values(path: Path) -> dict[tuple[str, str, str], float]:
    """Fitted values."""
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["name"], row["by"], row["level"]): float(row["value"]) for row in csv.DictReader(file)}


def write_values(path: Path, values: Mapping[tuple[str, str, str], float], rows: Mapping[tuple[str, str], int]) -> None:
    """Write fitted values, each with the number of measurements of its level."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("name", "by", "level", "value", "measurements"))
        for (name, by, level), value in values.items():
            writer.writerow((name, by, level, f"{value:.5g}", rows.get((by, level), 0)))


@lru_cache(maxsize=1)
def shipped_constants() -> Constants:
    """The constants that travel with the package."""
    return Constants(read_parameters(DATA / "parameters.csv"), read_values(DATA / "constants.csv"))
