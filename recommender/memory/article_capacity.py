"""The `article` memory model over many candidates at once: floor(unrounded tokens / length), no reserve that grows."""

from __future__ import annotations

import numpy as np

from recommender.errors import InputError
from recommender.memory.article import cache_bytes, kv_bytes_per_token
from recommender.memory.capacity import Capacity, Demand, Reason, ReplicaColumns, Setting
from recommender.memory.fit import Replica


class ArticleMemory:
    """The source article's memory model: requests are counted worst case, whatever the demand."""

    def capacity(self, setting: Setting, columns: ReplicaColumns, limit: int, demand: Demand) -> Capacity:
        """How many requests, up to `limit`, each candidate holds. `demand` is not asked: the article has no blocks."""
        zeros = [np.zeros(len(columns), dtype=np.int64) for _ in range(4)]
        found = Capacity(zeros[0], zeros[1], zeros[2], zeros[3])
        parts = (columns.gpu, columns.tp, columns.pp, columns.dp, columns.weights, columns.kv_dtype)
        table = np.stack([*parts, columns.max_model_len, columns.max_num_batched_tokens], axis=1)
        distinct, ids = np.unique(table, axis=0, return_inverse=True)
        rows = [_row(setting, [int(value) for value in row], limit) for row in distinct]
        for column, values in zip(
            (found.sequences, found.kv_cache_bytes, found.max_num_batched_tokens, found.reason),
            np.array(rows, dtype=np.int64).reshape(-1, 4).T,
            strict=True,
        ):
            column[:] = values[ids.reshape(-1)]
        return found


def _row(setting: Setting, row: list[int], limit: int) -> tuple[int, int, int, int]:
    from recommender.memory.engine import engine_constants
    from recommender.memory.startup import limits_of

    gpu, tp, pp, dp, weights, kv_dtype, length, tokens = row
    word, checkpoint = setting.weights[weights]
    replica = Replica(
        model=setting.model,
        gpu=setting.gpus[gpu],
        weights=word,
        checkpoint=checkpoint,
        kv_dtype=setting.kv_dtypes[kv_dtype],
        tp=tp,
        pp=pp,
        dp=dp,
        gpu_memory_utilization=setting.gpu_memory_utilization,
    )
    try:
        cache, per_token = cache_bytes(replica), kv_bytes_per_token(replica)
    except InputError:
        return 0, 0, 0, Reason.NOT_MODELLED
    constants = engine_constants(setting.engine, setting.engine_version)
    held = min(limit, max(0, int(cache / per_token / length)))
    limits = limits_of(constants, replica.gpu, length, max(1, held), tokens or None)
    reason = Reason.FITS if held else Reason.WEIGHTS if cache <= 0 else Reason.MAX_MODEL_LEN
    return min(held, limits.max_num_seqs), max(0, round(cache / replica.gpus)), limits.max_num_batched_tokens, reason
