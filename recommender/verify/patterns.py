"""The lines of a vLLM start-up log that state something, by generation: each pattern's groups name what they hold.

Group names end in their unit: `_gib` and `_bytes` become bytes, `_tokens` and `_count` whole numbers, `_share` and `_x`
decimals.
"""

from __future__ import annotations

import re

_GIB = r"(?P<{}>-?\d{{1,7}}(?:\.\d{{1,9}})?)"
_COUNT = r"(?P<{}>\d[\d,]{{0,29}})"
_SHARE = r"(?P<{}>\d{{1,3}}(?:\.\d{{1,9}})?)"


def _pattern(text: str) -> re.Pattern[str]:
    """A pattern in which `<name>` stands for a group that holds a figure of the name's unit."""

    def group(found: re.Match[str]) -> str:
        name = found[1]
        form = _GIB if name.endswith("_gib") else _COUNT if name.endswith(("_tokens", "_count", "_bytes")) else _SHARE
        return form.format(name)

    return re.compile(re.sub(r"<(\w+)>", group, text))


# Figures of one GPU (rank): whichever process writes the line.
RANK = tuple(
    map(
        _pattern,
        (
            # Weights. Up to 0.8 "GB" is printed for GiB.
            r"Loading model weights took <weights_gib> ?Gi?B",
            r"Model loading took <weights_gib> ?Gi?B",
            # Before anything is loaded (DEBUG, V1).
            r"init memory snapshot: .*?free_memory=<free_gib>GiB, total_memory=<total_gib>GiB",
            r"worker requested memory: <usable_gib>GiB",
            r"Initial free memory: <free_gib> GiB; Requested memory: <utilization_share> \(util\), <usable_gib> GiB",
            r"Initial free memory <free_gib> GiB, reserved <kv_cache_gib> GiB memory for KV Cache",
            # 0.6.0-0.6.4: one line; peak_torch_memory holds the weights too.
            r"total_gpu_memory=<total_gib>GiB initial_memory_usage=<initial_gib>GiB "
            r"peak_torch_memory=<torch_peak_gib>GiB memory_usage_post_profile=\S+ non_torch_memory=<non_torch_gib>GiB "
            r"kv_cache_size=<kv_cache_gib>GiB gpu_memory_utilization=<utilization_share>",
            # V0 from 0.6.5 on: three lines, of which each part is looked for by itself, since they are often wrapped.
            r"total_gpu_memory \(<total_gib>GiB\) x gpu_memory_utilization \(<utilization_share>\) = <usable_gib>GiB",
            r"model weights take\s+<weights_gib>GiB",
            r"non_torch_memory(?: takes)?\s+<non_torch_gib>GiB",
            r"PyTorch activation peak memory(?: takes)?\s+<activation_gib>GiB",
            r"(?:reserved for KV Cache is|available_kv_cache_memory)\s+<kv_cache_gib>GiB",
            # Between 0.6.4 and 0.6.5: one figure a line.
            r"total_gpu_memory\s+<total_gib>GiB",
            r"gpu_memory_utilization\s+<utilization_share>$",
            r"vLLM instance can use\s+<usable_gib>GiB",
            # V1: DEBUG until 0.26 and from 0.27 on (memory by mem_get_info).
            r"Total non KV cache memory: <non_kv_gib> ?GiB; torch peak memory increase: <activation_gib> ?GiB; "
            r"non-torch forward increase memory: <non_torch_gib> ?GiB; weights memory: <weights_gib> ?GiB",
            r"Total non KV cache memory: <non_kv_gib> ?GiB; torch peak memory increase: [\d.]{1,20} ?GiB; "
            r"total consumed \(from mem_get_info\): <consumed_gib> ?GiB; weights memory: <weights_gib> ?GiB",
            r"Available KV cache memory: <kv_cache_gib> GiB",
            # Graphs: before, after, and both once captured.
            r"Estimated CUDA graph memory: <graph_estimate_gib> GiB",
            r"Graph capturing finished in \d+(?:\.\d+)? secs?(?:, took <graph_actual_gib> GiB)?",
            r"CUDA graph pool memory: <graph_actual_gib> GiB \(actual\), <graph_estimate_gib> GiB \(estimated\)",
            r"current --gpu-memory-utilization=<utilization_share> is equivalent to "
            r"--gpu-memory-utilization=<without_graphs_share>",
            # The summary after start-up: weights and non-torch apart until 0.26, together from 0.27 on.
            r"Free memory on device(?: cuda:\d+)? \(<free_gib>/<total_gib> GiB\) on startup\. Desired GPU memory "
            r"utilization is \(<utilization_share>, <usable_gib> GiB\)",
            r"Actual usage is <weights_gib> GiB for weight, <activation_gib> GiB for peak activation, "
            r"<non_torch_gib> GiB for non-torch memory",
            r"Actual usage is <consumed_gib> GiB for consumed memory(?: \([^)]*\))?, <activation_gib> GiB for peak "
            r"activation",
            r"GiB for non-torch memory, and <graph_actual_gib> GiB for CUDAGraph memory",
            r"for peak activation, and <graph_actual_gib> GiB for CUDAGraph memory",
            r"Current kv cache memory in use is <kv_cache_gib> GiB",
            r"Current kv cache memory in use is <kv_cache_bytes> bytes",
            # The card holds too little free memory to begin with.
            r"Free memory on device(?: cuda:\d+)? \(<free_gib>/<total_gib> GiB\) on startup is less than desired GPU "
            r"memory utilization \(<utilization_share>, <usable_gib> GiB\)",
        ),
    )
)

