from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sample_answers import FIT

from recommender.report.memory import fit_page


def test_page_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    golden("table_fit.txt", fit_page(FIT))


def test_gb_and_gib_stand_side_by_side() -> None:
    assert "36.00  33.53  36,000,000,000" in fit_page(FIT)


def test_a_refusal_says_what_and_how_long_would_do() -> None:
    page = fit_page(replace(FIT, starts=False, refusal="KV cache too small", estimated_max_model_len=5_120))
    assert "It does not start: KV cache too small. Estimated maximum length: 5,120." in page
    assert "It starts." not in page


def test_unknown_causes_are_said() -> None:
    assert "no reason is known" in fit_page(replace(FIT, starts=False))
