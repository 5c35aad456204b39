"""How fast a replica serves: time to first token, time per output token, throughput, each with its error band.

The room is called like the answer it gives: `from recommender import speed; speed(model, gpu, isl, osl, concurrency)`.
The public function and its room have one name, and whichever is imported first must not hide the other.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    """The module of this package, callable."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """How fast a configuration serves: `recommender.speed.answer.speed`."""
        # Not at the top: importing the package must not load numpy.
        from recommender.speed.answer import speed

        return speed(*arguments, **named)


sys.modules[__name__].__class__ = _Room
