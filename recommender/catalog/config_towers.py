"""Vision towers by family, and the composite classes that have them.

Read from vLLM 0.33.0 model_executor/models/{qwen3_vl,qwen2_5_vl,siglip,gemma3_mm,gemma4_mm,mllama4,kimi_k25_vit,
pixtral,mistral3,llava_next}.py. Towers are split like the language model where their heads allow, else whole on every
rank. Published quantised checkpoints leave them in 16 bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from recommender.catalog.config_fields import Fields
from recommender.catalog.config_vision import Encoder, Tower, blocks, matrix, vectors
from recommender.catalog.models import Tensor
from recommender.errors import Fault, NotModelledError

_ROTARY_POSITIONS = 8192  # qwen3_vl.py and qwen2_5_vl.py: the grid positions of their rotary table


def qwen3_vl(vision: Fields, text_hidden: int, config: Fields) -> Tower:
    """Qwen3-VL, Qwen3.5: a tower with a patch merger, and one more merger for each deep-stack level."""
    hidden, depth, heads = vision.integer("hidden_size"), vision.integer("depth"), vision.integer("num_heads")
    patch, channels = vision.integer("patch_size", default=16), vision.integer("in_channels", default=3)
    seconds, merge = vision.integer("temporal_patch_size", default=2), vision.integer("spatial_merge_size", default=2)
    out, places = vision.integer("out_hidden_size"), vision.integer("num_position_embeddings", default=2304)
    merged = hidden * merge**2
    at = Encoder(hidden, vision.integer("intermediate_size"), depth, heads, hidden)
    tensors = [
        *matrix("patch_embed", hidden, channels * seconds * patch**2, bias=True),
        *matrix("pos_embed", places, hidden),
        *blocks(at),
        vectors("merger.norm", hidden, 2),
        *_merger(merged, out, heads, 1),
    ]
    levels = _deepstack(vision, config)
    if levels:
        tensors += [vectors("deepstack.norm", merged, 2 * levels), *_merger(merged, out, heads, levels)]
    return Tower(tuple(tensors), _ROTARY_POSITIONS * (hidden // heads // 2) * 2)


def _deepstack(vision: Fields, config: Fields) -> int:
    """How many levels feed the language model's first layers: three by default in Qwen3-VL, none in Qwen3.5."""
    found = vision.raw("deepstack_visual_indexes")
    if found is not None:
        return len(vision.sequence("deepstack_visual_indexes"))
    return 3 if config.text("model_type").startswith("qwen3_vl") else 0


def _merger(merged: int, out: int, heads: int, count: int) -> Iterator[Tensor]:
    yield from matrix("merger.fc1", merged, merged, split="outputs", heads=heads, count=count, bias=True)
    yield from matrix("merger.fc2", out, merged, split="inputs", heads=heads, count=count, bias=True)


