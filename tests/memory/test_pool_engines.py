"""SGLang and TensorRT-LLM: shares by version and card, what is refused by name, and the search's twin of `fit`."""

from __future__ import annotations

import numpy as np
import pytest

from recommender.answer import fit
from recommender.catalog.catalog import Catalog
from recommender.errors import InputError, NotModelledError
from recommender.memory.capacity import Reason, ReplicaColumns, Setting, WorstCase, memory_model
from recommender.memory.fit import Replica, fit_replica
from recommender.memory.pool_engine import pool_engine, pool_engines
from recommender.memory.share import prefill_sizes
from recommender.memory.weights import weight_choices


def share(
    catalog: Catalog, version: str, gpu: str, tp: int = 1, tokens: int | None = None, eager: bool = False
) -> float:
    constants, card = pool_engine("sglang", version), catalog.gpu(gpu)
    return constants.default_share(
        catalog.model("llama-3.1-8b"), card, tp=tp, tokens=tokens or constants.step_tokens(card), enforce_eager=eager
    )


@pytest.mark.parametrize(
    ("version", "gpu", "tp", "expected"),
    [
        # SGLang 0.5.1 server_args.py: (card - (fixed + each GPU's)) / card.
        ("0.5.1", "RTX4090", 1, 0.879),  # (24564 - 2.9 x 1024) / 24564
        ("0.5.1", "H100-SXM", 1, 0.874),  # (81559 - 10 x 1024) / 81559
        ("0.5.1", "H100-SXM", 8, 0.831),  # (81559 - 13.5 x 1024) / 81559, logged by 8 H100
        # 0.5.4-0.5.9: 512 + 1.5 x 8192 + 2 x 256 + 128 = 13440 of 81559
        ("0.5.9", "H100-SXM", 1, 0.835),
        ("0.5.9", "L4", 1, 0.837),  # 512 + 1.5 x 2048 + 2 x 24 + 128 = 3760 of 23034
        # 0.5.16: + 8 x 58 prefill graphs = 13904 of 81559, logged by one H100
        ("0.5.16", "H100-SXM", 1, 0.83),
        ("0.5.23", "H100-SXM", 4, 0.819),  # 512 + 12288 + 2 x 512 + 512 + 464 = 14800
    ],
)
def test_default_share(catalog: Catalog, version: str, gpu: str, tp: int, expected: float) -> None:
    assert share(catalog, version, gpu, tp) == expected


def test_smaller_steps_and_eager_running_leave_a_larger_share(catalog: Catalog) -> None:
    assert share(catalog, "0.5.23", "H100-SXM", tokens=2048) == round((81559 - 10240) / 81559, 3)  # the floor of 10 GiB
    assert share(catalog, "0.5.23", "H100-SXM", eager=True) == round((81559 - 12928) / 81559, 3)  # without graphs
    assert prefill_sizes(8192) == 58  # as a log of one H100 lists them
    assert prefill_sizes(2048) == 42


@pytest.mark.parametrize(
    ("engine", "version", "nearest"),
    [("sglang", "0.33.0", "0.5.23"), ("sglang", "0.4.10", "0.5.1"), ("tensorrt-llm", "0.20.0", "1.0.0")],
)
def test_a_version_that_is_not_known_is_refused_with_the_nearest(engine: str, version: str, nearest: str) -> None:
    with pytest.raises(NotModelledError, match=f"nearest version that is modelled is {nearest}"):
        pool_engine(engine, version)


def test_a_version_between_those_read_is_labelled() -> None:
    assert pool_engine("sglang", "0.5.9").extrapolated is None
    assert "taken to do as 0.5.9 does" in str(pool_engine("sglang", "0.5.10").extrapolated)
    assert pool_engines() == ("sglang", "tensorrt-llm")


@pytest.mark.parametrize(
    ("model", "gpu", "tp", "options", "what"),
    [
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "H100-SXM", 4, {"engine": "sglang"}, "recurrent layers are not modelled"),
        ("google/gemma-3-27b-it", "H100-SXM", 1, {"engine": "tensorrt-llm", "engine_version": "1.2.0"}, "sliding"),
        ("deepseek-ai/DeepSeek-V3.2", "H200-SXM", 8, {"engine": "sglang"}, "an index cache is not modelled"),
        ("llama-3.1-8b", "H100-SXM", 1, {"engine": "sglang", "pp": 2}, "pipeline stages are not modelled for SGLang"),
        ("deepseek-ai/DeepSeek-V3", "H200-SXM", 1, {"engine": "sglang", "dp": 8, "ep": 8}, "data-parallel attention"),
    ],
)
def test_what_is_not_modelled_is_refused_by_name(
    model: str, gpu: str, tp: int, options: dict[str, object], what: str
) -> None:
    with pytest.raises(NotModelledError, match=what):
        fit(model, gpu, tp=tp, **options)  # type: ignore[arg-type]


