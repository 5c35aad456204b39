"""Which layers are mixtures of experts and what those hold, by model class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recommender.catalog.config_attention import compact
from recommender.catalog.config_fields import Fields
from recommender.catalog.config_layers import dense_mlp, linear, routed_experts, router
from recommender.catalog.models import LayerIndices, Tensor
from recommender.errors import Fault, NotModelledError

_MOST_EXPERTS = 2**16


@dataclass(frozen=True, slots=True)
class Mixture:
    """The feed-forward side of a mixture-of-experts model."""

    experts: int
    experts_per_token: int
    intermediate: int
    tensors: tuple[Tensor, ...]
    dense_layers: LayerIndices  # the layers with an ordinary MLP instead


def _experts(fields: Fields) -> int:
    names = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    return fields.integer(*names, most=_MOST_EXPERTS)


def _per_token(fields: Fields) -> int:
    names = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_k")
    return fields.integer(*names, most=_MOST_EXPERTS)


def _mixtral(fields: Fields, hidden: int, layers: int) -> Mixture:
    """Every layer a mixture, experts as wide as intermediate_size says, the router in 16 bit."""
    intermediate, experts = fields.integer("intermediate_size"), _experts(fields)
    every = range(layers)
    tensors = [
        *routed_experts(hidden, intermediate, experts, every),
        *router(hidden, experts, every),
    ]
    return Mixture(experts, _per_token(fields), intermediate, tuple(tensors), range(0))


def _sparse_layers(fields: Fields, layers: int) -> tuple[LayerIndices, LayerIndices]:
    """(mixture layers, dense layers) by decoder_sparse_step and mlp_only_layers, as Qwen writes them."""
    step = fields.integer("decoder_sparse_step", default=1)
    listed = fields.sequence("mlp_only_layers")
    if any(isinstance(index, bool) or not isinstance(index, int) for index in listed):
        raise fields.fault("an entry that is not a layer", "mlp_only_layers", "whole numbers")
    only_dense = set(listed)
    sparse = tuple(i for i in range(layers) if i not in only_dense and (i + 1) % step == 0)
    if len(sparse) == layers:
        return range(layers), range(0)
    return sparse, tuple(i for i in range(layers) if i not in set(sparse))


def _qwen_moe(fields: Fields, hidden: int, layers: int, quantised_router: bool) -> Mixture:
    """Qwen's mixtures, with a gated shared expert where the config has one."""
    intermediate, experts = fields.integer("moe_intermediate_size"), _experts(fields)
    shared = fields.integer("shared_expert_intermediate_size", default=0, least=0)
    sparse, dense = _sparse_layers(fields, layers)
    tensors = [
        *routed_experts(hidden, intermediate, experts, sparse),
        *router(hidden, experts, sparse, quantised=quantised_router),
    ]
    if shared:
        tensors += dense_mlp(hidden, shared, sparse, group="shared_experts", prefix="mlp.shared_expert")
        tensors += linear(
            "router",
            "mlp.shared_expert_gate",
            "mlp.shared_expert_gate",
            1,
            hidden,
            sparse,
            split="none",
            quantised=False,
        )
    return Mixture(experts, _per_token(fields), intermediate, tuple(tensors), dense)


def _qwen2_moe(fields: Fields, hidden: int, layers: int) -> Mixture:
    return _qwen_moe(fields, hidden, layers, quantised_router=False)


def _qwen3_moe(fields: Fields, hidden: int, layers: int) -> Mixture:
    return _qwen_moe(fields, hidden, layers, quantised_router=True)


def shared_and_routed(
    fields: Fields, hidden: int, layers: int, *, router_bytes: int | None, correction_bytes: int | None
) -> Mixture:
    """The first layers dense, the others routed plus always-on shared experts (DeepSeek's form, also GLM's)."""
    intermediate, experts = fields.integer("moe_intermediate_size"), _experts(fields)
    first = fields.integer("first_k_dense_replace", least=0)
    shared = fields.integer("n_shared_experts", "num_shared_experts", default=0, least=0)
    step = fields.integer("moe_layer_freq", default=1)
    sparse: LayerIndices = range(min(first, layers), layers)
    if step > 1:
        sparse = tuple(i for i in sparse if i % step == 0)
    dense = tuple(i for i in range(layers) if i not in set(sparse))
    tensors = [
        *routed_experts(hidden, intermediate, experts, sparse),
        *router(hidden, experts, sparse, element_bytes=router_bytes, correction_bytes=correction_bytes),
    ]
    if shared:
        width = shared * intermediate
        tensors += dense_mlp(hidden, width, sparse, group="shared_experts", prefix="mlp.shared_experts")
    return Mixture(experts, _per_token(fields), intermediate, tuple(tensors), dense)


