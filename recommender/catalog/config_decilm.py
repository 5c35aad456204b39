"""Nemotron-NAS (DeciLM): Llama layers of which each has its own KV heads and MLP width, or lacks either.

Read from vLLM 0.33.0 model_executor/models/nemotron_nas.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from recommender.catalog.config_attention import compact
from recommender.catalog.config_decoder import Decoder, embeddings, sizes
from recommender.catalog.config_families import FAMILIES
from recommender.catalog.config_fields import Fields
from recommender.catalog.config_layers import Heads, dense_mlp, grouped_query, vector
from recommender.catalog.config_rotary import rotary_caches, rotary_dim
from recommender.catalog.models import AttentionLayers, LayerIndices, Tensor
from recommender.errors import Fault, NotModelledError

DECILM = ("DeciLMForCausalLM",)
_WIDTH_MULTIPLE = 256
_MOST_MULTIPLE = 2**16
_OTHER_BLOCKS = ("replace_with_linear", "sparsify", "window_length", "num_sink_tokens", "unshifted_sink")


@dataclass(frozen=True, slots=True)
class Blocks:
    """The layers of each number of KV heads, and of each MLP width."""

    attention: tuple[tuple[int, LayerIndices], ...]
    feed_forward: tuple[tuple[int, LayerIndices], ...]


def decilm(fields: Fields, architecture: str) -> Decoder:
    """The language side of a model with block_configs."""
    hidden, layers, vocabulary = sizes(fields)
    heads = fields.integer("num_attention_heads")
    head_dim = fields.optional("head_dim") or hidden // heads
    blocks = _blocks(fields, hidden, heads, layers)
    tied, bias = fields.flag("tie_word_embeddings"), fields.flag("attention_bias", "bias")
    family = FAMILIES["LlamaForCausalLM"]
    tensors: list[Tensor] = [*embeddings(vocabulary, hidden, tied=tied)]
    attention = []
    for kv_heads, found in blocks.attention:
        at = Heads(hidden, heads, kv_heads, head_dim, head_dim)
        tensors += grouped_query(at, found, qkv_bias=bias, o_bias=bias)
        tensors.append(vector("norm", "input_layernorm", hidden, found))
        attention.append(AttentionLayers("full", len(found), kv_heads, head_dim, head_dim, indices=found))
    for width, found in blocks.feed_forward:
        tensors += dense_mlp(hidden, width, found, bias=fields.flag("mlp_bias"))
        tensors.append(vector("norm", "post_attention_layernorm", hidden, found))
    return Decoder(
        hidden=hidden,
        layers=layers,
        vocabulary=vocabulary,
        heads=heads,
        kv_heads=attention[0].kv_heads,
        intermediate=blocks.feed_forward[0][0],
        tied=tied,
        tensors=(*tensors, vector("norm", "norm", hidden, range(0))),
        attention=tuple(attention),
        rotary=rotary_caches(fields, family, head_dim),
        rotary_dim=rotary_dim(fields, family, head_dim),
    )


def _blocks(fields: Fields, hidden: int, heads: int, layers: int) -> Blocks:
    listed = fields.sequence("block_configs")
    if len(listed) != layers or any(not isinstance(block, Mapping) for block in listed):
        raise fields.fault(f"{len(listed)} entries for {layers} layers", "block_configs", f"{layers} objects")
    read = [Fields(block, fields.where) for block in listed]
    attention = [_kv_heads(block.inner("attention"), heads) for block in read]
    feed_forward = [_width(block.inner("ffn"), hidden) for block in read]
    found = Blocks(tuple(_by_value(attention)), tuple(_by_value(feed_forward)))
    if not found.attention or not found.feed_forward:
        raise fields.fault("no layer with attention or none with an MLP", "block_configs")
    return found


def _by_value(values: list[int]) -> Iterator[tuple[int, LayerIndices]]:
    """(value, layers that have it) in the order of their first layer; 0 is none."""
    for value in dict.fromkeys(values):
        if value:
            yield value, compact(tuple(index for index, other in enumerate(values) if other == value))


def _kv_heads(block: Fields, heads: int) -> int:
    _refuse_others(block)
    if block.flag("no_op"):
        return 0
    grouped = block.integer("n_heads_in_group")
    if heads % grouped:
        raise block.fault(f"{heads} heads in groups of {grouped}", "block_configs.attention.n_heads_in_group")
    return heads // grouped


def _width(block: Fields, hidden: int) -> int:
    """The MLP's width: `ffn_mult` x 2/3 of the hidden size, up to a multiple of 256, where it is not given."""
    _refuse_others(block)
    if block.flag("no_op"):
        return 0
    if "ffn_mult" not in block:
        return block.integer("intermediate_size")
    width = int(2 * (block.optional_number("ffn_mult", above=0, most=_MOST_MULTIPLE) or 0) * hidden / 3)
    if not 0 < width < 2**24:
        raise block.fault(f"a width of {width}", "block_configs.ffn.ffn_mult", "a positive factor")
    return width + -width % _WIDTH_MULTIPLE


def _refuse_others(block: Fields) -> None:
    """Nothing, or the refusal of a block that is replaced by something else than its absence."""
    for key in _OTHER_BLOCKS:
        if block.values.get(key):
            raise NotModelledError(Fault(f"a block with {key}", file=block.where, key="block_configs"))
