"""The provably cheapest GPU set-up that serves a language model at your request lengths and service level."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recommender.answer import budget, fit, ladder, recommend
    from recommender.memory.fit import Fit
    from recommender.scenario import Scenario, load_scenario
    from recommender.search.plan import Plan, Recommendation
    from recommender.workload.source import inflight

__version__ = "0.1.0"

__all__ = [
    "Fit",
    "Plan",
    "Recommendation",
    "Scenario",
    "__version__",
    "budget",
    "fit",
    "inflight",
    "ladder",
    "load_scenario",
    "recommend",
]

_HOME = {
    "Fit": "recommender.memory.fit",
    "Plan": "recommender.search.plan",
    "Recommendation": "recommender.search.plan",
    "Scenario": "recommender.scenario",
    "budget": "recommender.answer",
    "fit": "recommender.answer",
    "inflight": "recommender.workload.source",
    "ladder": "recommender.answer",
    "load_scenario": "recommender.scenario",
    "recommend": "recommender.answer",
}


def __getattr__(name: str) -> Any:
    """A public name, its module imported at first use: `import recommender` loads neither pandas nor ortools."""
    if name not in _HOME:
        raise AttributeError(f"module 'recommender' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
