"""The shipped traces' lengths, and rows of the reference tables beside this file."""

import csv
from functools import cache
from pathlib import Path

from recommender.catalog.traces import read_trace

ROOT = Path(__file__).parents[2]


@cache
def trace(name):
    return read_trace(ROOT / "catalogs" / "traces" / f"{name}.json").lengths()


def rows(file):
    lines = (Path(__file__).parent / file).read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))
