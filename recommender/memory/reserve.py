"""What a replica takes besides weights and KV cache: activation peak, buffers, non-torch memory and CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Model
from recommender.memory.engine import EngineConstants
from recommender.memory.images import image_terms, largest_image

H100_MULTIPROCESSORS = 132
"""Assumed where a card's own number is unknown; such a replica is labelled extrapolated."""
SCRATCH_FROM_SEQS = 8
"""The Triton top-k/top-p kernel serves batches of at least this many rows (vLLM 0.17 v1/sample)."""
GRAPH_SIZES = 51
"""Batch sizes captured at the defaults; the graph estimate is stated for that many."""


@dataclass(frozen=True, slots=True)
class ReserveTerms:
    """The reserve of one GPU as integer coefficients of S (max_num_seqs) and T (max_num_batched_tokens).

    Everything that does not depend on S and T is worked out once per (model, card, parallelism, weights), so that the
    scalar `Reserve` and the search's arrays evaluate the same few terms.
    """

    forward_bytes_per_token: int
    forward_extra_bytes: int
    sampler_bytes_per_seq: int
    sampler_bytes_per_token: int
    scratch_bytes: int
    peak_extra_bytes: int
    persistent_bytes_per_seq: int
    non_torch_bytes: int
    graph_fixed_bytes: int
    graph_bytes: int  # at GRAPH_SIZES sizes, without the fixed part
    capture_maximum: int  # 0: no graphs are captured or charged
    image_tokens: int = 0  # of the largest image; 0: none, or none known
    image_kept_bytes: int = 0  # of each image, beside the language model
    image_encoder_bytes: int = 0  # of each image, while it is encoded
    prompt_tokens: int = 0  # the least the forward pass is run on (V0)

    def at(self, seqs: int, batched_tokens: int) -> Reserve:
        """The reserve of a replica started with these limits."""
        rows = min(seqs, batched_tokens)
        scratch = self.scratch_bytes if rows >= SCRATCH_FROM_SEQS else 0
        images = max(1, batched_tokens // self.image_tokens) if self.image_tokens else 0
        forward = max(batched_tokens, self.prompt_tokens) * self.forward_bytes_per_token + self.forward_extra_bytes
        sampler = rows * self.sampler_bytes_per_seq + batched_tokens * self.sampler_bytes_per_token + scratch
        persistent = rows * self.persistent_bytes_per_seq
        graphs = 0
        if self.capture_maximum:
            sizes = capture_sizes(min(2 * seqs, self.capture_maximum, batched_tokens))
            graphs = self.graph_fixed_bytes + self.graph_bytes * sizes // GRAPH_SIZES
        peak = max(max(forward, sampler) + images * self.image_kept_bytes, images * self.image_encoder_bytes)
        return Reserve(peak + self.peak_extra_bytes + persistent, self.non_torch_bytes, graphs)


@dataclass(frozen=True, slots=True)
class Reserve:
    """Bytes per GPU. `activation_bytes` is the profiled peak and the sampler's persistent buffers together."""

    activation_bytes: int
    non_torch_bytes: int
    cuda_graph_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.activation_bytes + self.non_torch_bytes + self.cuda_graph_bytes


def capture_sizes(maximum: int) -> int:
    """How many batch sizes are captured up to `maximum`: 1, 2, 4, then steps of 8 below 256 and of 16 from there on."""
    few = sum(size <= maximum for size in (1, 2, 4))
    return few + min(maximum, 248) // 8 + (max(maximum, 240) - 240) // 16


def reserve_terms(
    constants: EngineConstants,
    model: Model,
    gpu: Gpu,
    *,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    weights: str,
    quantised: bool,
    enforce_eager: bool = False,
    layers: int | None = None,
    samples: bool = True,
) -> ReserveTerms:
    """The reserve of one GPU; with pipeline stages, of a stage of so many layers. Only the last one samples."""
    sampler = constants.samplers[constants.runner(model, quantised)]
    element = 4 if weights == "fp32" else 2
    per_logit = sampler.float32_millibytes_per_logit if weights == "fp32" else sampler.millibytes_per_logit
    workspace = expert_workspace_bytes_per_token(model, tp, ep)
    kept = workspace if constants.moe_workspace_kept else 0
    images = image_terms(model, tp, generation=constants.generation(gpu), pixel_bytes=constants.pixel_bytes)
    multimodal = constants.multimodal_bytes if model.multimodal and not images.tokens else 0
    beside = images.deep_bytes_per_token
    beside += 4 * model.hidden_size if pp > 1 else 0  # hidden states and residual of the stage before, 16 bit
    graphs = not enforce_eager and constants.graphs_charged
    permille = _graph_permille(constants, model)
    forward = forward_bytes_per_token(model, tp, constants.forward_hidden_factor, element) + workspace + beside
    terms = ReserveTerms(
        forward_bytes_per_token=forward,
        forward_extra_bytes=multimodal if sampler.multimodal_in_forward else 0,
        sampler_bytes_per_seq=per_logit * model.vocabulary // 1000,
        sampler_bytes_per_token=sampler.bytes_per_hidden * model.hidden_size + kept + beside,
        scratch_bytes=sampler.scratch_bytes_per_multiprocessor
        * (gpu.multiprocessors or H100_MULTIPROCESSORS)
        * model.vocabulary,
        peak_extra_bytes=(0 if sampler.multimodal_in_forward else multimodal)
        + (constants.sparse_attention_bytes if is_sparse(model) else 0),
        persistent_bytes_per_seq=sampler.persistent_millibytes_per_logit * model.vocabulary // 1000,
        non_torch_bytes=constants.non_torch.bytes_at(tp, pp),
        graph_fixed_bytes=constants.graphs.fixed_bytes * permille // 1000,
        graph_bytes=constants.graphs.bytes_per_layer * (model.layers if layers is None else layers) * permille // 1000,
        capture_maximum=constants.capture_maximum(gpu) if graphs else 0,
        image_tokens=images.tokens,
        image_kept_bytes=images.kept_bytes,
        image_encoder_bytes=images.encoder_bytes,
        prompt_tokens=images.prompt_tokens,
    )
    return terms if samples else replace(terms, sampler_bytes_per_seq=0, scratch_bytes=0, persistent_bytes_per_seq=0)


def forward_bytes_per_token(model: Model, tp: int, hidden_factor: int, element: int = 2) -> int:
    """Activations of the widest layer but its experts: three MLP vectors of this rank and the hidden states."""
    return element * (3 * model.intermediate_size // tp + hidden_factor * model.hidden_size)


def expert_workspace_bytes_per_token(model: Model, tp: int, ep: int) -> int:
    """The two workspaces of the fused expert kernels (16 bit), shared by all layers; 0 for a dense model."""
    if not model.experts:
        return 0
    width = model.moe_intermediate_size // (1 if ep > 1 else tp)
    return 2 * model.experts_per_token * (max(2 * width, model.hidden_size) + max(width, model.hidden_size))


def is_sparse(model: Model) -> bool:
    """Whether attention is latent with a sparse index (DeepSeek V3.2, GLM-5)."""
    return any(layers.indexer_head_dim and layers.kind != "full" for layers in model.attention)


def extrapolated(
    constants: EngineConstants, model: Model, gpu: Gpu, *, tp: int, pp: int, ep: int, weights: str
) -> tuple[str, ...]:
    """Why the constants do not quite cover this replica; empty where they were measured on its like."""
    return tuple(_gaps(constants, model, gpu, tp, pp, ep, weights))


def _gaps(constants: EngineConstants, model: Model, gpu: Gpu, tp: int, pp: int, ep: int, weights: str) -> Iterator[str]:
    if constants.extrapolated:
        yield constants.extrapolated
    measured = constants.non_torch
    if gpu.architecture.casefold() not in measured.families:
        families = ", ".join(measured.families) or "none"
        yield f"no start-up log of a {gpu.architecture} card for this version (measured: {families})"
    if min(tp, 4) not in measured.evidence:
        yield f"memory outside torch was not measured at tp {tp} for this version"
    if gpu.multiprocessors is None:
        yield f"multiprocessors of {gpu.name} unknown: {H100_MULTIPROCESSORS} assumed"
    if model.experts and weights not in ("bf16", "fp16"):
        yield f"workspace of {weights} expert kernels was not measured: that of the 16-bit kernels is assumed"
    if model.experts and ep > 1:
        yield "reserve under expert parallelism was not measured"
    image = largest_image(model)
    if image is not None and image.doubt:
        yield image.doubt
    if model.multimodal and image is None:
        yield f"what profiling {model.architecture} with images takes is not known: that of others is assumed"
    if pp > 1:
        yield "reserve under pipeline parallelism was measured for one model only"
    if is_sparse(model):
        yield "sparse attention's reserve is fitted to two models"


def _graph_permille(constants: EngineConstants, model: Model) -> int:
    if is_sparse(model):
        return constants.graphs.sparse_permille
    latent = any(layers.kind == "mla" for layers in model.attention)
    return constants.graphs.mla_permille if latent else 1000