# Figures of one engine (all ranks of a replica).
ENGINE = tuple(
    map(
        _pattern,
        (
            r"# (?!CPU)\w{2,8} blocks: <blocks_count>",
            r"(?:GPU|CUDA|XPU) KV cache size: <pool_tokens> tokens",
            r"Maximum concurrency for <max_model_len_tokens> tokens per request: <concurrency_x>x",
            r"Using max model len <stated_len_tokens>",
            r"Chunked prefill is enabled with max_num_batched_tokens=<batched_tokens>",
            r"num_gpu_blocks_override=<blocks_override_count>",
            r"Setting attention block size to <block_size_tokens> tokens",
            r"Auto-fit max_model_len: reduced from <full_len_tokens> to <stated_len_tokens>",
            r"Auto-fit max_model_len: full model context length <stated_len_tokens> fits",
            # Both refusals, in parts, since they are often pasted with line breaks.
            r"max seq len \(<refused_len_tokens>\)",
            r"\(<needed_gib> GiB KV cache is needed",
            r"larger than the available KV cache memory \(<refused_available_gib> GiB\)",
            r"estimated maximum model length is <estimated_len_tokens>",
            r"can be stored in KV cache \(<refused_pool_tokens>\)",
        ),
    )
)

# What else a line may say: the key is how it is remembered.
SIGNS: dict[str, re.Pattern[str]] = {
    "no_blocks": re.compile(r"No available memory for the cache blocks"),
    "no_request": re.compile(r"max seq len \(\d+\)|GiB KV cache is needed"),
    "no_free_memory": re.compile(r"on startup is less than desired GPU memory utilization"),
    "no_auto_fit": re.compile(r"Cannot auto-fit max_model_len"),
    "out_of_memory": re.compile(r"(?:torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory)"),
    "graphs_not_charged": re.compile(r"CUDA graph memory profiling is disabled|ESTIMATE_CUDAGRAPHS=0\)"),
    "graphs_charged": re.compile(r"CUDA graph memory profiling is enabled"),
    "eager": re.compile(r"Enforce eager set|Cudagraph is disabled under eager mode"),
    "offload": re.compile(r"Total CPU offloaded parameters|cpu_offload|UVA offload"),
    "drafter": re.compile(r"Loading drafter model|Detected EAGLE|Detected MTP"),
    "cast_to_fp16": re.compile(r"Casting torch\.bfloat16 to torch\.float16|Falling back to torch\.float16"),
    "float32": re.compile(r"(?:Casting|Upcasting) torch\.\w+ to torch\.float32"),
    "kv_scales": re.compile(r"Using fp8 data type to store kv cache"),
    "v1_lines": re.compile(r"(?:GPU|CUDA|XPU) KV cache size: |Available KV cache memory: |Total non KV cache memory: "),
    "no_figure": re.compile(r"(?:KV cache size|Available KV cache memory): (?!-?\d|None)\S"),
    "bitsandbytes": re.compile(r"Loading weights with BitsAndBytes quantization"),
}

