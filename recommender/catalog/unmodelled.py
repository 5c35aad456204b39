"""A model of a class nobody has described here: its tensors from file headers, its cache as somebody measured it.

Nothing of its attention is assumed: attention weights count whole on every GPU, and so does the measured cache, at
whatever tensor-parallel size. Both err on the side of more memory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from recommender.catalog.config_fields import Fields, language_part
from recommender.catalog.config_quantisation import plain_dtype
from recommender.catalog.config_rope import lengths_of
from recommender.catalog.models import AttentionLayers, Model, Split, Tensor
from recommender.catalog.repository import Repository
from recommender.catalog.safetensors import BITS, StoredTensor
from recommender.catalog.tensor_names import group_of, is_plain, layer_of, left_out_because
from recommender.errors import Fault, InputError, NotModelledError

_SPLITS: dict[str, Split] = {
    "embedding": "vocabulary",
    "lm_head": "vocabulary",
    "mlp": "outputs",
    "experts": "outputs",
    "shared_experts": "outputs",
}
_PACKED = ("I32", "U32", "I8", "U8", "F4")  # several weights to an element, how many the dtype does not say


def unmodelled(repository: Repository, kv_bytes_per_token: int) -> Model:
    """The model of a repository whose class or attention is not known, with `kv_bytes_per_token` on each GPU."""
    fields = Fields(language_part(repository.config), where=repository.where)
    layers, tied = fields.layers(), fields.flag("tie_word_embeddings")
    held = [tensor for tensor in repository.tensors or () if left_out_because(tensor, layers=layers, tied=tied) is None]
    check_packing(repository, held)
    heads = fields.integer("num_attention_heads", "n_head", "n_heads")
    experts = fields.integer("num_experts", "num_local_experts", "n_routed_experts", default=0, least=0)
    return Model(
        id=repository.id,
        aliases=(),
        base=None,
        architecture=_architecture(repository),
        native="fp8" if any(tensor.dtype.startswith("F8") for tensor in held) else plain_dtype(fields),
        kv_declared=None,  # whatever it declares is in the measured figure
        quantisation=None,  # the tensors are counted as they are stored
        hidden_size=fields.integer("hidden_size", "n_embd", "d_model"),
        layers=layers,
        heads=heads,
        kv_heads=fields.integer("num_key_value_heads", default=heads),
        intermediate_size=fields.integer("intermediate_size", "moe_intermediate_size", "n_inner", "ffn_hidden_size"),
        vocabulary=fields.integer("vocab_size"),
        max_model_len=lengths_of(fields).longest,
        tied_embeddings=tied,
        experts=experts,
        experts_per_token=fields.integer("num_experts_per_tok", default=1) if experts else 0,
        moe_intermediate_size=fields.integer("moe_intermediate_size", "intermediate_size") if experts else 0,
        rotary_dim=0,
        multimodal=any(group_of(tensor.name) == "vision" for tensor in held),
        attention=tuple(measured_layers(layers, kv_bytes_per_token)),
        tensors=tuple(tensors_of(held)),
        source=repository.source,
    )


def measured_layers(layers: int, kv_bytes_per_token: int) -> Iterator[AttentionLayers]:
    """The measured bytes of a token spread over the layers, to the byte."""
    if kv_bytes_per_token < layers:
        what = f"{kv_bytes_per_token} bytes a token for {layers} layers"
        raise InputError(Fault(what, key="kv_bytes_per_token", expected="bytes of a token in all layers of one GPU"))
    each, rest = divmod(kv_bytes_per_token, layers)
    for indices, size in ((range(rest), each + 1), (range(rest, layers), each)):
        if len(indices):
            yield AttentionLayers("measured", len(indices), 1, 0, 0, indices=indices, measured_bytes=size)


def _architecture(repository: Repository) -> str:
    named = repository.config.get("architectures")
    return str(named[0]) if isinstance(named, list) and named else "unknown"


def check_packing(repository: Repository, tensors: Iterable[StoredTensor]) -> None:
    """Raises NotModelledError where weights are packed: what the engine makes of them at load time is not known."""
    for tensor in tensors:
        if tensor.dtype in _PACKED and len(tensor.shape) > 1:
            what = (
                f"{tensor.name} is packed as {tensor.dtype}: only whole weights where the model class is not modelled"
            )
            raise NotModelledError(Fault(what, repository.where, key="architectures"))


def tensors_of(tensors: Iterable[StoredTensor]) -> Iterator[Tensor]:
    """One entry for each shape, dtype and group, with the layers that have it."""
    alike: dict[tuple[str, tuple[int, int], int], list[int | None]] = {}
    for tensor in tensors:
        size = 2 if is_plain(tensor) else max(1, BITS[tensor.dtype] // 8)
        alike.setdefault((group_of(tensor.name), _matrix(tensor.shape), size), []).append(layer_of(tensor.name))
    for (group, (outputs, inputs), size), places in sorted(alike.items()):
        counts = Counter(places)
        for count in sorted(set(counts.values())):
            here = tuple(sorted(layer for layer, found in counts.items() if found == count and layer is not None))
            entry = Tensor(
                name=f"{group} of {outputs} x {inputs}",
                group=group,
                outputs=outputs,
                inputs=inputs,
                count=count * len(here),
                split=_SPLITS.get(group, "none") if inputs > 1 else "none",
                quantised=False,
                layers=here,
                element_bytes=size,
            )
            if here:
                yield entry
            if counts.get(None) == count:
                yield replace(entry, layers=range(0), count=count)


def _matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """A shape as outputs and inputs: vectors have one input, stacks of experts are stacked outputs."""
    if len(shape) < 2:
        return (shape[0] if shape else 1), 1
    return math.prod(shape[:-1]), shape[-1]
