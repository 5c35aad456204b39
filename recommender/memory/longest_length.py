"""The longest request that an engine at one version lets a model take."""

from __future__ import annotations

from recommender.catalog.models import Model
from recommender.memory.engine_rows import parse_version


def longest_length(model: Model, engine: str, engine_version: str) -> int:
    """Tokens of prompt and output together. vLLM read scaled rotary lengths differently once; the other engines read
    them as the config has them (SGLang 0.5.23 utils/hf_transformers, get_context_length).
    """
    return model.longest(parse_version(engine_version)) if engine == "vllm" else model.max_model_len
