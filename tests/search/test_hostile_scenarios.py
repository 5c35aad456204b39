"""A scenario nobody should write ends in a checked answer or in an error that says what is wrong, and soon.

`pytest -m slow tests/search` (or `make slow`) tries a hundred times as many.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml
from hostile_scenarios import hostile_scenario

from recommender.command.answers import run_answers, show_answers
from recommender.errors import InputError
from recommender.search.plan import Recommendation

LONGEST_S, LONGEST_MESSAGE = 30, 3_000
NONSENSE = re.compile(r"\bnan\b|\binf\b|\bNone\b|e\+\d\d|Decimal\(|<\w+ object|[ $(]-0 |Traceback|np\.")


def no_number(name: str) -> NoReturn:
    raise AssertionError(f"{name} in an answer")


def answered(path: Path, scenario: dict[str, Any], seed: int) -> bool:
    """Whether a scenario is answered, readably in every format; False where it is refused. Else a fault of ours."""
    path.write_text(yaml.safe_dump(scenario, allow_unicode=True))
    started = time.process_time()
    try:
        answers = run_answers(str(path), None)
    except InputError as error:
        message = str(error)
    else:
        return _readable(answers, seed)
    finally:
        assert time.process_time() - started < LONGEST_S, seed
    assert 0 < len(message) < LONGEST_MESSAGE, seed
    return False


def _readable(answers: dict[str, Recommendation], seed: int) -> bool:
    json.loads(show_answers(answers, "json"), parse_constant=no_number)
    for written in ("table", "csv"):
        found = NONSENSE.search(show_answers(answers, written))
        assert found is None, (seed, found)
    return True


def test_scenarios_that_belong(tmp_path: Path) -> None:
    count = sum(answered(tmp_path / "s.yaml", hostile_scenario(seed, 0), seed) for seed in range(40))
    assert count > 15


def test_broken_scenarios(tmp_path: Path) -> None:
    count = sum(answered(tmp_path / "s.yaml", hostile_scenario(seed, 1), seed) for seed in range(500, 600))
    assert 2 < count < 50  # the rest is refused by name


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 4_000, 400))
def test_many_scenarios(first: int, tmp_path: Path) -> None:
    for seed in range(1_000_000 + first, 1_000_400 + first):
        answered(tmp_path / "s.yaml", hostile_scenario(seed), seed)


def test_mixed_precisions_without_any_way_to_have_the_weights(tmp_path: Path) -> None:
    scenario = {
        "model": "llama-3.1-70b",
        "workload": {"concurrency": 1, "lengths": {"fixed": 8192}},
        "search": {"gpus": ["H100-SXM"], "weights": ["mxfp4"], "uniform_precision": False},
    }
    assert answered(tmp_path / "s.yaml", scenario, 0)


def test_no_share_is_less_than_none(tmp_path: Path) -> None:
    """-0 % of the requests were refused where clients ask for fewer tokens than there are prompts."""
    law = {"type": "lognormal", "median": 800, "p95": 4000, "max": 131_072}
    lengths = {"parametric": {"input": law, "output": {"type": "uniform", "min": 1, "max": 500}}}
    scenario = {
        "model": "CohereLabs/c4ai-command-r-v01",
        "workload": {"concurrency": 2, "lengths": lengths, "max_tokens": 2},
        "search": {"plans": 1, "gpus": ["MI300X"], "tp": [8]},
    }
    assert answered(tmp_path / "s.yaml", scenario, 0)
