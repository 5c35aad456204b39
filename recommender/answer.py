"""The public answers: `recommend`, `fit`, `ladder` and `budget`, with names looked up in the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from recommender.catalog.catalog import Catalog, Resolved, shipped_catalog
from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Model
from recommender.errors import Fault, InputError, NotModelledError
from recommender.memory.fit import Fit, Replica, fit_replica
from recommender.memory.weights import WeightChoice, served_with, weight_choices
from recommender.scenario import ENGINE_VERSION, Scenario

if TYPE_CHECKING:
    from recommender.memory.calibration import Calibration
    from recommender.search.ladder import Ladder
    from recommender.search.plan import Recommendation
    from recommender.workload.replica import Progress

LADDER_BATCHED_TOKENS = (2048,)  # the engine's own on smaller cards: what the ladder shows unless asked for another

__all__ = ["budget", "fit", "ladder", "recommend", "shipped_catalog"]


def recommend(scenario: Scenario, catalog: Catalog | None = None, progress: Progress | None = None) -> Recommendation:
    """Ranked, feasible, provably cheapest plans for a scenario, or why there are none.

    `progress(finished, all)` is called about a hundred times in each replay, where the scenario asks for replays.
    """
    from recommender.search.recommend import recommend as search

    return search(scenario, catalog or shipped_catalog(scenario.catalog_overlays), progress)


def budget(scenario: Scenario, usd_per_month: Decimal, catalog: Catalog | None = None) -> Recommendation:
    """The answer for the largest concurrency (or rate) that so many dollars a month (of 730 hours) buy.

    Where they buy none, the answer for one request, infeasible, with its reasons.
    """
    for key in ("output_tokens_per_s", "requests_per_s"):
        if getattr(scenario.sla, key) is not None:
            what = "a budget asks for the largest load, this for a load of its own"
            raise InputError(Fault(what, key=f"sla.{key}", expected="no such limit: ttft_ms and tpot_ms may stand"))
    catalog = catalog or shipped_catalog(scenario.catalog_overlays)
    scenario = replace(scenario, limits=replace(scenario.limits, usd_per_month=usd_per_month))
    largest, proven = _largest(scenario, catalog)
    if scenario.workload.rate is not None:  # again: a rate is cut into units of its own size
        largest, proven = _largest(largest, catalog)
    answer = recommend(largest, catalog)
    if not proven:
        note = "the largest concurrency is not proven: the solver's limit was reached"
        answer = replace(answer, warnings=(*answer.warnings, note))
    return answer


def _largest(scenario: Scenario, catalog: Catalog) -> tuple[Scenario, bool]:
    """(the scenario with the largest load that its limits let through, whether that is proven)."""
    from recommender.memory.capacity import UNBOUNDED
    from recommender.search.asked import look_up
    from recommender.search.largest import largest_concurrency

    asked = look_up(scenario, catalog, UNBOUNDED)
    most, proven = largest_concurrency(asked.problem(asked.columns))
    return replace(scenario, workload=asked.load.asking(scenario.workload, max(1, most))), proven


def ladder(scenario: Scenario, gpu: str, catalog: Catalog | None = None) -> Ladder:
    """What each rung of the ladder does for a scenario on one GPU type."""
    from recommender.search.asked import look_up
    from recommender.search.ladder import ladder as climb
    from recommender.search.recommend import question_of

    catalog = catalog or shipped_catalog(scenario.catalog_overlays)
    name = catalog.gpu(gpu).name
    tokens = scenario.search.max_num_batched_tokens or LADDER_BATCHED_TOKENS
    search = replace(scenario.search, gpus=(name,), max_num_batched_tokens=tokens)
    everything = replace(scenario, forbidden_rungs=frozenset(), search=search)
    asked = look_up(everything, catalog)
    return climb(asked, question_of(asked), name)


def fit(
    model: str,
    gpu: str,
    tp: int = 1,
    pp: int = 1,
    dp: int = 1,
    ep: int = 1,
    weights: str | None = None,
    kv_dtype: str = "auto",
    max_model_len: int | None = None,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | None = None,
    gpu_memory_utilization: float | None = None,
    kv_cache_memory_bytes: int | None = None,
    enforce_eager: bool = False,
    engine: str = "vllm",
    engine_version: str | None = None,
    memory_model: str = "vllm",
    concurrency: int | None = None,
    kv_bytes_per_token: int | None = None,
    calibration: Calibration | None = None,
    catalog: Catalog | None = None,
) -> Fit:
    """Whether one replica starts, and what it holds; None is the engine's own default.

    `concurrency` is another name for `max_num_seqs`; `kv_bytes_per_token` is what somebody measured on one GPU of a
    model class that is not modelled; `calibration` corrects the reserve by one's own start-up logs. Raises InputError
    for names that are not known.
    """
    if concurrency is not None and max_num_seqs is not None:
        raise InputError(Fault("stands beside max_num_seqs", key="concurrency", expected="one of the two"))
    catalog = catalog or shipped_catalog()
    resolved, card = _named(catalog, model, kv_bytes_per_token, gpu)
    served, stored = _served(catalog, resolved, weights, engine_version, engine)
    replica = Replica(
        model=served,
        gpu=card,
        weights=stored.weights,
        checkpoint=stored.checkpoint,
        kv_dtype=kv_dtype,
        tp=tp,
        pp=pp,
        dp=dp,
        ep=ep,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs if concurrency is None else concurrency,
        max_num_batched_tokens=max_num_batched_tokens,
        gpu_memory_utilization=gpu_memory_utilization,
        kv_cache_memory_bytes=kv_cache_memory_bytes,
        enforce_eager=enforce_eager,
        engine=engine,
        engine_version=engine_version,
        calibration=calibration,
    )
    found = fit_replica(replica, memory_model)
    return replace(found, warnings=(*found.warnings, *_beyond_one_node(replica)))


def _named(catalog: Catalog, model: str, kv_bytes_per_token: int | None, gpu: str) -> tuple[Resolved, Gpu]:
    """The model and the GPU of these names. Raises InputError with what is wrong with either."""
    try:
        resolved = catalog.resolve(model, kv_bytes_per_token)
    except InputError as error:
        try:
            catalog.gpu(gpu)
        except InputError as other:
            raise InputError([*error.faults, *other.faults]) from None
        raise
    return resolved, catalog.gpu(gpu)


def _beyond_one_node(replica: Replica) -> Iterable[str]:
    """A warning where a replica needs more GPUs than one machine with them has: plans keep it inside one."""
    most = replica.gpu.max_gpus_per_node
    if most is not None and replica.gpus > most:
        yield f"{replica.gpus} GPUs span instances of {most} {replica.gpu.name}: not planned by the search"


def _served(
    catalog: Catalog, resolved: Resolved, weights: str | None, engine_version: str | None, engine: str
) -> tuple[Model, WeightChoice]:
    """The model and its weights: the repository named, or the dtype asked for, or the model's own."""
    model, given, own = resolved.model, resolved.checkpoint, resolved.repository
    if own is not None and given is not None and weights in (None, own.native):
        model, given, weights = own, replace(given, model=own.id), own.native
    named = (given,) if given is not None else ()
    by_name = given is not None and weights in (None, given.weights)
    # Beside others of its kind a better known one would be chosen in place of the repository that was named.
    checkpoints = named if by_name else (*catalog.checkpoints_of(resolved.model.id), *named)
    choices = weight_choices(model, checkpoints, engine_version or ENGINE_VERSION, engine)
    if given is not None and by_name:
        wanted = [each for each in choices if each.checkpoint is not None and each.checkpoint.id == given.id]
    elif weights is not None:
        # One that leaves the KV cache alone before one that declares it FP8.
        wanted = sorted((each for each in choices if each.weights == weights), key=_declares)
    else:
        wanted = [each for each in choices if each.how == "native"]
    if not wanted and weights is None and given is not None:
        how = f" by {given.quantisation.method}" if given.quantisation else ""
        what = f"{given.weights} weights{how} of {model.id} ({model.native} itself) are not modelled"
        raise NotModelledError(Fault(what, given.id, key="model", expected=model.id))
    if not wanted:
        known = " | ".join(sorted({each.weights for each in choices}))
        raise InputError(Fault(f"no {weights} weights for {model.id}", key="weights", expected=known))
    return served_with(model, wanted[0]), wanted[0]


def _declares(choice: WeightChoice) -> bool:
    return choice.checkpoint is not None and choice.checkpoint.kv_declared is not None
