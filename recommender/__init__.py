"""The provably cheapest GPU set-up that serves a language model at your request lengths and service level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Fit": "recommender.memory.fit",
    "fit": "recommender.answer",
    "inflight": "recommender.workload.source",
    "Plan": "recommender.search.plan",
    "Recommendation": "recommender.search.plan",
    "Scenario": "recommender.scenario",
    "load_scenario": "recommender.scenario",
    "recommend": "recommender.answer",
}

__all__ = sorted([*_HOME, "__version__"])

if TYPE_CHECKING:
    from recommender.answer import fit, recommend
    from recommender.memory.fit import Fit
    from recommender.scenario import Scenario, load_scenario
    from recommender.search.plan import Plan, Recommendation
    from recommender.workload.source import inflight


def __getattr__(name: str) -> Any:
    """A public name, its module imported at first use: `import recommender` loads neither pandas nor ortools."""
    if name not in _HOME:
        raise AttributeError(f"module 'recommender' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOME[name]), name)
