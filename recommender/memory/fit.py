"""Whether one replica starts, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Checkpoint, Model
from recommender.errors import Fault, InputError

if TYPE_CHECKING:
    from recommender.memory.calibration import Calibration

MEMORY_MODELS = ("vllm", "article")
MAX_BATCHED_TOKENS = 10**6
"""Of one engine step: above this a figure is a slip; engines run with 2,048 to 65,536."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One engine process group as it would be started. None is the engine's own default for that card and version."""

    model: Model
    gpu: Gpu
    weights: str
    checkpoint: Checkpoint | None
    kv_dtype: str = "auto"
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory_bytes: int | None = None
    enforce_eager: bool = False
    engine: str = "vllm"
    engine_version: str | None = None
    calibration: Calibration | None = None

    @property
    def gpus(self) -> int:
        """GPUs of the whole process group."""
        return self.tp * self.pp * self.dp

    @property
    def named(self) -> Named:
        """What an answer repeats of the question, by the names of `Fit`."""
        return Named(
            model=self.model.id,
            gpu=self.gpu.name,
            tp=self.tp,
            pp=self.pp,
            dp=self.dp,
            ep=self.ep,
            weights=self.weights,
            checkpoint=self.checkpoint.id if self.checkpoint else None,
            kv_dtype=self.kv_dtype,
            engine=self.engine,
        )


class Named(TypedDict):
    """The fields of a `Fit` that say which replica it is."""

    model: str
    gpu: str
    tp: int
    pp: int
    dp: int
    ep: int
    weights: str
    checkpoint: str | None
    kv_dtype: str
    engine: str


@dataclass(frozen=True, slots=True)
class Totals:
    """Weights and KV cache of all GPUs of the replica; bytes of one token on all GPUs that hold it (one data-parallel
    rank's, with its pipeline stages).
    """

    weights_bytes: int
    kv_cache_bytes: int
    kv_bytes_per_token: int


@dataclass(frozen=True, slots=True)
class Fit:
    """What a replica holds, or would hold. Bytes are per GPU and integers.

    Where `starts` is False, `refusal` says why and the KV figures are those of the pool the engine would have formed:
    fewer than one request of max_model_len, or none. A shape that cannot be split over these GPUs holds zero bytes.
    `kv_cache_tokens` is what the engine logs ("GPU KV cache size"), `max_concurrency` requests of max_model_len.
    `request_blocks` is what the engine charges one such request at start-up, `steady_request_blocks` what it still
    holds once its prompt is processed (less where layers slide). One block, the null block, is never used.
    """

    model: str
    gpu: str
    tp: int
    pp: int
    dp: int
    ep: int
    weights: str
    checkpoint: str | None
    kv_dtype: str
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    gpu_memory_utilization: float
    engine: str
    engine_version: str
    memory_model: str
    memory_bytes: int
    usable_bytes: int
    weights_bytes: int
    activation_bytes: int
    non_torch_bytes: int
    cuda_graph_bytes: int
    reserve_bytes: int
    kv_cache_bytes: int
    kv_bytes_per_token: int
    bytes_per_block: int | None
    block_size: int | None
    blocks: int | None
    kv_cache_tokens: int
    max_concurrency: float
    starts: bool
    refusal: str | None
    estimated_max_model_len: int | None
    total: Totals
    extrapolated: tuple[str, ...]  # why the constants do not quite cover this replica
    launch_arguments: tuple[str, ...]  # flags compatibility asks for, e.g. an attention backend
    sources: dict[str, str]
    warnings: tuple[str, ...]
    request_blocks: int | None = None
    steady_request_blocks: int | None = None
    longest_max_model_len: int | None = None  # at which max_num_seqs requests of that length fit at once
    kv_cache_bytes_interval: tuple[int, int] | None = None  # 80 %
    borderline: bool = False  # whether it starts differs between the ends of that interval


def fit_replica(replica: Replica, memory_model: str = "vllm") -> Fit:
    """What one replica holds under a memory model: `vllm` (its engine's rules) or `article` (the source article's).

    Raises InputError where the card's memory is unknown or a value is out of range, NotModelledError where a part of
    the model is not modelled. A replica that the engine would refuse is an answer, not an error.
    """
    _check(replica, memory_model)
    if memory_model == "article":
        from recommender.memory.article import fit_article

        return fit_article(replica)
    if replica.engine != "vllm":
        from recommender.memory.pool_fit import fit_pool

        return fit_pool(replica)
    from recommender.memory.vllm import fit_vllm

    return fit_vllm(replica)


def _check(replica: Replica, memory_model: str) -> None:
    faults = []
    if memory_model not in MEMORY_MODELS:
        faults.append(Fault(f"memory model {memory_model!r} is unknown", expected=" | ".join(MEMORY_MODELS)))
    counts = (
        "tp",
        "pp",
        "dp",
        "ep",
        "max_model_len",
        "max_num_seqs",
        "max_num_batched_tokens",
        "kv_cache_memory_bytes",
    )
    for name in counts:
        value = getattr(replica, name)
        if value is not None and value < 1:
            faults.append(Fault(f"{value} is not a count", key=name, expected="at least 1"))
    faults += _expert_faults(replica) + _ceiling_faults(replica)
    if memory_model == "article" and replica.engine != "vllm":
        what = "the article's memory model knows no other engine's rules"
        faults.append(Fault(what, key="engine", expected="vllm, or no memory_model"))
    share = replica.gpu_memory_utilization
    if share is not None and not 0 < share <= 1:
        faults.append(
            Fault(f"{share} is not a share of a GPU", key="gpu_memory_utilization", expected="above 0, up to 1")
        )
    if memory_model == "article" and replica.kv_cache_memory_bytes is not None:
        what = "the article's memory model takes a share of the memory instead"
        faults.append(Fault(what, key="kv_cache_memory_bytes", expected="gpu_memory_utilization"))
    if memory_model == "vllm" and replica.gpu.memory_bytes is None:
        faults.append(Fault(f"nobody stated what the engine sees of a {replica.gpu.name}'s memory", key="gpu"))
    if faults:
        raise InputError(faults)


def _ceiling_faults(replica: Replica) -> list[Fault]:
    """Sizes that nobody can mean."""
    faults = []
    tokens, cache = replica.max_num_batched_tokens, replica.kv_cache_memory_bytes
    if tokens is not None and tokens > MAX_BATCHED_TOKENS:
        expected = f"at most {MAX_BATCHED_TOKENS:,}"
        faults.append(Fault(f"{tokens:,} tokens are no engine step", key="max_num_batched_tokens", expected=expected))
    memory = replica.gpu.memory_bytes or replica.gpu.memory_bytes_marketing
    if cache is not None and cache > memory:
        what = f"{cache:,} bytes are more than a {replica.gpu.name} has"
        faults.append(Fault(what, key="kv_cache_memory_bytes", expected=f"at most {memory:,}"))
    return faults


def _expert_faults(replica: Replica) -> list[Fault]:
    """Experts are spread over all GPUs of a stage or not at all (vLLM config/parallel.py): nothing between."""
    everywhere = replica.tp * replica.dp
    if replica.ep in (1, everywhere) and (replica.ep <= 1 or replica.model.experts):
        return []
    if not replica.model.experts:
        return [Fault(f"{replica.ep}: {replica.model.id} has no experts to spread", key="ep", expected="1")]
    what = f"{replica.ep}: experts are spread over all tp x dp GPUs, or not at all"
    return [Fault(what, key="ep", expected=" | ".join(dict.fromkeys(("1", str(everywhere)))))]
