"""The command lines of SGLang and TensorRT-LLM, with their own names for the same limits."""

from __future__ import annotations

from recommender.catalog.models import Model
from recommender.memory.fit import Fit
from recommender.memory.weights import WeightChoice

OPTIONS_FILE = "options.yml"
SGLANG_KEPT_TOKENS = 6
"""Of its context length SGLang keeps so many back from a prompt (0.5.9 managers/tp_worker.py: one, then five)."""


def sglang_words(model: Model, served: str, choice: WeightChoice, fit: Fit, enforce_eager: bool) -> list[str]:
    """`python -m sglang.launch_server` with every limit that was planned (SGLang 0.5.23 server_args.py)."""
    length = min(fit.max_model_len + SGLANG_KEPT_TOKENS, max(model.max_model_len, fit.max_model_len))
    words = ["python", "-m", "sglang.launch_server", "--model-path", served, "--tp-size", str(fit.tp)]
    words += ["--context-length", str(length), "--max-running-requests", str(fit.max_num_seqs)]
    words += ["--chunked-prefill-size", str(fit.max_num_batched_tokens)]
    words += ["--mem-fraction-static", f"{fit.gpu_memory_utilization:g}"]
    words += ["--dtype", "half"] if choice.weights == "fp16" else []
    words += ["--quantization", choice.weights] if choice.how == "online" else []
    words += ["--kv-cache-dtype", "fp8_e4m3"] if fit.kv_dtype == "fp8" else []
    return words + (["--disable-cuda-graph"] if enforce_eager else [])


def trtllm_words(served: str, fit: Fit, enforce_eager: bool) -> tuple[list[str], str]:
    """(`trtllm-serve` with every limit that was planned, what its options file holds; commands/serve.py)."""
    words = ["trtllm-serve", served, "--tp_size", str(fit.tp), "--max_batch_size", str(fit.max_num_seqs)]
    words += ["--max_num_tokens", str(fit.max_num_batched_tokens), "--max_seq_len", str(fit.max_model_len)]
    words += ["--kv_cache_free_gpu_memory_fraction", f"{fit.gpu_memory_utilization:g}"]
    options = []
    if fit.max_model_len > fit.max_num_batched_tokens:  # else a longer prompt is refused
        options.append("enable_chunked_prefill: true")
    if fit.kv_dtype == "fp8":
        share = f"free_gpu_memory_fraction: {fit.gpu_memory_utilization:g}"
        options.append(f"kv_cache_config: {{dtype: fp8, {share}}}")
    if enforce_eager:
        options.append("cuda_graph_config: null")
    if not options:
        return words, ""
    return [*words, "--extra_llm_api_options", OPTIONS_FILE], f"{OPTIONS_FILE} holds {{{', '.join(options)}}}"
