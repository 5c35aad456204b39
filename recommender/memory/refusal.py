"""What an engine says when a replica does not start, in its own words and figures."""

from __future__ import annotations

from recommender.memory.engine import EngineConstants
from recommender.units import GIB


def no_request(
    generation: str, max_model_len: int, needed_bytes: int, available_bytes: int, tokens: int, estimated: int | None
) -> str:
    """Not one request of max_model_len fits: KV cache needed, available, and the longest length that would fit."""
    needed, available = _gib(needed_bytes), _gib(available_bytes)
    if generation == "V0":
        return (
            f"The model's max seq len ({max_model_len}) is larger than the maximum number of tokens that can be stored "
            f"in KV cache ({tokens}): {needed} GiB KV cache is needed, {available} GiB is available. "
            f"{_estimate(estimated)}Try increasing `gpu_memory_utilization` or decreasing `max_model_len`."
        )
    return (
        f"To serve at least one request with the model's max seq len ({max_model_len}), ({needed} GiB KV cache is "
        f"needed, which is larger than the available KV cache memory ({available} GiB). {_estimate(estimated)}"
        "Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
    )


def no_blocks(weights_bytes: int, reserve_bytes: int, usable_bytes: int) -> str:
    """Weights and reserve leave nothing for the cache."""
    return (
        "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the "
        f"engine. (Weights {_gib(weights_bytes)} GiB and reserve {_gib(reserve_bytes)} GiB of {_gib(usable_bytes)} "
        "GiB a GPU.)"
    )


def no_room(needed_bytes: int, memory_bytes: int) -> str:
    """Weights, reserve and the KV cache that was asked for exceed the card."""
    return f"CUDA out of memory: {_gib(needed_bytes)} GiB is needed of the {_gib(memory_bytes)} GiB of a GPU."


def no_loading(peak_bytes: int, free_bytes: int, held: str) -> str:
    """Quantising at load time holds more than the card has."""
    return (
        f"CUDA out of memory while loading: {_gib(peak_bytes)} GiB are held of the {_gib(free_bytes)} GiB free, as "
        f"16-bit weights are quantised with {held} on the GPU. Use a quantised checkpoint, or more GPUs."
    )


def no_margin(free_bytes: int, memory_bytes: int, utilization: float, usable_bytes: int) -> str:
    """The utilization leaves no room for the CUDA context, which is taken before the engine measures."""
    return (
        f"Free memory on device cuda:0 (at most {_gib(free_bytes)}/{_gib(memory_bytes)} GiB) on startup is less than "
        f"desired GPU memory utilization ({utilization:g}, {_gib(usable_bytes)} GiB). Decrease GPU memory utilization "
        "or reduce GPU memory used by other processes."
    )


def no_option(constants: EngineConstants, option: str) -> str:
    """The version has no such option."""
    return f"unrecognized arguments: {option} ({constants.engine} {constants.version} has no such option)"


def too_long(constants: EngineConstants, max_model_len: int, model_maximum: int) -> str:
    """The length asked for is beyond the model's own."""
    return (
        f"User-specified max_model_len ({max_model_len}) is greater than the derived max_model_len ({model_maximum}) "
        f"of the model; {constants.engine} refuses it."
    )


def _estimate(estimated: int | None) -> str:
    if not estimated:
        return ""
    return f"Based on the available memory, the estimated maximum model length is {estimated}. "


def _gib(count_bytes: int) -> float:
    return round(count_bytes / GIB, 2) + 0.0  # never -0.0