VERSION = (
    re.compile(
        r"Initializing an? (?:(?P<generation>V[01]) )?LLM engine "
        r"\(v(?P<version>\d{1,3}(?:\.\d{1,4}){1,3}[\w.+-]{0,60}?)\)"
    ),
    re.compile(r"vLLM API server version v?(?P<version>\d{1,3}(?:\.\d{1,4}){1,3}[\w.+-]{0,60})"),
    re.compile(r"[█▄▀▟▙▛▜]\s+version v?(?P<version>\d{1,3}(?:\.\d{1,4}){1,3}[\w.+-]{0,60})"),
)

# Where arguments stand: everything from the end of the match on.
NON_DEFAULT = re.compile(r"non-default args: (?=\{)")
NAMESPACE = re.compile(r"args: Namespace(?=\()")
CONFIG = re.compile(r"Initializing an? (?:V[01] )?LLM engine \(v[^)]{1,80}\) with config: ")
COMMAND = re.compile(r"(?:\bvllm serve|vllm\.entrypoints\.openai\.api_server|vllm\.entrypoints\.api_server)\b(?= )")

# Cards as torch and nvidia-smi name them.
DEVICE = (
    re.compile(r"device_name=([A-Za-z][\w .-]{2,60}?)(?:,|\.json|$|\])"),
    re.compile(r"GPU \d{1,3}: ((?:NVIDIA|Tesla|AMD)[\w .-]{2,60})"),
    re.compile(
        r"Your(?: device)? '?((?:NVIDIA|Tesla|AMD|Quadro)[\w .-]{2,60}?)'?(?: GPU)? \(?(?:with|has) compute capability"
    ),
    re.compile(r"\|\s+\d{1,3}\s+((?:NVIDIA|Tesla|Quadro)[\w .-]{2,40}?)(?:\.\.\.)?\s+(?:On|Off|Persistence)"),
)

# A line without any of these states nothing that is read here: they are looked for before anything else is done. They
# are few, since a log of weeks is searched for each of them, and none of them stands in what a serving engine writes.
WORDS = (
    "emory",
    "model weights t",
    "Model loading took",
    "instance can use",
    "reserved for KV",
    "Total non KV cache",
    "Available KV cache",
    "CUDA graph",
    "Graph capturing",
    "Actual usage is",
    " blocks: ",
    "KV cache size",
    "Maximum concurrency",
    "max model len",
    "max_model_len",
    "batched_tokens",
    "num_gpu_blocks_override",
    "attention block size",
    "max seq len",
    "cache is needed",
    "estimated maximum",
    "stored in KV cache",
    "nforce eager",
    "eager mode",
    "offload",
    "drafter model",
    "Detected EAGLE",
    "Detected MTP",
    "torch.float",
    "to store kv cache",
    "BitsAndBytes",
    "LLM engine (v",
    "server version",
    "  version ",
    "default args",
    "Namespace(",
    "vllm serve",
    "api_server",
    "device_name=",
    "NVIDIA",
    "Tesla",
    "AMD Instinct",
    "Quadro",
    "capability",
)
