"""How the engine shards a model's tensors over GPUs, and the bytes each GPU then holds.

Sharding rules are those of vLLM 0.33.0: model_executor/layers/{linear,vocab_parallel_embedding}.py, fused_moe/layer.py
and distributed/utils.py (pipeline stages).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from recommender.catalog.models import AttentionLayers, LayerIndices, Model, Quantisation, Tensor
from recommender.errors import Fault, InputError, NotModelledError
from recommender.memory.exemptions import exempt_layers, refuse_missing, schemes_of
from recommender.memory.formats import Experts, Matrix, cache_scale_bytes, expert_bytes, linear_bytes
from recommender.units import ceil_div, round_up

_VOCABULARY_PADDING = 64
_ATTENTION_SCALE_BUFFERS_BYTES = 4 * 4  # q, k, v and softmax scales of each attention layer, float32
_DTYPE_BYTES = 2
_ATTENTION_WITH_SCALES = ("full", "sliding", "chunked", "mla")


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes rank 0 of a pipeline stage holds, by parameter group: kept plain, and stored in the quantised format."""

    plain: tuple[tuple[str, int], ...]
    stored: tuple[tuple[str, int], ...]
    buffer_bytes: int


@dataclass(frozen=True, slots=True)
class Split:
    """How the replica's GPUs share the model: `ep` is the size of the expert-parallel group, 1 for none."""

    tp: int = 1
    pp: int = 1
    ep: int = 1


@lru_cache(maxsize=4096)
def held(model: Model, quantisation: Quantisation | None, split: Split, stage: int) -> Held:
    """What rank 0 of a pipeline stage holds. Raises InputError where tp does not divide what it has to."""
    layers = stage_layers(model.layers, split.pp)[stage]
    if quantisation is not None:
        refuse_missing(model.tensors, quantisation)
    found = (_on_stage(model, tensor, layers, stage, split.pp) for tensor in model.tensors)
    kept, modules = _by_storage([part for part in found if part is not None], quantisation)
    plain: dict[str, int] = defaultdict(int)
    stored: dict[str, int] = defaultdict(int)
    for tensor in kept:
        plain[tensor.group] += _plain_bytes(tensor, split)
    for padded, size in _padding(kept, split):
        plain[padded] += size
    buffers = plain.pop("buffer", 0) + _buffer_bytes(model, layers)
    if quantisation is not None:
        for scheme, tensors in modules:
            stored[tensors[0].group] += _module_bytes(tensors, scheme, split)
        for group in model.attention:
            size = cache_scale_bytes(quantisation, latent=group.kind == "mla")
            plain["attention"] += size * _attention_layers(group, layers)
    return Held(_sorted(plain), _sorted(stored), buffers)


@lru_cache(maxsize=256)
def file_groups(model: Model, quantisation: Quantisation | None) -> tuple[tuple[str, int], ...]:
    """Bytes of the whole model by group as its files hold them: nothing padded, 16 bit where it is not quantised."""
    kept, modules = _by_storage(list(model.tensors), quantisation)
    sizes: dict[str, int] = defaultdict(int)
    for tensor in kept:
        if tensor.group != "buffer":
            sizes[tensor.group] += tensor.parameters * min(_DTYPE_BYTES, tensor.element_bytes or _DTYPE_BYTES)
    if quantisation is not None:
        for scheme, tensors in modules:
            sizes[tensors[0].group] += _module_bytes(tensors, scheme, Split())
    return _sorted(sizes)


def _sorted(sizes: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((group, size) for group, size in sizes.items() if size))