def qwen2_5_vl(vision: Fields, text_hidden: int, config: Fields) -> Tower:
    """Qwen2.5-VL: RMS norms, gated MLPs, a merger."""
    hidden, heads = vision.integer("hidden_size"), vision.integer("num_heads")
    patch, channels = vision.integer("patch_size", default=14), vision.integer("in_channels", "in_chans", default=3)
    seconds, merge = vision.integer("temporal_patch_size", default=2), vision.integer("spatial_merge_size", default=2)
    merged = hidden * merge**2
    at = Encoder(
        hidden, vision.integer("intermediate_size"), vision.integer("depth"), heads, hidden, norm_vectors=1, gated=True
    )
    tensors = [
        *matrix("patch_embed", hidden, channels * seconds * patch**2),
        *blocks(at),
        vectors("merger.ln_q", hidden),
        *_merger(merged, vision.integer("out_hidden_size", default=text_hidden), heads, 1),
    ]
    return Tower(tuple(tensors), _ROTARY_POSITIONS * (hidden // heads // 2) * 2)


def siglip(vision: Fields, text_hidden: int, config: Fields) -> Tower:
    """Gemma 3: SigLIP, a norm and one projection; positions are numbered in a buffer of int64."""
    hidden, heads = vision.integer("hidden_size"), vision.integer("num_attention_heads")
    patch = vision.integer("patch_size")
    places = (vision.integer("image_size") // patch) ** 2
    at = Encoder(hidden, vision.integer("intermediate_size"), vision.integer("num_hidden_layers"), heads, hidden)
    tensors = [
        *matrix("patch_embedding", hidden, 3 * patch**2, bias=True),
        *matrix("position_embedding", places, hidden),
        *blocks(at),
        vectors("post_layernorm", hidden, 2),
        *matrix("projection", text_hidden, hidden),
        vectors("soft_emb_norm", hidden),
    ]
    return Tower(tuple(tensors), 8 * places)


def gemma4(vision: Fields, text_hidden: int, config: Fields) -> Tower:
    """Gemma 4: run through transformers, whole on every rank."""
    hidden, heads = vision.integer("hidden_size"), vision.integer("num_attention_heads")
    layers, patch = vision.integer("num_hidden_layers"), vision.integer("patch_size")
    head_dim = vision.integer("head_dim", default=hidden // heads)
    places = vision.integer("position_embedding_size", default=10240)
    at = Encoder(
        hidden=hidden,
        intermediate=vision.integer("intermediate_size"),
        layers=layers,
        heads=0,
        attention_width=heads * head_dim,
        attention_bias=False,
        mlp_bias=False,
        gated=True,
        split=False,
    )
    tensors = [
        *matrix("patch_embed", hidden, 3 * patch**2),
        *matrix("position_embedding_table", places, hidden, count=2),
        *blocks(at),  # four RMS norms a block are as many vectors as two layer norms
        vectors("qk_norms", head_dim, 2 * layers),
        *matrix("projection", text_hidden, hidden),
    ]
    # standardisation (scale and bias) and two copies of the inverse frequencies of two axes
    return Tower(tuple(tensors), 2 * 2 * hidden + 2 * 4 * (head_dim // 4))


def llama4(vision: Fields, text_hidden: int, config: Fields) -> Tower:
    """Llama 4: unfolded patches, a pixel-shuffle MLP and a projector."""
    hidden, heads = vision.integer("hidden_size"), vision.integer("num_attention_heads")
    patch = vision.integer("patch_size")
    places = (vision.integer("image_size") // patch) ** 2 + 1
    middle, out = vision.integer("projector_input_dim"), vision.integer("projector_output_dim")
    wide = vision.integer("intermediate_size")
    at = Encoder(hidden, wide, vision.integer("num_hidden_layers"), heads, hidden)
    tensors = [
        *matrix("patch_embedding", hidden, 3 * patch**2, split="outputs"),
        vectors("class_embedding", hidden),
        *matrix("positional_embedding", places, hidden),
        vectors("layernorm_pre_post", hidden, 4),
        *blocks(at),
        *matrix("adapter.fc1", middle, wide, split="outputs"),
        *matrix("adapter.fc2", out, middle, split="inputs"),
        *matrix("projector", text_hidden, vision.integer("vision_output_dim", default=out), split="outputs"),
    ]
    return Tower(tuple(tensors), 8 * places * (hidden // heads // 2))


def kimi_k25(vision: Fields, text_hidden: int, config: Fields) -> Tower:
    """Kimi K2.5: MoonViT with the class defaults where the config is silent, a merger whole on every rank."""
    return _moonvit(vision, text_hidden, hidden=1152, intermediate=4304, heads=16, third=False)


def kimi_k3(vision: Fields, text_hidden: int, config: Fields) -> Tower:
    """Kimi K3: MoonViT without biases, wider attention."""
    return _moonvit(vision, text_hidden, hidden=1024, intermediate=4096, heads=12, third=True)


def _moonvit(vision: Fields, text_hidden: int, *, hidden: int, intermediate: int, heads: int, third: bool) -> Tower:
    hidden = vision.integer("vt_hidden_size", default=hidden)
    heads, patch = vision.integer("vt_num_attention_heads", default=heads), vision.integer("patch_size", default=14)
    high, wide = (vision.integer(f"init_pos_emb_{side}", default=64) for side in ("height", "width"))
    merged = hidden * 4
    at = Encoder(
        hidden=hidden,
        intermediate=vision.integer("vt_intermediate_size", default=intermediate),
        layers=vision.integer("vt_num_hidden_layers", default=27),
        heads=heads,
        attention_width=vision.integer("qkv_hidden_size", default=1536 if third else hidden),
        norm_vectors=1 if third else 2,
        attention_bias=not third,
        mlp_bias=not third,
    )
    tensors = [
        *matrix("patch_embed", hidden, 3 * patch**2, bias=not third),
        *matrix("pos_emb", high * wide, hidden),
        *blocks(at),
        vectors("final_layernorm", hidden, 1 if third else 2),
        *matrix("mm_projector.linear_1", merged, merged, bias=not third),
        *matrix("mm_projector.linear_2", text_hidden, merged, bias=not third),
        vectors("mm_projector.norm", text_hidden if third else hidden, 1 if third else 2),
    ]
    times = vision.integer("init_pos_emb_time", default=4)
    return Tower(tuple(tensors), (4 if third else 2) * hidden * times)  # K3 keeps them in float32


def llava(vision: Fields, text_hidden: int, config: Fields) -> Tower:
    """LLaVA-NeXT with SigLIP: the blocks up to the last layer used, no norm behind them, a two-layer projector."""
    if "siglip" not in vision.text("model_type"):
        raise NotModelledError(
            Fault(f"the tower {vision.text('model_type')!r}", file=config.where, key="vision_config.model_type")
        )
    hidden, heads = vision.integer("hidden_size"), vision.integer("num_attention_heads")
    used = _feature_layers(config, vision.integer("num_hidden_layers"))
    patch = vision.integer("patch_size")
    places = (vision.integer("image_size") // patch) ** 2
    bias = config.flag("multimodal_projector_bias", default=True)
    wide = hidden * len(used)
    tensors = [
        *matrix("patch_embedding", hidden, 3 * patch**2, bias=True),
        *matrix("position_embedding", places, hidden),
        *blocks(Encoder(hidden, vision.integer("intermediate_size"), max(used), heads, hidden)),
        vectors("image_newline", text_hidden),
        *matrix("projector.linear_1", text_hidden, wide, split="outputs", bias=bias),
        *matrix("projector.linear_2", text_hidden, text_hidden, split="inputs", bias=bias),
    ]
    return Tower(tuple(tensors), 8 * places)


def _feature_layers(config: Fields, layers: int) -> list[int]:
    """The layers whose outputs the projector takes, counted from 1; -1 is the last."""
    found = config.raw("vision_feature_layer")
    listed = found[1] if found and isinstance(found[1], list) else [found[1] if found else -2]
    if not listed or any(isinstance(index, bool) or not isinstance(index, int) for index in listed):
        raise config.fault(f"{listed!r} is not usable", "vision_feature_layer", "a layer or a list of layers")
    used = [index if index >= 0 else layers + index + 1 for index in listed]
    if not all(0 < index <= layers for index in used):
        raise config.fault(f"{listed!r} is not usable", "vision_feature_layer", f"layers of {layers}")
    return used


def pixtral(vision: Fields, text_hidden: int, config: Fields) -> Tower:
    """Mistral Small 3.1 and later: Pixtral, a patch merger and a two-layer projector."""
    hidden, heads = vision.integer("hidden_size"), vision.integer("num_attention_heads")
    patch, merge = vision.integer("patch_size"), config.integer("spatial_merge_size", default=2)
    bias = config.flag("multimodal_projector_bias")
    at = Encoder(
        hidden=hidden,
        intermediate=vision.integer("intermediate_size"),
        layers=vision.integer("num_hidden_layers"),
        heads=heads,
        attention_width=heads * vision.integer("head_dim", default=hidden // heads),
        norm_vectors=1,
        attention_bias=False,
        mlp_bias=False,
        gated=True,
    )
    tensors = [
        *matrix("patch_conv", hidden, vision.integer("num_channels", default=3) * patch**2),
        vectors("ln_pre", hidden),
        *blocks(at),
        vectors("projector.norm", hidden),
        *matrix("patch_merger", hidden, hidden * merge**2),
        *matrix("projector.linear_1", text_hidden, hidden, split="outputs", bias=bias),
        *matrix("projector.linear_2", text_hidden, text_hidden, split="inputs", bias=bias),
    ]
    return Tower(tuple(tensors))


TowerReader = Callable[[Fields, int, Fields], Tower]

# Composite class -> (class of its language model, reader of its tower).
COMPOSITES: dict[str, tuple[str, TowerReader]] = {
    "Qwen3VLForConditionalGeneration": ("Qwen3ForCausalLM", qwen3_vl),
    "Qwen3VLMoeForConditionalGeneration": ("Qwen3MoeForCausalLM", qwen3_vl),
    "Qwen3_5ForConditionalGeneration": ("Qwen3_5ForCausalLM", qwen3_vl),
    "Qwen3_5MoeForConditionalGeneration": ("Qwen3_5MoeForCausalLM", qwen3_vl),
    "Qwen2_5_VLForConditionalGeneration": ("Qwen2ForCausalLM", qwen2_5_vl),
    "Gemma3ForConditionalGeneration": ("Gemma3ForCausalLM", siglip),
    "Gemma4ForConditionalGeneration": ("Gemma4ForCausalLM", gemma4),
    "Llama4ForConditionalGeneration": ("Llama4ForCausalLM", llama4),
    "KimiK25ForConditionalGeneration": ("DeepseekV3ForCausalLM", kimi_k25),
    "KimiK3ForConditionalGeneration": ("KimiLinearForCausalLM", kimi_k3),
    "Mistral3ForConditionalGeneration": ("MistralForCausalLM", pixtral),
    "LlavaNextForConditionalGeneration": ("", llava),  # the language model's class is that of its own config
}
_LANGUAGES = {"granite": "GraniteForCausalLM", "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM"}


def language_of(architecture: str, config: Mapping[str, Any], where: str) -> str:
    """The class of the language model of a composite class. Raises NotModelledError where its config names none."""
    fixed = COMPOSITES[architecture][0]
    if fixed:
        return fixed
    inner = Fields(config, where).inner("text_config")
    named = [str(name) for name in inner.sequence("architectures")]
    language = named[0] if named else _LANGUAGES.get(inner.text("model_type"), "")
    if language not in _LANGUAGES.values():
        said = f"a language model {language or inner.text('model_type')!r} in {architecture}"
        raise NotModelledError(Fault(said, file=where, key="text_config.architectures"))
    return language


def tower(architecture: str, config: Fields, text_hidden: int) -> Tower:
    """The vision tower of a composite class. Raises InputError where the config does not describe it."""
    vision = config.inner("vision_config")
    if not vision.values:
        language = COMPOSITES[architecture][0]
        alone = f", or architectures: [{language}] for the language model alone" if language else ""
        raise config.fault(f"{architecture} without its tower", "vision_config", f"an object{alone}")
    return COMPOSITES[architecture][1](vision, text_hidden, config)
