"""How one replica spreads over GPUs: tensor, pipeline, data and expert parallel sizes, all inside one instance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from recommender.catalog.models import Model
from recommender.scenario import Scenario


@dataclass(frozen=True, slots=True, order=True)
class Layout:
    """`ep` is the size of the group that experts are spread over, 1 where they are sharded like everything else."""

    pp: int
    dp: int
    tp: int
    ep: int

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tp * self.pp * self.dp

    def __str__(self) -> str:
        parts = [f"tp {self.tp}"]
        parts += [f"pp {self.pp}"] if self.pp > 1 else []
        parts += [f"dp {self.dp}"] if self.dp > 1 else []
        parts += ["ep"] if self.ep > 1 else []
        return " ".join(parts)


def layouts_of(scenario: Scenario, model: Model, gpus: int) -> Iterator[Layout]:
    """The layouts tried on an instance of so many GPUs, each at most once.

    Tensor parallel sizes always; pipeline stages as far as the scenario asks for them, since they add latency. For
    mixtures of experts also data-parallel attention over spread experts, which keeps one latent (or one set of KV
    heads) per rank instead of a copy of it on each, and spread experts alone.
    """
    for tp in range(1, gpus + 1):
        if scenario.search.tp is not None and tp not in scenario.search.tp:
            continue
        if scenario.engine != "vllm":
            yield Layout(1, 1, tp, 1)  # more is not modelled for it
            continue
        yield from (Layout(pp, 1, tp, 1) for pp in scenario.search.pp if pp * tp <= gpus and pp <= model.layers)
        if model.experts and model.heads % tp == 0:
            yield from (Layout(1, dp, tp, tp * dp) for dp in range(1, gpus // tp + 1) if 1 < tp * dp <= model.experts)
