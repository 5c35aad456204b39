"""What is predicted for the configuration of a log: names looked up in the catalog, and the memory model asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recommender.answer import fit
from recommender.catalog.catalog import Catalog
from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Model
from recommender.errors import Fault, InputError, NotModelledError
from recommender.memory.engine import EngineConstants, engine_constants
from recommender.memory.fit import Fit
from recommender.verify.configuration import Configuration, model_names
from recommender.verify.device import Device, device_of
from recommender.verify.log import StartupLog

Again = Callable[..., Fit]

_FOUR_BIT = ("awq", "awq_marlin", "gptq", "gptq_marlin", "gptq_bitblas", "marlin", "moe_wna16", "auto_round", "inc")
_QUANTISED = {
    **dict.fromkeys(_FOUR_BIT, "int4"),
    "fp8": "fp8",
    "fp8_per_tensor": "fp8",
    "modelopt": "fp8",
    "modelopt_fp4": "nvfp4",
    "mxfp4": "mxfp4",
    "experts_int8": "int8",
}
_LLM_TOKENS = {2048: 8192, 8192: 16384, 16384: 16384}
"""Default batched tokens of LLM() where `vllm serve` takes the key (vLLM 0.9-0.33 arg_utils.py)."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The fit of the logged configuration, how its names were found, and how to ask with something changed."""

    fit: Fit
    model: Model
    named: str  # the name in the log (or asked for) under which the model was found
    device: Device
    constants: EngineConstants
    again: Again


def prediction_of(
    log: StartupLog, configuration: Configuration, catalog: Catalog, model: str | None, gpu: str | None
) -> Prediction:
    """What is predicted for this start-up. Raises InputError naming what the log does not say."""
    if configuration.version is None:
        what = "the log does not say which version of vLLM wrote it"
        raise InputError(Fault(what, key="--engine-version", expected="a version such as 0.19.0"))
    constants = engine_constants("vllm", configuration.version)
    name, served = _model(catalog, configuration, model)
    device = device_of(log, catalog.gpus, _takes(log, configuration, constants), catalog.gpu(gpu) if gpu else None)
    asked: dict[str, Any] = {
        "model": name,
        "gpu": device.gpu.name,
        "tp": configuration.tp,
        "pp": configuration.pp,
        "dp": configuration.dp if configuration.expert_parallel else 1,  # else each rank is a replica of its own
        "ep": configuration.tp * configuration.dp if configuration.expert_parallel else 1,
        "weights": _weights(catalog, name, configuration),
        "kv_dtype": configuration.kv_dtype,
        "max_model_len": configuration.max_model_len,
        "max_num_seqs": configuration.max_num_seqs,
        "max_num_batched_tokens": configuration.max_num_batched_tokens,
        "gpu_memory_utilization": configuration.gpu_memory_utilization,
        "kv_cache_memory_bytes": configuration.kv_cache_memory_bytes,
        "enforce_eager": configuration.enforce_eager,
        "engine_version": configuration.version,
    }

    def again(**changes: Any) -> Fit:
        return fit(**{**asked, **changes}, catalog=catalog)

    return Prediction(again(), served, name, device, constants, again)


def _model(catalog: Catalog, configuration: Configuration, asked: str | None) -> tuple[str, Model]:
    """(name, model) of the first name of the log that the catalog knows."""
    if asked is not None:
        return asked, catalog.resolve(asked).model
    names = model_names(configuration)
    if not names:
        raise InputError(
            Fault("the log does not say which model it serves", key="--model", expected="a Hugging Face id")
        )
    for name in names:
        try:
            return name, catalog.resolve(name).model
        except NotModelledError:
            raise
        except InputError:
            continue
    served = [name for name in configuration.served_names if name != names[0]]
    known_as = f" (as {', '.join(served)})" if served else ""
    what = f"the log serves {names[0]!r}{known_as}, which the catalog does not know"
    raise InputError(Fault(what, key="--model", expected="a Hugging Face id"))


def _weights(catalog: Catalog, name: str, configuration: Configuration) -> str | None:
    """The weights where the engine quantised what the repository holds in 16 bit; None: as the repository has them."""
    resolved, method = catalog.resolve(name), configuration.quantization
    if method is None or resolved.checkpoint is not None or resolved.model.quantisation is not None:
        return None
    if method not in _QUANTISED:
        what = f"weights quantised by {method!r} are not known under {name!r}"
        raise NotModelledError(Fault(what, key="--model", expected="the quantised repository itself"))
    return _QUANTISED[method]


def _takes(log: StartupLog, configuration: Configuration, constants: EngineConstants) -> Callable[[Gpu], bool]:
    """Whether a card's default of batched tokens is the one in use; always, where it was set or is not known."""
    tokens, length = configuration.max_num_batched_tokens, configuration.max_model_len or 2**20
    free = tokens is None or log.given.get("max_num_batched_tokens") is not None

    def takes(gpu: Gpu) -> bool:
        default = constants.scheduler_default(gpu, length)[1]
        return free or tokens == (default if configuration.server else _LLM_TOKENS.get(default, default))

    return takes
