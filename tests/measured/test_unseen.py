"""Errors of the reserve on models that its constants were not fitted to; the fit gives the shipped constants."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

import accuracy
from unseen import Unseen, logs

from recommender.memory.engine import engine_data, fitted_of
from recommender.memory.fitted import places, read_fitted, write_fitted
from recommender.memory.refit import fitted_without, refitted


def errors(found: Sequence[Unseen]) -> tuple[float, float, float]:
    """Median, 90 % by nearest rank, worst, as shares of utilization x total."""
    ordered = sorted(abs(each.error) for each in found)
    return statistics.median(ordered), ordered[math.ceil(0.9 * len(ordered)) - 1], ordered[-1]


def test_one_machine_and_version() -> None:
    found = accuracy.unseen_0_19()
    assert len(found) == 38
    median, ninety, worst = errors(found)
    assert median <= 0.0005
    assert ninety <= 0.003
    assert worst <= 0.015


def test_many_versions_and_cards() -> None:
    found = accuracy.unseen_mixed()
    assert len(found) == 11
    median, ninety, worst = errors(found)
    assert median <= 0.005
    assert ninety <= 0.017
    assert worst <= 0.039
    assert [each.name for each in found if abs(each.error) > 0.017] == ["nvidia/GLM-5.2-NVFP4"]


def test_fitting_again_gives_the_shipped_constants(tmp_path: Path) -> None:
    write_fitted(tmp_path / "fitted.csv", refitted(logs()))
    assert (tmp_path / "fitted.csv").read_text() == fitted_of("vllm").read_text(), "make reserve writes it anew"


def test_everything_left_to_the_fit_is_fitted() -> None:
    found = read_fitted(fitted_of("vllm"))
    assert sorted(places(engine_data("vllm"))) == [each.at for each in found]
    assert min(each.logs for each in found) >= 1


def test_what_no_other_model_shows_is_no_extra() -> None:
    """GLM-5.2 is the only log of sparse attention, DeepSeek-V2-Lite the only plain latent one with a graph estimate."""
    by_name = {each.log: each.model.id for each in logs()}
    without = {each.at[0] + "." + each.at[2]: each for each in fitted_without(by_name["L161"], logs())}
    assert without["sparse_attention.gib"].value == "0"
    assert without["graphs.sparse_factor"].value == "1"
    latent = next(each.model.id for each in logs() if "DeepSeek-V2" in each.model.id)
    factors = {each.at[2]: each.value for each in fitted_without(latent, logs())}
    assert (factors["mla_factor"], factors["sparse_factor"]) == ("1", "3.0")


def test_a_log_is_left_out_with_every_repository_of_its_model() -> None:
    llama = {each.model.id for each in logs() if "Llama-3.1-8B" in each.model.id}
    assert len(llama) == 1
