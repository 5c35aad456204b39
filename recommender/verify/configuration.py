"""The configuration an engine ran with, rebuilt from its own dumps and lines; every value with where it was read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from recommender.verify.arguments import Value
from recommender.verify.log import StartupLog

CONFIG = "configuration line"
GIVEN = "arguments"
LINE = "log line"
DEFAULT = "not in the log: the default"

_HUMAN = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kKmMgG]?)")
_SCALE = {"": 1, "k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}  # as vLLM's own flags count
_RANK = re.compile(r"_(?:TP|tp)(\d{1,4})\b|rank[ =](\d{1,4})")
_HUB = re.compile(r"models--([\w.-]+?)--([\w.-]+)(?:/|$)")


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the engine was started with; None is its own default, or not stated. `origins` says where each was read."""

    model: str | None
    served_names: tuple[str, ...]
    version: str | None
    generation: str | None
    tp: int
    pp: int
    dp: int
    expert_parallel: bool
    context_parallel: int
    max_model_len: int | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    gpu_memory_utilization: float | None
    kv_cache_memory_bytes: int | None
    kv_dtype: str
    dtype: str | None
    quantization: str | None
    enforce_eager: bool
    block_size: int | None
    prefix_caching: bool | None
    blocks_override: int | None
    lora: bool
    speculative: str | None
    cpu_offload: bool
    server: bool  # started as a server (its defaults differ from those of LLM())
    origins: Mapping[str, str]


class _Reader:
    """Looks a name up in one dump after the other, and remembers where it was found."""

    def __init__(self, log: StartupLog) -> None:
        self.log = log
        self.origins: dict[str, str] = {}

    def value(self, key: str, *names: str, config: Iterable[str] = ()) -> Value:
        """The first value that is stated: in the configuration line, then in the arguments."""
        for dump, origin, keys in ((self.log.config, CONFIG, tuple(config)), (self.log.given, GIVEN, names or (key,))):
            for name in keys:
                if dump.get(name) is not None:
                    self.origins[key] = origin
                    return dump[name]
        return None

    def count(self, key: str, *names: str, config: Iterable[str] = ()) -> int | None:
        """A whole number above zero, also written as 8k or 8K."""
        value = self.value(key, *names, config=config)
        found = _whole(value)
        if found is None:
            self.origins.pop(key, None)
        return found

    def figure(self, key: str, *names: str) -> int | None:
        """A count that a log line states."""
        for name in names:
            stated = self.log.largest(name)
            if stated is not None and stated.value > 0:
                self.origins[key] = LINE
                return stated.value
        return None

    def flag(self, key: str, *, config: Iterable[str] = ()) -> bool | None:
        value = self.value(key, config=config)
        return value if isinstance(value, bool) else None

    def word(self, key: str, *names: str, config: Iterable[str] = ()) -> str | None:
        value = self.value(key, *names, config=config)
        return str(value) if isinstance(value, str) and value else None


def configuration_of(log: StartupLog, engine_version: str | None = None) -> Configuration:
    """The configuration of one start-up; `engine_version` stands for the version where it is given."""
    read = _Reader(log)
    eager = read.flag("enforce_eager", config=("enforce_eager",))
    return Configuration(
        model=read.word("model", "model", "model_tag", config=("model",)),
        served_names=_names(log),
        version=engine_version or log.version,
        generation=log.generation,
        tp=read.count("tp", "tensor_parallel_size", "tp", config=("tensor_parallel_size",)) or _ranks(log, read),
        pp=read.count("pp", "pipeline_parallel_size", "pp", config=("pipeline_parallel_size",)) or 1,
        dp=read.count("dp", "data_parallel_size", "dp", config=("data_parallel_size",)) or 1,
        expert_parallel=read.flag("enable_expert_parallel", config=("enable_expert_parallel",)) or False,
        context_parallel=read.count(
            "context_parallel", "decode_context_parallel_size", config=("decode_context_parallel_size",)
        )
        or 1,
        max_model_len=_length(read),
        max_num_seqs=read.count("max_num_seqs"),
        max_num_batched_tokens=read.figure("max_num_batched_tokens", "batched") or read.count("max_num_batched_tokens"),
        gpu_memory_utilization=_utilization(read),
        kv_cache_memory_bytes=read.count("kv_cache_memory_bytes", "kv_cache_memory_bytes", "kv_cache_memory"),
        kv_dtype=_kv_dtype(read),
        dtype=_dtype(read),
        quantization=read.word("quantization", config=("quantization",)),
        enforce_eager=(eager or False) or "eager" in log.signs,
        block_size=read.count("block_size"),
        prefix_caching=read.flag("enable_prefix_caching", config=("enable_prefix_caching",)),
        blocks_override=read.figure("blocks_override", "blocks_override") or read.count("num_gpu_blocks_override"),
        lora=bool(read.flag("enable_lora")),
        speculative=_speculative(read),
        cpu_offload=bool(read.count("cpu_offload_gb")) or "offload" in log.signs,
        server=any("APIServer" in each.process.name for each in log.processes)
        or "host" in log.given
        or "model_tag" in log.given,
        origins=read.origins,
    )


