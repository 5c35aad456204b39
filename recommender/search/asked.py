"""A scenario with its names looked up, and everything that may be bought and started listed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from recommender.catalog.catalog import Catalog
from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Model
from recommender.errors import Fault, InputError
from recommender.memory.capacity import Demand, WorstCase
from recommender.memory.longest_length import longest_length
from recommender.memory.model_classes import ENGINE_NAMES
from recommender.memory.pool_cache import refuse_layers
from recommender.memory.pool_engine import pool_engine
from recommender.memory.weights import WeightChoice, weight_choices
from recommender.scenario import Scenario
from recommender.search.assemble import assemble, powered
from recommender.search.candidates import Candidates, candidates_of
from recommender.search.columns import Column, columns_of, newest_price
from recommender.search.leftout import Axis, axes_of
from recommender.search.load import Load, load_of
from recommender.search.plan import Refusal
from recommender.search.problem import Problem
from recommender.search.speeds import anchors_of, speeds_of
from recommender.search.terms import Terms, terms_of
from recommender.speed.anchors import Anchor
from recommender.workload.demand import Statistical
from recommender.workload.lengths import max_model_len_for, served_share

BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Asked:
    """A scenario with its names looked up and everything that may be bought listed."""

    scenario: Scenario
    catalog: Catalog
    gpus: Mapping[str, Gpu]  # the catalog's, by name
    model: Model
    terms: tuple[Terms, ...]
    shortest: int
    columns: tuple[Column, ...]
    wider: tuple[tuple[Axis, tuple[Column, ...]], ...]
    candidates: Candidates
    unsearched: tuple[Refusal, ...]
    anchors: tuple[Anchor, ...]  # a user's own measurements
    doubts: tuple[str, ...]  # about them

    @property
    def refused_lengths(self) -> str | None:
        """Why no request is served at all: every one is longer than the model's maximum."""
        if served_share(self.scenario.workload.lengths, self.longest) > 0:
            return None
        longest = f"{self.model.id} takes at most {self.longest:,} tokens"
        return f"every request is longer than the model allows: {longest}"

    @property
    def longest(self) -> int:
        """The longest request that this engine lets the model take."""
        return longest_length(self.model, self.scenario.engine, self.scenario.engine_version)

    @property
    def load(self) -> Load:
        """What is to be carried."""
        return self.candidates.evaluation.load

    def problem(self, columns: Sequence[Column], allowed: Iterable[int] | None = None) -> Problem:
        """The purchase problem over some of the columns and terms."""
        usable = () if self.refused_lengths else allowed
        return assemble(self.scenario, columns, self.candidates, self.gpus, self.load.demand, usable)

    @property
    def untouched(self) -> list[int]:
        """The terms that leave weights and KV cache native."""
        return [i for i, each in enumerate(self.terms) if each.untouched]


def look_up(scenario: Scenario, catalog: Catalog, enough: int | None = None, *, wider: bool = False) -> Asked:
    """The scenario's names resolved and its candidates evaluated; `enough` replaces the demand replicas are cut to.

    `wider` lists and evaluates what the defaults leave out, too.
    """
    _check_prices(scenario)
    as_of = scenario.as_of or newest_price(catalog.offers)
    scenario = replace(scenario, as_of=as_of)
    model, choices = _weights(catalog, scenario)
    if scenario.engine != "vllm":
        refuse_layers(model, pool_engine(scenario.engine, scenario.engine_version))
    lengths = scenario.workload.lengths
    longest = longest_length(model, scenario.engine, scenario.engine_version)
    shortest = min(max_model_len_for(lengths, scenario.sla.served_share, BLOCK_TOKENS), longest)
    gpus = {gpu.name: gpu for gpu in catalog.gpus}
    columns, unsearched = _searchable(scenario, columns_of(scenario, catalog.offers, gpus, as_of), gpus)
    axes = axes_of(scenario) if wider else ()
    beyond = tuple((axis, _only_in(axis, scenario, catalog, gpus, columns, as_of)) for axis in axes)
    sizes: dict[str, int] = defaultdict(int)
    for column in (*columns, *(each for _, more in beyond for each in more)):
        sizes[column.gpu] = max(sizes[column.gpu], column.gpus)
    casts = sorted({gpus[name].supports_bf16 == "no" for name in sizes})
    terms = terms_of(model, choices, scenario, shortest, casts)
    load = load_of(scenario)
    anchors, doubts = anchors_of(scenario, catalog)
    candidates = candidates_of(
        scenario,
        model,
        gpus,
        sizes,
        terms,
        enough or load.demand,
        demand_of(scenario, model),
        load,
        speeds_of(scenario, anchors),
    )
    return Asked(
        scenario=scenario,
        catalog=catalog,
        gpus=gpus,
        model=model,
        terms=terms,
        shortest=shortest,
        columns=tuple(columns),
        wider=beyond,
        candidates=candidates,
        unsearched=tuple(unsearched),
        anchors=anchors,
        doubts=doubts,
    )


