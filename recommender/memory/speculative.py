"""What the speculative (MTP) layers of a repository take in its files: on disk, and not loaded unless asked for."""

from __future__ import annotations

from dataclasses import replace

from recommender.catalog.models import LayerIndices, Model, Quantisation, Tensor
from recommender.memory.shards import file_groups

_DTYPE_BYTES = 2
_MIXING = ("attention", "indexer")
_GROWING = ("full", "mla", "compressed")


def speculative_sizes(model: Model, stored: Quantisation | None) -> tuple[int, ...]:
    """Bytes the files may hold of the model's speculative layers, ascending; empty where it has none.

    One is a decoder layer (attention and its feed-forward part) and the projection that joins two hidden states to one.
    Repositories differ in what they quantise of it, and in whether it comes with an embedding and a head of its own.
    """
    if not model.mtp_layers:
        return ()
    layer = replace(model, tensors=_last_layer(model), rotary=())
    joined = 2 * model.hidden_size * model.hidden_size * _DTYPE_BYTES
    own = 2 * model.vocabulary * model.hidden_size * _DTYPE_BYTES
    # The whole of an ignored list holds for the layers it names; a layer beside them is stored by the format alone.
    free = None if stored is None else replace(stored, ignored=(), cut=False)
    bodies = {sum(size for _, size in file_groups(layer, each)) for each in (free, None)}
    return tuple(sorted(model.mtp_layers * (body + joined + more) for body in bodies for more in (0, own)))


def _last_layer(model: Model) -> tuple[Tensor, ...]:
    """The tensors of one layer: attention of the last layer whose cache grows, the rest of the last with experts."""
    attending = max((i for group in model.attention if group.kind in _GROWING for i in group.indices), default=None)
    feeding = [t for t in model.tensors if t.group in ("experts", "mlp") and len(t.layers)]
    widest = max(feeding, key=lambda t: (t.group == "experts", max(t.layers)), default=None)
    fed = max(widest.layers) if widest is not None else None
    found = []
    for tensor in model.tensors:
        at = attending if tensor.group in _MIXING else fed
        if at is not None and at in tensor.layers and tensor.group not in ("mixer", "norm", "buffer", "vision"):
            found.append(_in_layer(tensor, (at,)))
    return tuple(found)


def _in_layer(tensor: Tensor, layers: LayerIndices) -> Tensor:
    return replace(tensor, layers=layers, count=tensor.count // len(tensor.layers))
