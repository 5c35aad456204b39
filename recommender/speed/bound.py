"""The most tokens a second one request can see: what memory bandwidth alone allows."""

from __future__ import annotations

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Model
from recommender.memory.weights import WeightChoice, rank_bytes
from recommender.search.layouts import Layout


def tokens_per_s_bound(model: Model, gpu: Gpu, layout: Layout, choice: WeightChoice) -> float | None:
    """Bandwidth of one GPU over the weight bytes it reads for one token at batch 1; None where bandwidth is unknown.

    An upper bound: KV reads, communication and kernel time only lower it. Each token reads every weight but the rows of
    the embedding that were not looked up and the experts the router did not pick; stages work one after another.
    """
    if gpu.bandwidth_bytes_per_s is None:
        return None
    groups = dict(rank_bytes(model, choice.quantisation, tp=layout.tp, pp=1, ep=layout.ep).groups)
    if not model.tied_embeddings:
        groups.pop("embedding", None)
    if model.experts:
        groups["experts"] = groups.get("experts", 0) * model.experts_per_token // model.experts
    return gpu.bandwidth_bytes_per_s / sum(groups.values())
