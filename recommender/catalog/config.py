"""A model from its Hugging Face config.json: every parameter tensor and what each layer caches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from recommender.catalog.config_compressed import COMPRESSED, compressed
from recommender.catalog.config_decilm import DECILM, decilm
from recommender.catalog.config_decoder import Decoder
from recommender.catalog.config_defaults import class_defaults
from recommender.catalog.config_delta import DELTA, delta
from recommender.catalog.config_falcon import FALCON, falcon
from recommender.catalog.config_families import FAMILIES
from recommender.catalog.config_fields import Fields, is_nested, language_part
from recommender.catalog.config_granite import GRANITE, granite
from recommender.catalog.config_grouped import grouped
from recommender.catalog.config_jamba import JAMBA, jamba
from recommender.catalog.config_kimi_linear import KIMI_LINEAR, kimi_linear
from recommender.catalog.config_latent import LATENT, latent
from recommender.catalog.config_minimax import MINIMAX, minimax
from recommender.catalog.config_nemotron import NEMOTRON, nemotron
from recommender.catalog.config_quantisation import kv_declared, plain_dtype, quantisation
from recommender.catalog.config_rope import Lengths, lengths_of
from recommender.catalog.config_stages import on_every_stage
from recommender.catalog.config_towers import COMPOSITES, language_of, tower
from recommender.catalog.config_vision import Tower
from recommender.catalog.config_windowed import WINDOWED, windowed
from recommender.catalog.models import Model
from recommender.errors import Fault, NotModelledError, nearest

__all__ = ["known_architectures", "model_from_config"]

_WITH_HEADS = ("full", "sliding", "chunked")
_KEYS_SHOWN = 30

Reader = Callable[[Fields, str], Decoder]
READERS: dict[str, Reader] = {
    **dict.fromkeys(FAMILIES, grouped),
    **dict.fromkeys(LATENT, latent),
    **dict.fromkeys(WINDOWED, windowed),
    **dict.fromkeys(FALCON, falcon),
    **dict.fromkeys(DELTA, delta),
    **dict.fromkeys(NEMOTRON, nemotron),
    **dict.fromkeys(GRANITE, granite),
    **dict.fromkeys(JAMBA, jamba),
    **dict.fromkeys(KIMI_LINEAR, kimi_linear),
    **dict.fromkeys(COMPRESSED, compressed),
    **dict.fromkeys(DECILM, decilm),
    **dict.fromkeys(MINIMAX, minimax),
}


def model_from_config(
    config: Mapping[str, Any],
    *,
    id: str,  # noqa: A002 - the field's own word
    aliases: tuple[str, ...] = (),
    base: str | None = None,
    native: str | None = None,
    source: str = "",
) -> Model:
    """The model a config.json describes. Raises NotModelledError where a part of it is not known, InputError where it
    is broken; both name the keys.
    """
    where = f"config.json of {id}"
    fields = Fields(language_part(config), where)
    architecture = architecture_of(config, fields)
    language = language_of(architecture, config, where) if architecture in COMPOSITES else architecture
    nested = architecture in COMPOSITES and is_nested(config)
    fields = Fields(fields.values, where, class_defaults(language, nested=nested))
    decoder = READERS[language](fields, language)
    _check_layers(fields, decoder)
    stored, lengths = quantisation(config, fields), _lengths(fields)
    seeing = tower(architecture, Fields(config, where), decoder.hidden) if architecture in COMPOSITES else Tower(())
    return Model(
        id=id,
        aliases=aliases,
        base=base,
        architecture=architecture,
        native=native or (stored.of_experts.dtype if stored else plain_dtype(fields)),
        kv_declared=kv_declared(config, fields),
        quantisation=stored,
        hidden_size=decoder.hidden,
        layers=decoder.layers,
        heads=decoder.heads,
        kv_heads=decoder.kv_heads,
        intermediate_size=decoder.intermediate,
        vocabulary=decoder.vocabulary,
        max_model_len=lengths.longest,
        default_max_model_len=lengths.default,
        rescaled_max_model_len=lengths.rescaled,
        tied_embeddings=decoder.tied,
        experts=decoder.experts,
        experts_per_token=decoder.experts_per_token,
        moe_intermediate_size=decoder.moe_intermediate,
        rotary_dim=decoder.rotary_dim,
        multimodal=architecture in COMPOSITES,
        attention=decoder.attention,
        tensors=decoder.tensors + seeing.tensors,
        source=source,
        rotary=decoder.rotary,
        other_buffer_bytes=decoder.other_buffer_bytes + seeing.buffer_bytes,
        every_stage=on_every_stage(language),
        mtp_layers=_mtp_layers(fields, language),
        tp_divides=decoder.tp_divides,
    )


def _lengths(fields: Fields) -> Lengths:
    """The lengths a config allows. Raises InputError where its scaling leaves not one token."""
    found = lengths_of(fields)
    if any(length is not None and length < 1 for length in (found.longest, found.default, found.rescaled)):
        key = "rope_parameters" if "rope_parameters" in fields else "rope_scaling"
        raise fields.fault("scales the longest request to nothing", key, "a length of at least 1")
    return found


def _check_layers(fields: Fields, decoder: Decoder) -> None:
    """Raises InputError where layers are listed and there are none, or heads are left without a size."""
    if fields.values.get("layer_types") == []:
        raise fields.fault(f"0 entries for {decoder.layers} layers", "layer_types", f"{decoder.layers} entries")
    if any(layers.kind in _WITH_HEADS and layers.head_dim < 1 for layers in decoder.attention):
        what = f"{decoder.hidden} elements for {decoder.heads} heads leave none to each"
        raise fields.fault(what, "hidden_size", f"at least {decoder.heads}")


def _mtp_layers(fields: Fields, language: str) -> int:
    """Speculative layers beside the others; Qwen3-Next and later hold one whether the config says so or not."""
    names = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
    return fields.integer(*names, default=1 if language in DELTA else 0, least=0)


def architecture_of(config: Mapping[str, Any], fields: Fields) -> str:
    """The model class a config names. Raises NotModelledError with the keys seen where it is not known."""
    named = config.get("architectures") or fields.values.get("architectures")
    names = [str(name) for name in named] if isinstance(named, list) else []
    for name in names:
        if name in READERS or name in COMPOSITES:
            return name
    what = f"architecture {', '.join(names) or 'not named'} is not modelled"
    seen = ", ".join(sorted(str(key) for key in fields.values)[:_KEYS_SHOWN])
    near = nearest(names[0], (*READERS, *COMPOSITES)) if names else []
    raise NotModelledError(
        Fault(
            f"{what}; keys seen: {seen}",
            file=fields.where,
            key="architectures",
            expected="a model class that is modelled",
            suggestion=near[0] if near else None,
        )
    )


def is_known_language(name: str) -> bool:
    """Whether a class is a language model that can be read."""
    return name in READERS


def known_architectures() -> tuple[str, ...]:
    """Every model class that can be read, sorted."""
    return tuple(sorted((*READERS, *COMPOSITES)))
