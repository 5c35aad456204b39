"""What is asked: a scenario file, validated once, its defaults filled in and listed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recommender.workload.lengths import Lengths
from recommender.workload.replica import StepTime
from recommender.workload.service import ASSUMED_STEP_TIME

if TYPE_CHECKING:
    from recommender.memory.calibration import Calibration
    from recommender.speed.benchmarks.run import Run
    from recommender.speed.cost import Api
    from recommender.speed.setup import Setup
    from recommender.workload.prefix import SharedPrefix
    from recommender.workload.rate import Rate

ENGINE_VERSION = "0.33.0"  # of vLLM; the default changes only with an entry in the changelog


@dataclass(frozen=True, slots=True)
class LogFile:
    """The log that lengths were read from, where it says when requests arrived: a replay plays them again."""

    path: Path
    columns: tuple[tuple[str, str], ...] = ()
    timestamp_unit: str | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """`concurrency` requests at once, or a `rate` (then `concurrency` is None).

    `hourly` is what is at once in each hour of a day or a week, relative to each other; `concurrency` is that of the
    busiest. At a rate each request takes `request_s` seconds where that is stated, else what the step times give.
    """

    concurrency: int | None
    lengths: Lengths
    rate: Rate | None = None
    request_s: float | None = None
    shared_prefix: SharedPrefix | None = None
    log: LogFile | None = None
    hourly: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Sla:
    """`served_share` of the requests must not exceed max_model_len; the others are limits on speed, None is no limit.

    `percentile` is that of the requests whose time to first token stays below `ttft_ms`; None is their mean.
    `output_tokens_per_s` and `requests_per_s` are what all replicas answer together. `confidence` is the share of
    predictions like these whose measured figure kept the limit.
    """

    served_share: Decimal = Decimal(1)
    ttft_ms: Decimal | None = None
    tpot_ms: Decimal | None = None
    percentile: Decimal | None = None
    output_tokens_per_s: Decimal | None = None
    requests_per_s: Decimal | None = None
    confidence: Decimal = Decimal("0.9")

    @property
    def timed(self) -> bool:
        """Whether speed is limited at all."""
        limits = (self.ttft_ms, self.tpot_ms, self.output_tokens_per_s, self.requests_per_s)
        return any(limit is not None for limit in limits)


@dataclass(frozen=True, slots=True)
class OwnRuns:
    """A user's own benchmark: its runs, the file they were read from, and the set-up they were measured on."""

    setup: Setup
    runs: tuple[Run, ...]
    file: str


@dataclass(frozen=True, slots=True)
class Cap:
    """A quota (in GPUs) or a stock (in instances) for every offer that matches all the given fields."""

    count: int
    unit: str  # gpus | instances
    kind: str  # quota | stock
    provider: str | None = None
    region: str | None = None
    gpu: str | None = None
    instance_type: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Constraints on the whole purchase. `watts` is the sum of the boards' power limits."""

    usd_per_month: Decimal | None = None
    watts: int | None = None
    caps: tuple[Cap, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnCards:
    """Cards one has: `count` GPUs in instances of `gpus_per_instance`, unpriced unless a price is given."""

    gpu: str
    gpus_per_instance: int
    count: int
    usd_per_hour: Decimal | None = None  # of one instance
    ram_gb: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """What may be bought and how it may be run. None means everything the other fields allow."""

    gpus: tuple[str, ...] | None = None
    providers: tuple[str, ...] | None = None
    segments: tuple[str, ...] = ("hyperscaler", "neocloud")
    regions: tuple[str, ...] | None = None
    markets: tuple[str, ...] = ("on_demand",)
    offers: str = "listed"  # listed | all
    stale: bool = False  # also rows that their own source marks as outdated
    placement: str = "one_region"  # one_region | one_provider | anywhere
    uniform_precision: bool = True
    linear_sizes: bool = False
    max_gpus: int | None = None
    weights: tuple[str, ...] | None = None
    kv_dtypes: tuple[str, ...] | None = None
    tp: tuple[int, ...] | None = None
    pp: tuple[int, ...] = (1,)  # pipeline stages add latency: searched where asked for
    max_num_batched_tokens: tuple[int, ...] = ()  # also try these, fewer than the engine's default
    plans: int = 10
    max_price_age_days: int = 90


@dataclass(frozen=True, slots=True)
class Scenario:
    """One question, complete: every default is filled in, and `defaults` says which were."""

    name: str
    model: str
    workload: Workload
    sizing: str = "worst_case"  # worst_case | statistical | trace_replay
    epsilon: Decimal = Decimal("0.01")
    step_time: StepTime = ASSUMED_STEP_TIME
    step_time_stated: bool = False  # if not, replays use predicted ones where the speed is known
    sla: Sla = Sla()
    search: Search = Search()
    limits: Limits = Limits()
    hardware: tuple[OwnCards, ...] = ()
    forbidden_rungs: frozenset[str] = frozenset()  # max_model_len | kv_dtype | weights | gpus
    rank: str = "cost"  # cost | quality_first
    engine: str = "vllm"
    engine_version: str = ENGINE_VERSION
    gpu_memory_utilization: Decimal | None = None
    enforce_eager: bool = False
    max_num_batched_tokens: int | None = None
    memory_model: str = "vllm"
    memory_margin: str = "safe"  # safe: plan on the low end of what the reserve may leave | expected
    calibration: Calibration | None = None
    speed: str = "ignore"  # model: speed limits, and a rate's latencies, follow the speed model
    anchors: tuple[OwnRuns, ...] = ()
    hosted_api: Api | None = None
    as_of: date | None = None
    group_by: str | None = None  # gpu | provider | region
    catalog_overlays: tuple[str, ...] = ()
    defaults: tuple[tuple[str, Any], ...] = ()

    @property
    def paced_by_model(self) -> bool:
        """Whether how long requests take at a rate is predicted for each engine: nothing states it."""
        stated = self.workload.request_s is not None or self.step_time_stated
        return self.speed == "model" and self.workload.rate is not None and not stated


def load_scenario(path: str | Path) -> Scenario:
    """The scenario in a YAML file, or a shipped one by its name. Raises InputError with every fault and its line."""
    from recommender.scenario_file.find import find_scenario
    from recommender.scenario_file.load import load

    return load(find_scenario(str(path))).scenario