def _check_prices(scenario: Scenario) -> None:
    """An unknown price is never counted as zero: own cards are priced all or none, and a budget needs prices."""
    unpriced = [cards for cards in scenario.hardware if not cards.usd_per_hour]
    if unpriced and len(unpriced) < len(scenario.hardware):
        raise InputError(
            Fault("some own cards have a price and some have none", key="hardware", expected="all or none")
        )
    if unpriced and scenario.limits.usd_per_month is not None:
        raise InputError(Fault("a budget needs prices", key="hardware", expected="usd_per_hour for every own card"))


def demand_of(scenario: Scenario, model: Model) -> Demand:
    """How requests become a need of KV blocks; those that the model refuses need none."""
    work = scenario.workload
    longest = longest_length(model, scenario.engine, scenario.engine_version)
    if scenario.sizing == "worst_case" or served_share(work.lengths, longest) == 0:
        return WorstCase()
    return Statistical(work.lengths, scenario.epsilon, work.shared_prefix, arriving=work.rate is not None)


def _weights(catalog: Catalog, scenario: Scenario) -> tuple[Model, tuple[WeightChoice, ...]]:
    """The model and the ways to have its weights: only the one repository where the scenario named a quantised one."""
    resolved = catalog.resolve(scenario.model)
    model, given = resolved.model, resolved.checkpoint
    if given is None:
        return model, _one_of_each(
            weight_choices(model, catalog.checkpoints_of(model.id), scenario.engine_version, scenario.engine)
        )
    model = replace(model, kv_declared=given.kv_declared)
    # Beside others a better known one would win.
    choices = weight_choices(model, (given,), scenario.engine_version, scenario.engine)
    return model, tuple(each for each in choices if each.checkpoint and each.checkpoint.id == given.id)


def _one_of_each(choices: Iterable[WeightChoice]) -> tuple[WeightChoice, ...]:
    """One choice for each dtype and format, a known size first.

    Repositories that declare an FP8 KV cache are left to be asked for by name: their `auto` would take rung 2 unsaid.
    """
    first: dict[tuple[object, ...], WeightChoice] = {}
    for choice in sorted(choices, key=lambda each: each.checkpoint is None or each.checkpoint.bytes_total is None):
        if choice.how == "checkpoint" and choice.checkpoint is not None and choice.checkpoint.kv_declared:
            continue
        method = choice.quantisation.method if choice.quantisation else None
        first.setdefault((choice.rung, choice.weights, choice.how, method), choice)
    return tuple(first[key] for key in sorted(first, key=str))


def _searchable(
    scenario: Scenario, columns: Iterable[Column], gpus: Mapping[str, Gpu]
) -> tuple[list[Column], list[Refusal]]:
    """Columns on GPUs the engine runs on, their memory (and power, where limited) known; refusals for the rest."""
    columns, unpowered = powered(scenario, columns, gpus)
    refused = [Refusal(name, "power", "its power is unknown, and a power limit is set", None) for name in unpowered]
    names = sorted({column.gpu for column in columns})
    for name in names:
        gpu = gpus[name]
        if gpu.engine == "none":
            refused.append(Refusal(name, "compatibility", f"{ENGINE_NAMES[scenario.engine]} does not run on it", None))
        elif gpu.memory_bytes is None:
            refused.append(Refusal(name, "memory", "its memory as the engine sees it is unknown", None))
    out = {refusal.gpu for refusal in refused}
    return [column for column in columns if column.gpu not in out], refused


def _only_in(
    axis: Axis, scenario: Scenario, catalog: Catalog, gpus: Mapping[str, Gpu], columns: Sequence[Column], as_of: date
) -> tuple[Column, ...]:
    """The columns that an axis admits and the scenario does not."""
    known = {column.name for column in columns}
    wider = columns_of(replace(scenario, search=axis.search), catalog.offers, gpus, as_of)
    searchable, _ = _searchable(scenario, wider, gpus)
    return tuple(column for column in searchable if column.name not in known)