def test_options_that_an_engine_does_not_take() -> None:
    with pytest.raises(InputError, match="takes a share of the memory instead"):
        fit("llama-3.1-8b", "H100-SXM", engine="sglang", kv_cache_memory_bytes=10**10)
    with pytest.raises(InputError, match="knows no other engine"):
        fit("llama-3.1-8b", "H100-SXM", engine="sglang", memory_model="article")


@pytest.mark.parametrize(
    ("engine", "model", "gpu", "tp", "weights", "kv_dtype", "reason"),
    [
        # Hardware support matrix of TensorRT-LLM 1.0: no NVFP4 and no FP8 before their cards.
        ("tensorrt-llm", "llama-3.1-70b", "H100-SXM", 4, "nvfp4", "auto", "nvfp4 weights on H100-SXM"),
        ("tensorrt-llm", "llama-3.1-70b", "A100-80GB-SXM", 4, "fp8", "auto", "not known to work"),
        ("tensorrt-llm", "llama-3.1-8b", "T4", 1, None, "auto", "TensorRT-LLM 1.1.0 on T4"),
        ("tensorrt-llm", "google/gemma-2-9b-it", "H100-SXM", 1, None, "auto", "not known to be served by TensorRT-LLM"),
        ("sglang", "llama-3.1-8b", "MI300X", 1, None, "auto", "SGLang 0.5.23 on MI300X"),
        ("sglang", "llama-3.1-8b", "A100-80GB-SXM", 1, None, "fp8", "fp8 KV cache on A100-80GB-SXM"),
        ("sglang", "deepseek-ai/DeepSeek-V3", "H200-SXM", 8, None, "fp8", "fp8 latent KV cache on H200-SXM"),
    ],
)
def test_unknown_is_not_yes(
    engine: str, model: str, gpu: str, tp: int, weights: str | None, kv_dtype: str, reason: str
) -> None:
    found = fit(model, gpu, tp=tp, weights=weights, kv_dtype=kv_dtype, engine=engine)
    assert not found.starts
    assert reason in str(found.refusal)


def test_bfloat16_runs_as_float16_before_ampere() -> None:
    found = fit("Qwen/Qwen2.5-0.5B-Instruct", "T4", engine="sglang", max_model_len=4096)
    assert found.starts
    assert found.launch_arguments == ("--dtype", "half")


def test_a_pool_shorter_than_a_request_does_not_stop_the_engine() -> None:
    found = fit("llama-3.1-8b", "RTX4090", engine="sglang", engine_version="0.5.1", max_model_len=131_072)
    assert found.starts
    assert found.max_concurrency < 1
    assert any("takes no longer ones" in warning for warning in found.warnings)


def test_sliding_layers_are_full_ones_by_a_flag() -> None:
    found = fit("openai/gpt-oss-120b", "H100-SXM", tp=2, engine="sglang")
    assert found.launch_arguments == ("--disable-hybrid-swa-memory",)
    assert found.total.kv_bytes_per_token == 73_728  # 36 layers x 2 x 8 heads x 64 x 2 bytes


def test_a_latent_is_kept_whole_on_each_gpu() -> None:
    found = fit("deepseek-ai/DeepSeek-V3", "H200-SXM", tp=8, engine="sglang")
    assert found.kv_bytes_per_token == 61 * 576 * 2
    assert any("latent (MLA) cache" in gap for gap in found.extrapolated)


