from __future__ import annotations

import pytest

from recommender.catalog.safetensors import StoredTensor
from recommender.catalog.tensor_names import engine_bytes, group_of, layer_of, left_out_because, loaded_bytes

# Names as published checkpoints of Llama, DeepSeek, Mixtral, gpt-oss, Granite, Nemotron-H, Qwen, Gemma, GPT-2, Falcon,
# NeoX, InternLM, GLM, Llama 4 and Mistral's own format write them.
NAMES = {
    "embedding": [
        "model.embed_tokens.weight",
        "model.language_model.embed_tokens.weight",
        "backbone.embeddings.weight",
        "transformer.wte.weight",
        "transformer.wpe.weight",
        "wte.weight",
        "transformer.word_embeddings.weight",
        "transformer.embedding.word_embeddings.weight",
        "gpt_neox.embed_in.weight",
        "model.tok_embeddings.weight",
        "tok_embeddings.weight",
    ],
    "lm_head": [
        "lm_head.weight",
        "language_model.lm_head.weight",
        "transformer.output_layer.weight",
        "embed_out.weight",
        "output.weight",
    ],
    "attention": [
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.q_proj.qweight",
        "model.layers.0.self_attn.rotary_emb.inv_freq",
        "model.layers.3.self_attn.sinks",
        "backbone.layers.0.mixer.q_proj.weight",
        "backbone.layers.0.mixer.o_proj.weight",
        "transformer.h.0.attn.c_attn.weight",
        "transformer.h.0.attn.c_proj.weight",
        "transformer.h.0.self_attention.query_key_value.weight",
        "gpt_neox.layers.0.attention.dense.weight",
        "model.layers.0.attention.wqkv.weight",
        "layers.0.attention.wq.weight",
        "model.layers.0.self_attn.k_scale",
        "model.layers.0.self_attn.g_proj.weight",
    ],
    "norm": [
        "model.layers.0.self_attn.q_norm.weight",
        "model.layers.0.self_attn.kv_a_layernorm.weight",
        "model.layers.0.input_layernorm.weight",
        "model.norm.weight",
        "model.layers.3.linear_attn.norm.weight",
        "backbone.layers.0.mixer.norm.weight",
        "backbone.layers.0.norm.weight",
        "backbone.norm_f.weight",
        "transformer.h.0.ln_1.weight",
        "transformer.ln_f.weight",
        "h.0.ln_2.bias",
        "gpt_neox.layers.0.post_attention_layernorm.weight",
        "model.layers.0.attention_norm.weight",
        "layers.0.ffn_norm.weight",
        "model.layers.0.pre_feedforward_layernorm.weight",
        "model.layers.0.post_feedforward_layernorm_1.weight",
    ],
    "indexer": [
        "model.layers.0.self_attn.indexer.wq_b.weight",
        "model.layers.0.self_attn.indexer.k_norm.weight",
    ],
    "router": [
        "model.layers.3.mlp.gate.weight",
        "model.layers.3.mlp.gate.e_score_correction_bias",
        "model.layers.3.mlp.router.weight",
        "model.layers.3.mlp.router.bias",
        "model.layers.3.mlp.shared_expert_gate.weight",
        "model.layers.3.block_sparse_moe.gate.weight",
        "model.layers.3.block_sparse_moe.router.layer.weight",
        "backbone.layers.0.mixer.gate.weight",
        "backbone.layers.0.mixer.gate.e_score_correction_bias",
        "language_model.model.layers.0.feed_forward.router.weight",
        "model.layers.0.router.per_expert_scale",
        "model.layers.0.router.scale",
        "model.layers.0.moe.gate.weight",
    ],
    "mlp": [
        "model.layers.3.mlp.gate_proj.weight",
        "model.layers.3.mlp.gate_up_proj.weight",
        "backbone.layers.0.mixer.up_proj.weight",
        "transformer.h.0.mlp.c_fc.weight",
        "transformer.h.0.mlp.c_proj.weight",
        "transformer.h.0.mlp.dense_h_to_4h.weight",
        "transformer.encoder.layers.0.mlp.dense_4h_to_h.weight",
        "gpt_neox.layers.0.mlp.dense_h_to_4h.weight",
        "model.layers.0.feed_forward.w1.weight",
        "layers.0.feed_forward.w1.weight",
    ],
    "experts": [
        "model.layers.3.mlp.experts.7.gate_proj.weight",
        "model.layers.3.mlp.experts.7.gate_proj.weight_scale_inv",
        "model.layers.3.mlp.experts.gate_up_proj_blocks",
        "model.layers.3.mlp.experts.gate_up_proj_bias",
        "model.layers.3.block_sparse_moe.experts.0.w1.weight",
        "model.layers.3.block_sparse_moe.input_linear.weight",
        "backbone.layers.0.mixer.experts.0.up_proj.weight",
        "language_model.model.layers.0.feed_forward.experts.gate_up_proj",
        "model.layers.0.moe.experts.0.w1.weight",
    ],
    "shared_experts": [
        "model.layers.3.mlp.shared_experts.gate_proj.weight",
        "model.layers.3.mlp.shared_expert.down_proj.weight_scale",
        "model.layers.3.shared_mlp.input_linear.weight",
        "backbone.layers.0.mixer.shared_experts.up_proj.weight",
        "language_model.model.layers.0.feed_forward.shared_expert.up_proj.weight",
    ],
    "mixer": [
        "model.layers.3.mamba.in_proj.weight",
        "model.layers.3.linear_attn.in_proj_qkvz.weight",
        "model.layers.3.linear_attn.A_log",
        "backbone.layers.0.mixer.in_proj.weight",
        "backbone.layers.0.mixer.A_log",
        "backbone.layers.0.mixer.D",
        "backbone.layers.0.mixer.dt_bias",
    ],
    "vision": [
        "model.visual.blocks.0.attn.qkv.weight",
        "visual.merger.mlp.0.weight",
        "vision_tower.transformer.layers.0.attention.q_proj.weight",
        "vision_tower.vision_model.encoder.layers.0.self_attn.q_proj.weight",
        "model.vision_tower.encoder.layers.0.mlp.fc1.weight",
        "multi_modal_projector.linear_1.weight",
        "model.multi_modal_projector.mm_input_projection_weight",
        "vision_model.model.layers.0.mlp.fc1.weight",
        "mlp1.0.weight",
    ],
    "other": [
        "model.layers.0.layer_scalar",
        "model.layers.0.per_layer_input_gate.weight",
    ],
}


