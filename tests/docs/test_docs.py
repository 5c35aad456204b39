"""What the documents promise: quoted output is real, links lead somewhere, commands and code answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from recommender.cli import app

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "catalogs" / "README.md"])
QUOTED = re.compile(r"(<!-- begin: head of `recommender ([^`]+)` -->\n```text\n)(.*?)(```\n<!-- end -->)", re.DOTALL)
HEAD_LINES = 14


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    monkeypatch.chdir(ROOT)
    return lambda arguments: CliRunner().invoke(app, arguments.split(), catch_exceptions=False).output


def test_quoted_output_is_what_the_program_prints(output: Callable[[str], str], request: pytest.FixtureRequest) -> None:
    found = 0
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for match in QUOTED.finditer(text):
            found += 1
            head = "".join(output(match[2]).splitlines(keepends=True)[:HEAD_LINES])
            if request.config.getoption("--update-golden"):
                document.write_text(text.replace(match[0], f"{match[1]}{head}{match[4]}"), encoding="utf-8")
            else:
                assert match[3] == head, f"{document.name}: run pytest --update-golden"
    assert found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_speak_of_the_project_alone(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for word in ("../shared", "TODO", "FIXME"):
        assert word not in text


def test_readme_commands_answer(output: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `recommender ...` line of the README ends in an answer."""
    monkeypatch.chdir(ROOT)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [
        line.split("#")[0] for block in re.findall(r"```sh\n(.*?)```", readme, re.DOTALL) for line in block.splitlines()
    ]
    commands = [
        part.strip() for line in lines for part in re.split(r"&&|;", line) if part.strip().startswith("recommender")
    ]
    commands = [command for command in commands if "verify" not in command]  # its log is the reader's own
    assert len(commands) >= 6
    import shlex

    for command in commands:
        result = CliRunner().invoke(app, shlex.split(command)[1:], catch_exceptions=False)
        assert result.exit_code == 0, f"{command}: {result.output[:300]}"


def test_readme_python_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert code
    exec(code[1], {})
    first = capsys.readouterr().out.splitlines()[0]
    assert f"# {first}" in code[1]


def test_the_python_of_the_answer_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "answer.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert code
    exec(code[1], {})


def test_the_keys_of_the_answer_page_are_in_the_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "answer.md").read_text(encoding="utf-8")
    table = re.search(r"<!-- keys -->\n(.*?)<!-- end of keys -->", page, re.DOTALL)
    assert table
    answer = json.loads(CliRunner().invoke(app, ["run", "service-level", "--format", "json"]).stdout)
    cells = [row.split("|")[1] for row in table[1].splitlines()[2:]]
    paths = [path for cell in cells for path in re.findall(r"`([^`]+)`", cell)]
    assert len(paths) > 20
    for path in paths:
        found = answer
        for key in path.split("."):
            found = found[0] if isinstance(found, list) else found
            assert key in found, path
            found = found[key]
    best = answer["plans"][0]
    for key in ("provider", "instance_type", "region", "count", "as_of", "source", "doubts"):
        assert key in best["offers"][0]
    for key in ("gpu", "tp", "weights", "checkpoint", "max_num_seqs", "launch", "memory"):
        assert key in best["replicas"][0]
    assert {"ttft_ms", "tpot_ms_interval", "output_tokens_per_s", "evidence"} <= best["speed"].keys()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_no_shell_takes_dollars_out_of_a_command(document: Path) -> None:
    """`"under $20/h"` in double quotes reaches the program as `under 0/h`."""
    for block in re.findall(r"```sh\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL):
        assert not re.search(r'"[^"\n]*\$[0-9]', block), f"{document.name}: single quotes around $"


def test_every_command_is_documented_and_has_help() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    documents = readme + (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        assert command.help, name
        assert re.search(rf"`?{name}\b", documents), name
