"""A multimodal class that nobody has described here, around a language model that is known: towers from file headers.

The language model is read as if it stood alone; everything the headers call vision or audio counts whole on every GPU,
which errs on the side of more memory. What lies beside it serves no request's cache.
"""

from __future__ import annotations

from dataclasses import replace

from recommender.catalog.config import is_known_language, model_from_config
from recommender.catalog.config_fields import Fields, is_nested, language_part
from recommender.catalog.models import Model
from recommender.catalog.repository import Repository
from recommender.catalog.tensor_names import group_of
from recommender.catalog.unmodelled import check_packing, tensors_of

# Classes that composite configs name by their model_type alone (transformers 4.57 auto/modeling_auto.py).
_BY_TYPE = {
    "gemma2": "Gemma2ForCausalLM",
    "granite": "GraniteForCausalLM",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
}


def language_class(repository: Repository) -> str | None:
    """The known class of the language model inside a composite config; None where there is none."""
    if not is_nested(repository.config):
        return None
    fields = Fields(_inner(repository), repository.where)
    named = fields.values.get("architectures")
    names = [str(name) for name in named] if isinstance(named, list) else []
    names += [_BY_TYPE.get(fields.text("model_type"), "")]
    return next((name for name in names if is_known_language(name)), None)


def composite(repository: Repository, language: str) -> Model:
    """The model of a repository whose headers are known. Raises as `model_from_config`, and where towers are packed."""
    towers = [tensor for tensor in repository.tensors or () if group_of(tensor.name) == "vision"]
    check_packing(repository, towers)
    inner = {**_inner(repository), "architectures": [language]}
    alone = model_from_config(inner, id=repository.id, source=repository.source)
    outer = repository.config.get("architectures")
    named = str(outer[0]) if isinstance(outer, list) and outer else language
    return replace(
        alone, architecture=named, multimodal=bool(towers), tensors=alone.tensors + tuple(tensors_of(towers))
    )


def _inner(repository: Repository) -> dict[str, object]:
    """The language part without what only the whole has: the class, and towers."""
    outer = repository.config.get("architectures")
    part = language_part(repository.config)
    return {key: value for key, value in part.items() if key != "architectures" or value != outer}
