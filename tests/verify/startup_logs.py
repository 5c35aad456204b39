"""Start-up logs in the lines of each generation of vLLM (generations/README.md says which figures are real)."""

from pathlib import Path

from recommender.verify.log import StartupLog, read_log

LOGS = Path(__file__).parent / "logs"
GENERATIONS = Path(__file__).parent / "generations"


def parsed(text: str) -> StartupLog:
    """The start-up log in a text."""
    log = read_log([text.encode()])
    assert log is not None
    return log


def _log(name: str) -> str:
    return (GENERATIONS / f"{name}.log").read_text(encoding="utf-8")


V0_6_2 = _log("v0-0.6.2")
V0_6_4 = _log("v0-0.6.4")
V0_6_4_REFUSES = _log("v0-0.6.4-refuses")
V0_7_3 = _log("v0-0.7.3")
V1_0_7_3 = _log("v1-0.7.3")
V1_0_8_5 = _log("v1-0.8.5")
V1_0_11 = _log("v1-0.11.0")
V1_0_24 = _log("v1-0.24.0")
V1_0_27 = _log("v1-0.27.1")
V1_0_28 = _log("v1-0.28.0")
STARTED = {
    "0.6.4": V0_6_4,
    "0.7.3": V0_7_3,
    "0.11.0": V1_0_11,
    "0.24.0": V1_0_24,
    "0.27.1": V1_0_27,
    "0.28.0": V1_0_28,
}

CONFIG = (
    "model='{model}', speculative_config=None, tokenizer='{model}', skip_tokenizer_init=False, tokenizer_mode=auto, "
    "revision=None, trust_remote_code=False, dtype={dtype}, max_seq_len={length}, download_dir=None, "
    "load_format=LoadFormat.AUTO, tensor_parallel_size={tp}, pipeline_parallel_size=1, "
    "quantization={quantization}, enforce_eager={eager}, kv_cache_dtype={kv}, device_config=cuda, seed=0"
)

# Llama-3.1-8B needs 16 GiB for a request of 131,072 tokens.
NO_REQUEST = (
    "To serve at least one request with the model{apostrophe}s max seq len (131072), (16.00 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (4.51 GiB). Based on the available memory, the estimated "
    "maximum model length is 36944. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
    "initializing the engine."
)
NO_BLOCKS = (
    "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
)
NO_FREE_MEMORY = (
    "Free memory on device cuda:0 (13.91/79.19 GiB) on startup is less than desired GPU memory utilization (0.95, "
    "75.23 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
)


def config(model: str, length: int, **changes: object) -> str:
    """The engine's own configuration, as it dumps it."""
    values = {"dtype": "torch.bfloat16", "tp": 1, "quantization": None, "eager": False, "kv": "auto", **changes}
    return CONFIG.format(model=model, length=length, **values)


def refusal(version: str, error: str, model: str = "meta-llama/Llama-3.1-8B-Instruct", length: int = 131072) -> str:
    """A start-up that ends in an error."""
    return f"""\
(EngineCore pid=9) INFO [core.py:121] Initializing a V1 LLM engine (v{version}) with config: {config(model, length)}
(EngineCore pid=9) INFO [model_runner.py:422] Model loading took 14.99 GiB memory and 6.27 seconds
(EngineCore pid=9) ERROR [core.py:1330] Traceback (most recent call last):
(EngineCore pid=9) ERROR [core.py:1330] ValueError: {error}
"""