def _glm4_moe(fields: Fields, hidden: int, layers: int) -> Mixture:
    return shared_and_routed(fields, hidden, layers, router_bytes=4, correction_bytes=4)


def _minimax_m2(fields: Fields, hidden: int, layers: int) -> Mixture:
    """Every layer a mixture, router and its bias in float32."""
    intermediate, experts = fields.integer("intermediate_size"), _experts(fields)
    correction_bytes = 4 if fields.flag("use_routing_bias") else None
    every = range(layers)
    tensors = [
        *routed_experts(hidden, intermediate, experts, every),
        *router(hidden, experts, every, element_bytes=4, correction_bytes=correction_bytes),
    ]
    return Mixture(experts, _per_token(fields), intermediate, tuple(tensors), range(0))


def _gpt_oss(fields: Fields, hidden: int, layers: int) -> Mixture:
    """Every layer a mixture; experts and router have biases."""
    intermediate, experts = fields.integer("intermediate_size"), _experts(fields)
    every = range(layers)
    tensors = [
        *routed_experts(hidden, intermediate, experts, every, bias=True),
        *router(hidden, experts, every, bias=True),
    ]
    return Mixture(experts, _per_token(fields), intermediate, tuple(tensors), range(0))


def _ernie(fields: Fields, hidden: int, layers: int) -> Mixture:
    """Mixtures between two layers, at an interval, with shared experts; router and its bias in float32."""
    intermediate, experts = fields.integer("moe_intermediate_size"), _experts(fields)
    first = fields.integer("moe_layer_start_index", default=0, least=0)
    last = fields.integer("moe_layer_end_index", default=layers - 1, least=0)
    step = fields.integer("moe_layer_interval", default=1)
    sparse = compact(tuple(i for i in range(layers) if first <= i <= last and (i + 1) % step == 0))
    shared = fields.integer("moe_num_shared_experts", default=0, least=0)
    tensors = [
        *routed_experts(hidden, intermediate, experts, sparse),
        *router(hidden, experts, sparse, element_bytes=4, correction_bytes=4),
    ]
    if shared:
        width = shared * intermediate
        tensors += dense_mlp(hidden, width, sparse, group="shared_experts", prefix="mlp.shared_experts")
    dense = compact(tuple(i for i in range(layers) if i not in set(sparse)))
    return Mixture(experts, _per_token(fields), intermediate, tuple(tensors), dense)


def _hunyuan(fields: Fields, hidden: int, layers: int) -> Mixture:
    """Every layer a mixture with shared experts; sizes are listed layer by layer."""
    intermediate, experts = _alike(fields, "moe_intermediate_size"), _experts(fields)
    every, shared = range(layers), _alike(fields, "num_shared_expert")
    tensors = [
        *routed_experts(hidden, intermediate, experts, every),
        *router(hidden, experts, every),
        *dense_mlp(hidden, shared * intermediate, every, group="shared_experts", prefix="mlp.shared_mlp"),
    ]
    return Mixture(experts, _alike(fields, "moe_topk"), intermediate, tuple(tensors), range(0))


def _alike(fields: Fields, key: str) -> int:
    """A number, or the one number that a list holds for every layer."""
    found = fields.raw(key)
    if found is None or not isinstance(found[1], list):
        return fields.integer(key)
    if len(set(map(str, found[1]))) != 1:
        raise NotModelledError(Fault("layers that differ", file=fields.where, key=key))
    return Fields({key: found[1][0]}, fields.where).integer(key)


MIXTURES: dict[str, Callable[[Fields, int, int], Mixture]] = {
    "mixtral": _mixtral,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
    "glm4_moe": _glm4_moe,
    "minimax_m2": _minimax_m2,
    "granite_moe": _mixtral,
    "olmoe": _mixtral,
    "gpt_oss": _gpt_oss,
    "ernie": _ernie,
    "phi": _mixtral,
    "hunyuan": _hunyuan,
}


def mixture(kind: str, fields: Fields, hidden: int, layers: int) -> Mixture:
    """The mixture-of-experts side of a model of class kind `kind`."""
    return MIXTURES[kind](fields, hidden, layers)
