"""Logs that cannot be true, that hold two engines, or whose tightest rank is not the one that states its cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from startup_logs import LOGS, parsed
from typer.testing import CliRunner

from recommender.catalog.catalog import Catalog
from recommender.cli import app
from recommender.errors import InputError
from recommender.units import GIB
from recommender.verify.causes import FOREIGN
from recommender.verify.compare import Verification
from recommender.verify.correction import correction_of

Verify = Callable[..., Verification]
ONE = (LOGS / "llama-3.1-8b-tp1.log").read_text(encoding="utf-8")
FOUR = (LOGS / "llama-3.1-8b-tp4.log").read_text(encoding="utf-8")
OTHER = (LOGS / "deepseek-v2-lite-tp1.log").read_text(encoding="utf-8")


def changed(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def interleaved(one: str, other: str) -> str:
    return "\n".join(line for pair in zip(one.splitlines(), other.splitlines(), strict=False) for line in pair)


def rank_with_10_gib_more() -> str:
    lines = FOUR.splitlines()
    place = next(n for n, line in enumerate(lines) if "Worker_TP2" in line and "Total non KV" in line)
    lines[place] = changed(
        lines[place], ("memory: 7.79GiB", "memory: 17.79GiB"), ("memory: 2.13GiB", "memory: 12.13GiB")
    )
    return changed("\n".join(lines), ("2,209,792", "1,882,112"), ("269.75", "229.75"))


def test_the_rank_that_leaves_least_binds_though_another_states_its_cache(verified: Verify) -> None:
    found = verified(rank_with_10_gib_more())
    kv = found.readings["kv_cache"]
    assert (found.readings.binding, kv and round(kv.value / GIB, 2)) == ("Worker_TP2", 57.44)
    assert [cause.what for cause in found.causes] == [FOREIGN]
    arithmetic = next(row for row in found.rows if row.name == "arithmetic")
    assert arithmetic.share == 0


def test_ranks_alike_leave_the_one_that_states_its_cache(verified: Verify) -> None:
    assert verified(FOUR).readings.binding == "Worker_TP0"


def test_a_process_that_grows_while_the_engine_profiles(verified: Verify) -> None:
    text = changed(
        ONE,
        ("non-torch forward increase memory: 0.25GiB", "non-torch forward increase memory: 8.25GiB"),
        ("Total non KV cache memory: 17.12GiB", "Total non KV cache memory: 25.12GiB"),
        ("Available KV cache memory: 58.11", "Available KV cache memory: 50.11"),
        ("476,016", "410,496"),
        ("58.11x", "50.11x"),
    )
    assert [cause.what for cause in verified(text).causes] == [FOREIGN]


def test_two_engines_at_once_are_refused(verified: Verify) -> None:
    with pytest.raises(InputError, match=r"2 engines that wrote at once: meta-llama.*, deepseek-ai.*the lines of one"):
        verified(interleaved(ONE, OTHER))


def test_two_start_ups_one_after_the_other_are_not(verified: Verify) -> None:
    assert parsed(ONE + OTHER).engines == ()
    assert verified(ONE + OTHER).agrees


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            changed(
                FOUR,
                ("'tensor_parallel_size': 4", "'tensor_parallel_size': 2"),
                ("tensor_parallel_size=4", "tensor_parallel_size=2"),
            ),
            "ranks up to TP3 loaded weights, but tensor_parallel_size is 2",
        ),
        (
            changed(ONE, ("free_memory=78.68", "free_memory=60.00"), ("free memory: 78.68", "free memory: 60.00")),
            "60.00 GiB were free",
        ),
        (changed(ONE, ("free_memory=78.68", "free_memory=90.00"), ("free memory: 78.68", "free memory: 90.00")), "of"),
        (changed(ONE, ("476,016", "476,016,000,000,000,000")), "476,016,000,000,000,000 tokens"),
        (changed(ONE, ("58.11 GiB", "-3.11 GiB")), "in a KV cache of -3.11 GiB"),
        (changed(ONE, ("58.11 GiB", "nan GiB")), "no figure"),
    ],
)
def test_what_cannot_be_true_does_not_agree(
    verified: Verify, catalog: Catalog, tmp_path: Path, text: str, said: str
) -> None:
    found = verified(text)
    assert said in " ".join(found.contradictions)
    assert not found.agrees
    with pytest.raises(InputError, match="contradicts itself"):
        correction_of(found, "a.log")
    path = tmp_path / "a.log"
    path.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, ["verify", str(path)])
    assert (result.exit_code, "All lines agree" in result.stdout) == (1, False)
    assert "The log contradicts itself" in result.stdout


def test_published_logs_do_not_contradict_themselves(real: dict[str, Verification]) -> None:
    assert all(found.contradictions == () for found in real.values())


def test_lines_of_v1_outvote_the_words_of_v0() -> None:
    text = changed(ONE, ("Initializing a V1 LLM engine", "Initializing an LLM engine"))
    assert parsed(text).generation == "V1"
    cut = "\n".join(line for line in text.splitlines() if "KV cache" not in line)
    assert parsed(cut).generation == "V0"


def test_standard_input_and_what_is_written(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    result = CliRunner().invoke(app, ["verify", "-", "--save-calibration", str(file)], input=ONE)
    assert (result.exit_code, f"Wrote {file}." in result.stderr) == (0, True), result.output
    assert "standard input" in file.read_text(encoding="utf-8")


def test_a_log_of_other_weights_saves_no_calibration(verified: Verify) -> None:
    text = changed(
        ONE,
        ("took 14.99", "took 7.49"),
        ("weights memory: 14.99", "weights memory: 7.49"),
        ("58.11 GiB", "65.61 GiB"),
        ("476,016", "537,472"),
        ("58.11x", "65.61x"),
    )
    with pytest.raises(InputError, match="weights differ beyond the tolerance"):
        correction_of(verified(text), "a.log")