@pytest.mark.parametrize(("group", "name"), [(group, name) for group, names in NAMES.items() for name in names])
def test_names_tell_the_group(group: str, name: str) -> None:
    assert group_of(name) == group


@pytest.mark.parametrize(
    ("name", "shape", "why"),
    [
        ("model.layers.60.mlp.gate.weight", (8, 8), None),
        ("model.layers.61.eh_proj.weight", (8, 8), "MTP"),
        ("model.layers.61.shared_head.head.weight", (8, 8), "MTP"),
        ("mtp.layers.0.self_attn.q_proj.weight", (8, 8), "MTP"),
        ("model.mtp_layers.0.mlp.up_proj.weight", (8, 8), "MTP"),
        ("model.visual.blocks.61.attn.qkv.weight", (8, 8), None),
        ("talker.model.layers.0.mlp.up_proj.weight", (8, 8), "speech"),
        ("lm_head.weight", (8, 8), "a copy of the tied output matrix"),
        ("h.0.attn.bias", (1, 1, 8, 8), "buffers"),
        ("h.0.attn.c_attn.bias", (8,), None),
        ("model.layers.0.self_attn.rotary_emb.inv_freq", (8,), "buffers"),
        ("model.layers.0.mlp.up_proj.g_idx", (8,), "buffers"),
    ],
)
def test_what_a_plain_start_does_not_load(name: str, shape: tuple[int, ...], why: str | None) -> None:
    found = left_out_because(StoredTensor(name, "BF16", shape, 128), layers=61, tied=True)
    assert found == why if why is None else found is not None and found.startswith(why)


def test_an_untied_output_matrix_is_loaded() -> None:
    assert left_out_because(StoredTensor("lm_head.weight", "BF16", (8, 8), 128), layers=1, tied=False) is None


def test_layers_are_told_from_experts() -> None:
    assert layer_of("model.layers.3.mlp.experts.7.up_proj.weight") == 3
    assert layer_of("model.embed_tokens.weight") is None


@pytest.mark.parametrize(
    ("tensor", "size"),
    [
        (StoredTensor("a.weight", "BF16", (4, 4), 32), 32),
        (StoredTensor("a.weight", "F32", (4, 4), 64), 32),  # served in 16 bit
        (StoredTensor("a.weight", "F8_E4M3", (4, 4), 16), 16),
        (StoredTensor("a.weight_scale_inv", "F32", (1, 1), 4), 4),
        (StoredTensor("a.qweight", "I32", (4, 4), 64), 64),
        (StoredTensor("a.scales", "F16", (1, 4), 8), 8),
    ],
)
def test_bytes_after_loading(tensor: StoredTensor, size: int) -> None:
    assert engine_bytes(tensor) == size


def test_groups_are_summed_and_the_rest_is_named() -> None:
    tensors = [
        StoredTensor("model.layers.0.mlp.up_proj.weight", "F8_E4M3", (4, 4), 16),
        StoredTensor("model.layers.0.mlp.up_proj.weight_scale", "F32", (4, 1), 16),
        StoredTensor("model.norm.weight", "BF16", (4,), 8),
        StoredTensor("mtp.fc.weight", "BF16", (4, 4), 32),
    ]
    found = loaded_bytes(tensors, layers=1, tied=False)
    assert found.groups == (("mlp", 32), ("norm", 8))
    assert found.packed == (("F32", 16), ("F8_E4M3", 16))
    assert found.left_out == (("MTP or draft layers (speculative decoding only)", 32),)
    assert found.stored_bytes == 72
