"""Request lengths and cache use from a server's own metrics: the text that vLLM shows at /metrics.

Histograms are cumulative counts since the server's start; a scrape taken earlier is subtracted where one is given.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from recommender.errors import Fault, InputError
from recommender.workload.lengths import MAXIMUM_TOKENS, Lengths
from recommender.workload.marginals import Joint, Marginal, through_buckets

_PROMPT = ("vllm:request_prompt_tokens", "tgi_request_input_length")
_OUTPUT = ("vllm:request_generation_tokens", "tgi_request_generated_tokens")
_SERVERS = ("vllm:", "tgi_")
_APART = 0.01
"""By which sums and counts that were aggregated apart from their buckets may differ."""
_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
_RUNNING = "vllm:num_requests_running"
_CONFIG = "vllm:cache_config_info"
_LINE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of an exposition: a metric, its labels and its value."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts per bucket by upper edge in tokens (inf: beyond the last one), their sum and number."""

    counts: Mapping[float, float]
    total: float
    number: float

    @property
    def mean(self) -> float:
        """The exact mean length."""
        return self.total / self.number


def samples_of(text: str, *, file: str | None = None) -> tuple[Sample, ...]:
    """The samples of inference servers in a Prometheus exposition. Raises InputError where it holds none at all."""
    found, others = list[Sample](), False
    for line in text.splitlines():
        named = line.startswith(_SERVERS)
        match = _LINE.fullmatch(line) if named or not (others or line.startswith("#")) else None
        value = _float(match[3]) if match else None
        if match is None or value is None:
            continue
        others = True
        if named:
            found.append(Sample(match[1], dict(_LABEL.findall(match[2] or "")), value))
    if not others:
        raise InputError(Fault("holds no Prometheus samples", file, expected="the text a server shows at /metrics"))
    return tuple(found)


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def lengths_from_metrics(
    samples: Iterable[Sample],
    *,
    before: Iterable[Sample] = (),
    model_name: str | None = None,
    longest: int | None = None,
    file: str | None = None,
) -> Lengths:
    """Lengths by the server's histograms of prompt and generated tokens, all engines together. Raises InputError.

    The buckets give shares, the exact sums give the means, which place the lengths inside the buckets. Nothing tells
    how prompts and outputs go together: they are taken as independent, and the notes say so. `longest` (max_model_len)
    bounds what lies beyond the last bucket.
    """
    now, then = _of_model(samples, model_name, file), _of_model(before, model_name, file)
    sides = []
    for word, names in (("prompt", _PROMPT), ("generation", _OUTPUT)):
        counted = _difference(_histogram(now, names), _histogram(then, names), word, file)
        sides.append((counted, _marginal(counted, longest, word, file)))
    (_, prompt), (outputs, output) = sides
    joint = Joint(prompt, output)
    high = prompt.high + output.high if longest is None else min(prompt.high + output.high, longest)
    notes = (
        f"{outputs.number:,.0f} requests by the server's histograms, placed inside buckets by the exact means",
        "prompt and output are taken as independent: on public traces that errs by -3 % to +38 %",
        *_held_now(now, file),
    )
    totals = tuple((min(tokens, float(high)), share) for tokens, share in joint.totals())
    name = model_name or "metrics"
    return Lengths(
        joint.cells(), high, totals=totals, name=name, source="metrics", notes=notes, longest_prompt=prompt.high
    )


def _of_model(samples: Iterable[Sample], model_name: str | None, file: str | None) -> tuple[Sample, ...]:
    samples = tuple(samples)
    models = sorted({sample.labels["model_name"] for sample in samples if "model_name" in sample.labels})
    if model_name is None and len(models) > 1:
        raise InputError(Fault("several models are served here", file, key="model_name", expected=" or ".join(models)))
    if model_name is not None and models and model_name not in models:
        raise InputError(Fault(f"no model {model_name!r} here", file, key="model_name", expected=" or ".join(models)))
    wanted = (None, model_name or (models[0] if models else None))
    return tuple(sample for sample in samples if sample.labels.get("model_name") in wanted)


def _histogram(samples: Iterable[Sample], names: tuple[str, ...]) -> Histogram | None:
    """Counts per bucket, summed over engines; None where the metric is absent."""
    cumulative: dict[float, float] = {}
    total = number = 0.0
    for sample in samples:
        if sample.name.removesuffix("_bucket") in names and "le" in sample.labels:
            edge = _float(sample.labels["le"].replace("+Inf", "inf"))
            if edge is not None and not math.isnan(edge):
                cumulative[edge] = cumulative.get(edge, 0.0) + sample.value
        total += sample.value if sample.name.removesuffix("_sum") in names else 0.0
        number += sample.value if sample.name.removesuffix("_count") in names else 0.0
    if not cumulative:
        return None
    edges = sorted(cumulative)
    counts = {edge: cumulative[edge] - (cumulative[low] if low is not None else 0.0) for low, edge in _steps(edges)}
    return Histogram(counts, total, number)


def _steps(edges: list[float]) -> Iterable[tuple[float | None, float]]:
    return zip([None, *edges], edges, strict=False)


