"""docs/scenario.md against the schema: every key with its kind and default, every example a scenario that loads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import PydanticUndefined

from recommender import load_scenario
from recommender.scenario_file.faults import scenario_keys
from recommender.scenario_file.forms import ScenarioForm
from recommender.scenario_file.later import LATER_KEYS
from recommender.scenario_file.values import Value

PAGE = Path(__file__).parent.parent / "docs" / "scenario.md"
TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", TEXT, flags=re.S)


def _field(path: str) -> Any:
    form: Any = ScenarioForm
    *outer, last = path.split(".")
    for step in outer:
        annotation = form.model_fields[step].annotation
        form = getattr(annotation, "__args__", (annotation,))[0]
    return form.model_fields[last]


def _kind(field: Any) -> str:
    value = next((each for each in field.metadata if isinstance(each, Value)), None)
    if value is None:
        return "list" if "list" in str(field.annotation) else "mapping"
    schema = value.schema()
    options = schema.get("anyOf", [schema])
    text = _simple(options[0])
    if len(options) == 1:
        return text
    return f"{text}, or 8K" if "pattern" in options[1] else f"{text}; one or several"


def _simple(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return f"{_simple(schema['anyOf'][0])}, or 8K"
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if "minimum" in schema:
        return f"{_plain(schema['minimum'])} to {_plain(schema['maximum'])}"
    if "exclusiveMinimum" in schema:
        return f"above {schema['exclusiveMinimum']:g} to {_plain(schema['maximum'])}"
    return {"boolean": "`true`, `false`"}.get(str(schema["type"]), schema.get("format", "text"))


def _plain(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:g}"


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    default = field.default
    if default is PydanticUndefined or default in ((), [], {}, None):
        return ""
    words = default if isinstance(default, tuple) else (default,)
    return ", ".join(str(word).lower() if isinstance(word, bool) else str(word) for word in words)


def _key_rows() -> Iterable[str]:
    yield "| key | kind | default | meaning |"
    yield "|---|---|---|---|"
    for path in scenario_keys():
        field = _field(path)
        yield f"| `{path}` | {_kind(field)} | {_default(field)} | {field.description} |"


def _later_rows() -> Iterable[str]:
    yield "| key | use instead |"
    yield "|---|---|"
    for key, instead in LATER_KEYS.items():
        yield f"| `{key}` | {instead} |"


def _with(text: str, name: str, rows: Iterable[str]) -> str:
    block = "\n".join([f"<!-- {name} -->", *rows, f"<!-- end of {name} -->"])
    return re.sub(rf"<!-- {name} -->.*<!-- end of {name} -->", lambda _: block, text, flags=re.S)


def test_tables_are_those_of_the_schema(request: pytest.FixtureRequest) -> None:
    wanted = _with(_with(TEXT, "keys", _key_rows()), "later", _later_rows())
    if request.config.getoption("--update-golden"):
        PAGE.write_text(wanted, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == wanted, "--update-golden writes the tables anew"


def test_every_key_is_described() -> None:
    assert [path for path in scenario_keys() if not _field(path).description] == []


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_examples_load(text: str, tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(text, encoding="utf-8")
    _write_own_lengths(tmp_path)
    work = load_scenario(path).workload
    assert work.concurrency or work.rate


BENCHMARK = {
    "duration": 60.0,
    "completed": 240,
    "total_input_tokens": 240 * 1024,
    "total_output_tokens": 240 * 256,
    "request_throughput": 4.0,
    "output_throughput": 1024.0,
    "mean_ttft_ms": 200.0,
    "mean_tpot_ms": 30.0,
    "max_concurrency": 32,
}


def _write_own_lengths(folder: Path) -> None:
    """The files that the page's examples name as the reader's own."""
    (folder / "log.csv").write_text("prompt_tokens,completion_tokens\n100,20\n900,80\n", encoding="utf-8")
    (folder / "cells.json").write_text('{"total_tokens": {"maximum": 980}, "cells": [[2, 500, 50]]}', encoding="utf-8")
    (folder / "bench.json").write_text(json.dumps(BENCHMARK), encoding="utf-8")
    for name, count in (("earlier.txt", 1), ("metrics.txt", 3)):
        sides = ("request_prompt_tokens", "request_generation_tokens")
        lines = [
            f"vllm:{side}_{what} {value}"
            for side in sides
            for what, value in (('bucket{le="100.0"}', count), ('bucket{le="+Inf"}', count), ("sum", 50 * count))
        ]
        lines += [f"vllm:{side}_count {count}" for side in sides]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