def _whole(value: Value) -> int | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        found = _HUMAN.fullmatch(value.strip())
        if found is None:
            return None
        value = Decimal(found[1]) * _SCALE[found[2]]
    return int(value) if value >= 1 and value == int(value) else None


def _length(read: _Reader) -> int | None:
    """max_model_len as it came out: the lines that use it win over what was asked for."""
    used = read.figure("max_model_len", "max_model_len", "refused_len", "stated_len")
    return used or read.count("max_model_len", config=("max_seq_len", "max_model_len"))


def _utilization(read: _Reader) -> float | None:
    value = read.value("gpu_memory_utilization")
    if not isinstance(value, Decimal | int) or isinstance(value, bool):
        value = read.log.share("utilization")
        read.origins["gpu_memory_utilization"] = LINE
    if value is None or not 0 < value <= 1:
        read.origins.pop("gpu_memory_utilization", None)
        return None
    return float(value)


def _kv_dtype(read: _Reader) -> str:
    """The KV dtype, auto or fp8 as the memory model knows them; any other word as it is."""
    word = (read.word("kv_dtype", "kv_cache_dtype", config=("kv_cache_dtype",)) or "auto").removeprefix("torch.")
    if word in ("auto", "bfloat16", "float16"):
        return "auto"
    return "fp8" if word in ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "float8_e4m3fn", "float8_e5m2") else word


def _dtype(read: _Reader) -> str | None:
    word = read.word("dtype", config=("dtype",))
    if word is None or word == "auto":
        read.origins.pop("dtype", None)
        return None
    return {"half": "float16", "float": "float32"}.get(word, word.removeprefix("torch."))


def _speculative(read: _Reader) -> str | None:
    word = read.word("speculative", "speculative_config", "speculative_model", config=("speculative_config",))
    return word or ("a draft model" if "drafter" in read.log.signs else None)


def _names(log: StartupLog) -> tuple[str, ...]:
    found = []
    for dump in (log.config, log.given):
        value = dump.get("served_model_name")
        if isinstance(value, str):
            found += re.findall(r"[\w./:-]{2,200}", value)
    return tuple(dict.fromkeys(found))


def _ranks(log: StartupLog, read: _Reader) -> int:
    """Tensor-parallel size by the names of the processes, where nothing else states it."""
    ranks = [int(found[1] or found[2]) for each in log.processes if (found := _RANK.search(each.process.name))]
    if ranks:
        read.origins["tp"] = "names of the processes"
    return max(ranks, default=0) + 1


def model_names(configuration: Configuration) -> tuple[str, ...]:
    """Names under which a catalog may know the model, the surest first: as given, by its cache folder, by its path."""
    names: list[str] = []
    for name in filter(None, (configuration.model, *configuration.served_names)):
        cached = _HUB.search(name)
        if cached:
            names.append(f"{cached[1]}/{cached[2]}")
        parts = [part for part in name.split("/") if part]
        names += [name, "/".join(parts[-2:]), parts[-1] if parts else name]
    return tuple(dict.fromkeys(names))