def _difference(now: Histogram | None, then: Histogram | None, word: str, file: str | None) -> Histogram:
    key = f"vllm:request_{word}_tokens"
    if now is None:
        raise InputError(Fault("the histogram is missing", file, key=key))
    if then is not None:
        counts = {edge: count - then.counts.get(edge, 0.0) for edge, count in now.counts.items()}
        now = Histogram(counts, now.total - then.total, now.number - then.number)
    if not all(map(math.isfinite, (now.total, now.number, *now.counts.values()))):
        raise InputError(Fault("holds something that is no finite number", file, key=key))
    if min(now.counts.values()) < 0 or now.number < 0:
        raise InputError(Fault("counts fall: the server restarted in between, or this is no histogram", file, key=key))
    if not now.number > 0 or not sum(now.counts.values()) > 0:
        raise InputError(Fault("no request was counted", file, key=key))
    return _whole(now, key, file)


def _whole(found: Histogram, key: str, file: str | None) -> Histogram:
    """The histogram with its last bucket, which holds all requests: where a scrape leaves +Inf out, _count says it."""
    counted = sum(found.counts.values())
    if math.inf not in found.counts and found.number > counted:
        return Histogram({**found.counts, math.inf: found.number - counted}, found.total, found.number)
    if abs(counted - found.number) > _APART * found.number:
        what = f"its buckets count {counted:,.0f} requests, its _count {found.number:,.0f}: this is no histogram"
        raise InputError(Fault(what, file, key=key))
    return found


def _marginal(counted: Histogram, longest: int | None, word: str, file: str | None) -> Marginal:
    """The law of one length, its mean made exact by moving the lengths inside their buckets."""
    edges = sorted(edge for edge in counted.counts if math.isfinite(edge) and edge >= 1)
    if not edges:
        raise InputError(Fault("has no buckets of tokens", file, key=f"vllm:request_{word}_tokens"))
    counts = [counted.counts[edge] for edge in edges]
    counts[0] += sum(count for edge, count in counted.counts.items() if edge < 1)
    beyond = counted.counts.get(math.inf, 0.0)
    if beyond > 0:
        if longest is None or longest <= edges[-1]:
            what = f"{beyond:,.0f} requests lie beyond the last bucket ({edges[-1]:,.0f} tokens)"
            key = f"vllm:request_{word}_tokens"
            raise InputError(Fault(what, file, key=key, expected="max_model_len, which bounds them"))
        edges.append(float(longest))
        counts.append(beyond)
    if longest is not None:
        edges = [min(edge, float(longest)) for edge in edges]
        kept = [place for place, edge in enumerate(edges) if place == 0 or edge > edges[place - 1]]
        if any(counts[place] for place in range(len(edges)) if place not in kept):
            raise InputError(Fault(f"requests are longer than max_model_len {longest:,}", file))
        edges, counts = [edges[place] for place in kept], [counts[place] for place in kept]
    _fitting(counted.mean, edges, counts, word, file)
    whole = [min(int(edge), MAXIMUM_TOKENS) for edge in edges]
    return through_buckets(whole, counts, 1, mean=counted.mean)


def _fitting(mean: float, edges: list[float], counts: list[float], word: str, file: str | None) -> None:
    """Raise InputError where no lengths in these buckets have that mean."""
    least = sum(count * low for count, low in zip(counts, [0.0, *edges], strict=False)) / sum(counts)
    most = sum(count * edge for count, edge in zip(counts, edges, strict=True)) / sum(counts)
    if not least * (1 - _APART) <= mean <= most * (1 + _APART):
        what = f"its _sum means {mean:,.4g} tokens a request, its buckets {least:,.4g} to {most:,.4g}"
        raise InputError(Fault(what, file, key=f"vllm:request_{word}_tokens"))


def _held_now(samples: tuple[Sample, ...], file: str | None) -> Iterable[str]:
    """What the server's gauges say beside its histograms, where it shows them and serves something."""
    names = {sample.name for sample in samples}
    if names.isdisjoint(_USAGE) or _RUNNING not in names or _CONFIG not in names:
        return
    if (held := tokens_per_request(samples, file=file)) is not None:
        yield (
            f"when scraped, the server held {held:,.0f} KV-cache tokens a running request, prefix caching included; "
            "averaged over scrapes, that is what a request in flight holds"
        )


def tokens_per_request(samples: Iterable[Sample], *, file: str | None = None) -> float | None:
    """KV-cache tokens that one running request holds, as the server measures them; None where nothing runs.

    Blocks in use over requests running, both now: average it over several scrapes. Prefix caching is already in it.
    """
    samples = tuple(samples)
    usage = [sample.value for sample in samples if sample.name in _USAGE]
    running = sum(sample.value for sample in samples if sample.name == _RUNNING)
    pools = [_pool_tokens(sample, file) for sample in samples if sample.name == _CONFIG]
    if not usage or not pools:
        missing = _USAGE[0] if not usage else _CONFIG
        raise InputError(Fault("the metric is missing", file, key=missing))
    if running <= 0:
        return None
    return sum(usage) / len(usage) * sum(pools) / len(pools) * len(usage) / running


def _pool_tokens(sample: Sample, file: str | None) -> int:
    blocks, size = sample.labels.get("num_gpu_blocks", ""), sample.labels.get("block_size", "")
    if not blocks.isdigit() or not size.isdigit():
        raise InputError(Fault("num_gpu_blocks or block_size is missing", file, key=_CONFIG))
    return int(blocks) * int(size)