def test_the_budget_adds_up() -> None:
    for engine in pool_engines():
        found = fit("llama-3.1-70b", "H100-SXM", tp=4, engine=engine)
        assert found.usable_bytes - found.weights_bytes - found.reserve_bytes == found.kv_cache_bytes
        low, high = found.kv_cache_bytes_interval or (0, 0)
        assert low < found.kv_cache_bytes < high
        assert found.warnings[0].endswith("(docs/accuracy.md)")


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm"])
@pytest.mark.parametrize("safe_side", [False, True])
def test_what_the_search_promises_the_fit_confirms(catalog: Catalog, engine: str, safe_side: bool) -> None:
    """Each candidate holds exactly what `fit` says that a replica started with that many requests holds."""
    model = catalog.model("llama-3.1-8b")
    cards = tuple(catalog.gpu(name) for name in ("L4", "RTX4090", "A100-40GB-SXM", "H100-SXM", "B200"))
    choices = weight_choices(model, catalog.checkpoints_of(model.id), "0.5.23", engine)
    weights = tuple(dict.fromkeys((each.weights, each.checkpoint) for each in choices))
    version = str(pool_engine(engine, None).version)
    setting = Setting(model, cards, weights, ("auto", "fp8"), engine, version, safe_side=safe_side)
    drawn = np.random.default_rng(7)
    rows = 200
    columns = ReplicaColumns(
        gpu=drawn.integers(len(cards), size=rows),
        tp=2 ** drawn.integers(4, size=rows),
        weights=drawn.integers(len(weights), size=rows),
        kv_dtype=drawn.integers(2, size=rows),
        max_model_len=drawn.choice([1000, 8192, 131_072, 200_000], size=rows),
        max_num_batched_tokens=drawn.choice([0, 2048], size=rows),
        extra_reserve_bytes=np.zeros(rows, dtype=np.int64),
        pp=np.ones(rows, dtype=np.int64),
        ep=np.ones(rows, dtype=np.int64),
        dp=np.ones(rows, dtype=np.int64),
    )
    found = memory_model("vllm", engine).capacity(setting, columns, 3000, WorstCase())
    for k in range(rows):
        word, checkpoint = weights[int(columns.weights[k])]
        length = int(columns.max_model_len[k])
        alone = fit_replica(
            Replica(
                model=model,
                gpu=cards[int(columns.gpu[k])],
                weights=word,
                checkpoint=checkpoint,
                kv_dtype=("auto", "fp8")[int(columns.kv_dtype[k])],
                tp=int(columns.tp[k]),
                max_model_len=length,
                max_num_batched_tokens=int(columns.max_num_batched_tokens[k]) or None,
                engine=engine,
                engine_version=version,
            )
        )
        size = alone.kv_cache_bytes_interval[0] if safe_side and alone.kv_cache_bytes_interval else alone.kv_cache_bytes
        assert found.kv_cache_bytes[k] == size
        assert found.max_num_batched_tokens[k] == alone.max_num_batched_tokens
        pages, whole = size // (alone.bytes_per_block or 1), alone.request_blocks or 1
        most = 2048 if engine == "sglang" else 3000
        expected = 0 if length > model.max_model_len else min(most, pages // whole)
        assert found.sequences[k] == expected


def test_what_sglang_holds_while_it_quantises_must_fit(catalog: Catalog) -> None:
    """All 16-bit weights before they shrink (wheels 0.5.1 and 0.5.23): 61 GiB of a 32B, on cards of 44 and 79."""
    model = catalog.model("Qwen/Qwen2.5-32B-Instruct")
    for gpu, starts in (("L40S", False), ("H100-SXM", True)):
        card = catalog.gpu(gpu)
        found = fit_replica(
            Replica(model, card, "fp8", None, max_model_len=2048, engine="sglang", engine_version="0.5.23")
        )
        assert found.starts is starts
        assert starts or "out of memory while loading" in (found.refusal or "")
        setting = Setting(model, (card,), (("fp8", None),), ("auto",), "sglang", "0.5.23")
        blank = dict.fromkeys(ReplicaColumns.__dataclass_fields__, 0)
        full = blank | {"tp": 1, "pp": 1, "ep": 1, "dp": 1, "max_model_len": 2048}
        columns = ReplicaColumns(*(np.array([full[name]], dtype=np.int64) for name in blank))
        held = memory_model("vllm", "sglang").capacity(setting, columns, 8, WorstCase())
        assert Reason(int(held.reason[0])) == (Reason.FITS if starts else Reason.LOADING)


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm"])
@pytest.mark.parametrize(
    ("model", "tp", "said"),
    [
        ("llama-3.1-8b", 3, "tp: Total number of attention heads (32) must be divisible by tensor parallel size (3)"),
        ("openai/gpt-oss-20b", 6, "tp: Total number of attention heads (64) must be divisible by tensor parallel"),
    ],
)
def test_a_size_that_does_not_divide_is_told_the_nearest_that_do(engine: str, model: str, tp: int, said: str) -> None:
    """Named by the option, not by the first tensor that it fails on."""
    with pytest.raises(InputError) as refused:
        fit(model, "H100-SXM", tp=tp, engine=engine)
    (fault,) = refused.value.faults
    assert str(fault).startswith(said)
    assert fault.expected == ("2 or 4" if tp == 3 else "4 or 8")