def stage_layers(layers: int, pp: int) -> tuple[range, ...]:
    """The layers of each pipeline stage: equal parts, what is left over one each from the second-last stage back."""
    if pp > layers:
        what = f"{layers} layers cannot be split over {pp} pipeline stages"
        raise InputError(Fault(what, key="pp", expected=f"at most {layers}"))
    sizes = [layers // pp] * pp
    for index in range(layers % pp):
        sizes[-(index + 2)] += 1
    bounds = [sum(sizes[:index]) for index in range(pp + 1)]
    return tuple(range(bounds[index], bounds[index + 1]) for index in range(pp))


def _on_stage(model: Model, tensor: Tensor, layers: range, stage: int, pp: int) -> Tensor | None:
    """The part of a tensor that a stage holds. The first holds the embedding, the last the final norm and the head."""
    if len(tensor.layers):
        if pp == 1:
            return tensor
        here = tuple(index for index in tensor.layers if index in layers)
        count = tensor.count // len(tensor.layers) * len(here)
        return replace(tensor, layers=here, count=count) if here else None
    first, last = stage == 0, stage == pp - 1
    if tensor.group in model.every_stage:
        return tensor
    if tensor.group == "embedding":
        return tensor if first or (last and model.tied_embeddings) else None
    return tensor if last else None


def _by_storage(
    tensors: Sequence[Tensor], quantisation: Quantisation | None
) -> tuple[list[Tensor], list[tuple[Quantisation, list[Tensor]]]]:
    """(tensors kept in their plain dtype, quantised tensors by fused module, each with its scheme)."""
    plain: list[Tensor] = []
    stored: list[tuple[Quantisation, Tensor]] = []
    for tensor in tensors:
        if quantisation is None or not tensor.quantised:
            plain.append(tensor)
            continue
        kept = exempt_layers(tensor, quantisation)
        if len(kept):
            plain.append(_in_layers(tensor, kept))
        skipped = set(kept)
        rest = tuple(index for index in tensor.layers if index not in skipped) if len(kept) else tensor.layers
        if len(rest) or not len(kept):
            schemes = schemes_of(tensor, rest, quantisation)
            stored += [(scheme, _in_layers(tensor, layers)) for scheme, layers in schemes.items()]
    return plain, _modules(stored, tensors)


def _in_layers(tensor: Tensor, layers: LayerIndices) -> Tensor:
    """The part of a tensor that is in some of its layers."""
    if layers == tensor.layers:
        return tensor
    return replace(tensor, layers=layers, count=tensor.count // max(1, len(tensor.layers)) * len(layers))


def _modules(
    stored: Sequence[tuple[Quantisation, Tensor]], tensors: Sequence[Tensor]
) -> list[tuple[Quantisation, list[Tensor]]]:
    """Quantised tensors by fused module, each with its scheme. Raises NotModelledError where the targets of a scheme
    name a module in part, which no engine loads.
    """
    found: dict[tuple[str, LayerIndices, Quantisation], list[Tensor]] = {}
    for scheme, tensor in stored:
        found.setdefault((tensor.module, tensor.layers, scheme), []).append(tensor)
    for (module, layers, scheme), members in found.items():
        whole = [
            each for each in tensors if each.module == module and each.quantised and set(layers) & set(each.layers)
        ]
        if scheme.targets and len(members) < len(whole):
            raise NotModelledError(f"{module} is quantised in part: {', '.join(each.name for each in members)}")
    return [(scheme, members) for (_, _, scheme), members in found.items()]


def _plain_bytes(tensor: Tensor, split: Split) -> int:
    outputs, inputs, count = shard(tensor, split)
    return outputs * inputs * count * (tensor.element_bytes or _DTYPE_BYTES)


def _padding(tensors: Iterable[Tensor], split: Split) -> Iterator[tuple[str, int]]:
    """(group, bytes) that fill the outputs of a fused module up to a multiple on each rank."""
    fused: dict[str, list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        if tensor.multiple > 1:
            fused[tensor.module].append(tensor)
    for members in fused.values():
        shards = [shard(tensor, split) for tensor in members]
        missing = -sum(outputs for outputs, _, _ in shards) % members[0].multiple
        _, inputs, count = shards[0]
        yield members[0].group, missing * inputs * count * (members[0].element_bytes or _DTYPE_BYTES)


def shard(tensor: Tensor, split: Split) -> tuple[int, int, int]:
    """(outputs, inputs, copies) of a tensor on rank 0."""
    outputs, inputs, count, tp = tensor.outputs, tensor.inputs, tensor.count, split.tp
    if is_whole(tensor, tp):
        return outputs, inputs, count
    if tensor.experts and split.ep > 1:
        return outputs, inputs, count // tensor.experts * ceil_div(tensor.experts, split.ep)
    if tensor.split == "outputs":
        outputs = max(_divide(outputs, tp, tensor), tensor.least)
    elif tensor.split == "inputs":
        inputs = max(_divide(inputs, tp, tensor), tensor.least)
    elif tensor.split == "kv_heads":
        outputs = outputs // tensor.heads * kv_heads_per_rank(tensor.heads, tp)
    elif tensor.split == "vocabulary":
        outputs = _divide(vocabulary_rows(outputs), tp, tensor)
    return outputs, inputs, count


def is_whole(tensor: Tensor, tp: int) -> bool:
    """Whether a tensor of a vision tower is kept on every rank because tp does not divide the tower's heads."""
    return tensor.group == "vision" and tensor.heads > 0 and tensor.heads % tp != 0


def vocabulary_rows(vocabulary: int) -> int:
    """Rows the engine gives an embedding: the vocabulary padded to a multiple of 64."""
    return round_up(vocabulary, _VOCABULARY_PADDING)


def kv_heads_per_rank(kv_heads: int, tp: int) -> int:
    """KV heads each rank holds: an equal share, or one whole head once there are more ranks than heads."""
    if kv_heads % tp and tp % kv_heads:
        raise InputError(f"{kv_heads} KV heads cannot be split over {tp} GPUs: neither divides the other")
    return max(1, kv_heads // tp)


def _divide(size: int, tp: int, tensor: Tensor) -> int:
    if size % tp:
        raise InputError(f"{tensor.name}: {size} is not divisible by tensor parallel size {tp}")
    return size // tp


def _module_bytes(tensors: Sequence[Tensor], quantisation: Quantisation, split: Split) -> int:
    """Bytes of one fused layer, all its copies on the stage."""
    shards = [shard(tensor, split) for tensor in tensors if not tensor.name.endswith(".bias")]
    if tensors[0].experts:
        *first, second = shards
        one = Experts(
            first=Matrix(tuple(outputs for outputs, _, _ in first), first[0][1]),
            second=Matrix((second[0],), second[1]),
            biased=len(shards) < len(tensors),
        )
        return expert_bytes(quantisation.of_experts, one) * second[2]
    fused = Matrix(tuple(outputs for outputs, _, _ in shards), shards[0][1])
    return linear_bytes(quantisation, fused) * shards[0][2]


def _attention_layers(group: AttentionLayers, layers: range) -> int:
    """Layers of a stage, of one kind, that have an attention module."""
    return sum(index in layers for index in group.indices) if group.kind in _ATTENTION_WITH_SCALES else 0


def _buffer_bytes(model: Model, layers: range) -> int:
    rotary = sum(cache.size_bytes(_DTYPE_BYTES) for cache in model.rotary)
    scales = sum(_attention_layers(group, layers) for group in model.attention) * _ATTENTION_SCALE_BUFFERS_BYTES
    return rotary + scales + model.other_buffer_bytes
