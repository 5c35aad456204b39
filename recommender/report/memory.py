"""What one GPU of a replica holds, in GB and GiB, and what the replica can serve."""

from __future__ import annotations

from recommender.memory.fit import Fit
from recommender.report.grid import grid, page, paragraph
from recommender.units import GB, GIB

LIMIT_NAMES = {
    "sglang": ("context-length", "max-running-requests", "chunked-prefill-size"),
    "tensorrt-llm": ("max_seq_len", "max_batch_size", "max_num_tokens"),
}
"""What each engine calls its three limits."""


def breakdown(fit: Fit) -> list[str]:
    """The bytes of one GPU line by line."""
    head = ("per GPU", "GB", "GiB", "bytes")
    return grid(head, [(what, f"{n / GB:.2f}", f"{n / GIB:.2f}", f"{n:,}") for what, n in _rows(fit)])


def _rows(fit: Fit) -> list[tuple[str, int]]:
    if fit.memory_model not in ("vllm", "article"):
        return _pool_rows(fit)
    return [
        ("memory as " + ("marketed" if fit.memory_model == "article" else "the driver reports it"), fit.memory_bytes),
        (f"usable at utilization {fit.gpu_memory_utilization:g}", fit.usable_bytes),
        ("weights", fit.weights_bytes),
        ("reserve", fit.reserve_bytes),
        ("  activations", fit.activation_bytes),
        ("  outside PyTorch", fit.non_torch_bytes),
        ("  CUDA graphs", fit.cuda_graph_bytes),
        *_workspace(fit),
        ("KV cache", fit.kv_cache_bytes),
    ]


def _pool_rows(fit: Fit) -> list[tuple[str, int]]:
    """The same for an engine that takes a share of what is free: what the share leaves is a line of its own."""
    left, share = fit.memory_bytes - fit.usable_bytes, f"{fit.gpu_memory_utilization:g}"
    rows = [("memory as the driver reports it", fit.memory_bytes)]
    if fit.activation_bytes:
        rows += [("weights", fit.weights_bytes), ("activations", fit.activation_bytes)]
        rows += [("outside PyTorch, CUDA graphs", fit.non_torch_bytes)]
        return [*rows, (f"KV cache, {share} of the rest", fit.kv_cache_bytes), ("left free", left)]
    rows += [("gone before loading (context, NCCL)", fit.non_torch_bytes)]
    rows += [("left for activations and CUDA graphs", left)]
    return [*rows, ("weights", fit.weights_bytes), (f"KV cache, the rest of a share of {share}", fit.kv_cache_bytes)]


def _workspace(fit: Fit) -> list[tuple[str, int]]:
    """What an attention backend keeps for itself, where one has to be asked for."""
    rest = fit.reserve_bytes - fit.activation_bytes - fit.non_torch_bytes - fit.cuda_graph_bytes
    return [("  attention workspace", rest)] if rest and fit.memory_model == "vllm" else []


def holds(fit: Fit) -> str:
    """What the KV cache of one replica holds, in tokens and requests."""
    per_token = f"{fit.kv_bytes_per_token:,} bytes a token per GPU"
    requests = f"{fit.max_concurrency:,.2f} requests of {fit.max_model_len:,} tokens"
    whose = "one replica" if fit.dp == 1 else f"each of its {fit.dp} data-parallel engines"
    return f"KV cache of {whose}: {fit.kv_cache_tokens:,} tokens ({per_token}), {requests}."


def fit_page(fit: Fit) -> str:
    """The whole answer of `fit`."""
    gpus = fit.tp * fit.pp * fit.dp
    checkpoint = f" ({fit.checkpoint})" if fit.checkpoint and fit.checkpoint != fit.model else ""
    what = f"{fit.model}, {fit.weights} weights{checkpoint}, {fit.kv_dtype} KV cache, on {gpus} x {fit.gpu}"
    length, seqs, tokens = LIMIT_NAMES.get(fit.engine, ("max-model-len", "max-num-seqs", "max-num-batched-tokens"))
    how = (
        f"{length} {fit.max_model_len:,}, {seqs} {fit.max_num_seqs:,}, "
        f"{tokens} {fit.max_num_batched_tokens:,}; {fit.engine} {fit.engine_version}, {fit.memory_model} memory model"
    )
    head = [*paragraph(what), *paragraph(how)]
    if fit.weights_bytes == 0:  # it cannot be split over these GPUs: there is nothing to show
        return page([head, _verdict(fit)])
    return page([head, breakdown(fit), _verdict(fit), _notes(fit), _sources(fit)])


def _verdict(fit: Fit) -> list[str]:
    if fit.starts:
        sure = "It starts, by a margin that may be missing (borderline)." if fit.borderline else "It starts."
        return [*paragraph(sure), *paragraph(holds(fit)), *_interval(fit), *paragraph(_whole(fit))]
    longest = fit.estimated_max_model_len
    hint = f" Estimated maximum length: {longest:,}." if longest else ""
    return paragraph(f"It does not start: {(fit.refusal or 'no reason is known').rstrip('.')}.{hint}")


def _interval(fit: Fit) -> list[str]:
    """How far the KV memory may be off."""
    if fit.kv_cache_bytes_interval is None or len(set(fit.kv_cache_bytes_interval)) == 1:
        return []
    low, high = (f"{count / GIB:.2f}" for count in fit.kv_cache_bytes_interval)
    return paragraph(f"KV memory per GPU is expected between {low} and {high} GiB (80 %).")


def _whole(fit: Fit) -> str:
    """All GPUs of the replica together, in GB."""
    weights, kv = (f"{count / GB:,.1f} GB" for count in (fit.total.weights_bytes, fit.total.kv_cache_bytes))
    return f"All its GPUs together: weights {weights}, KV cache {kv}, {fit.total.kv_bytes_per_token:,} bytes a token."


def _notes(fit: Fit) -> list[str]:
    notes = [f"extrapolated: {reason}" for reason in fit.extrapolated]
    notes += [f"warning: {warning}" for warning in fit.warnings]
    notes += [f"launch with {' '.join(fit.launch_arguments)}"] if fit.launch_arguments else []
    return [line for note in notes for line in paragraph(note, "- ")]


def _sources(fit: Fit) -> list[str]:
    lines = [line for part, source in sorted(fit.sources.items()) for line in paragraph(f"{part}: {source}", "- ")]
    return ["Sources:", *lines] if lines else []
