"""A model as the files of its repository describe it: config, index and headers, wherever they were read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from recommender.catalog.config_fields import Fields
from recommender.catalog.models import Checkpoint, Model
from recommender.catalog.safetensors import Index, StoredTensor
from recommender.catalog.tensor_names import LoadedBytes, loaded_bytes
from recommender.errors import Fault, InputError, NotModelledError
from recommender.units import show_gb

if TYPE_CHECKING:
    from recommender.catalog.catalog import Catalog, Resolved

MEASURED = "kv_bytes_per_token"
"""Not Hugging Face's: what a config of one's own may carry for a model class that is not modelled."""
CONFIG_BYTES = 4_000_000
CONFIG_VALUES = 400_000
CONFIG, QUANT_CONFIG, INDEX = "config.json", "hf_quant_config.json", "model.safetensors.index.json"
# Patterns of modules left in 16 bit are matched layer by layer: no real list comes near this many comparisons.
_MOST_COMPARISONS = 2_000_000
_MOST_PARAMETERS = 2**46
_IGNORED_SHARE = 100  # integer buffers and the like are below a hundredth of any quantised model
_BROKEN = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Repository:
    """What was read of one repository. `tensors` is None where the headers of not all its files could be read.

    `id` is how an engine is told to load it; `where` names its config in errors.
    """

    id: str
    where: str
    config: Mapping[str, Any]
    index: Index | None
    tensors: tuple[StoredTensor, ...] | None
    source: str
    notes: tuple[str, ...] = ()


def described(
    repository: Repository, catalog: Catalog | None = None, kv_bytes_per_token: int | None = None
) -> Resolved:
    """The model of a repository with what its files hold. Raises NotModelledError, InputError.

    A quantised repository that names its base is a checkpoint of that base where the catalog has it in the same
    geometry; any other is a model of its own. `kv_bytes_per_token` is a measured figure for one GPU, taken where the
    attention of the model is not known; its config may carry it too.
    """
    from recommender.catalog.catalog import Resolved

    own = _model(repository, kv_bytes_per_token or _declared_measure(repository))
    files = _files(repository, own)
    base = _base(repository, own, catalog)
    if base is None:
        return Resolved(own, files=(files,))
    given = replace(files, model=base.id)
    return Resolved(base, given, own, files=(given,))


def _declared_measure(repository: Repository) -> int | None:
    return Fields(repository.config, repository.where).optional(MEASURED)


def _model(repository: Repository, kv_bytes_per_token: int | None) -> Model:
    try:
        own = _read(repository, kv_bytes_per_token)
    except NotModelledError:
        raise
    except InputError as error:
        raise InputError([_at(fault, repository) for fault in error.faults]) from None
    except _BROKEN as error:  # a value of a kind that no config has
        raise InputError(Fault(f"holds a value that cannot be read: {error}", repository.where)) from None
    if kv_bytes_per_token is not None and not is_measured(own):
        what = f"the KV cache of {own.architecture} is known exactly"
        raise InputError(Fault(what, repository.where, key=MEASURED, expected="no measured figure"))
    _check_patterns(repository, own)
    _check_size(repository, own)
    return own


def _read(repository: Repository, kv_bytes_per_token: int | None) -> Model:
    """The model as its class is described, else as its language model and its headers say, else as it was measured."""
    from recommender.catalog.composite import composite, language_class
    from recommender.catalog.config import model_from_config
    from recommender.catalog.unmodelled import unmodelled

    try:
        return model_from_config(repository.config, id=repository.id, source=repository.source)
    except NotModelledError as refusal:
        if kv_bytes_per_token is not None and repository.tensors is not None:
            return unmodelled(repository, kv_bytes_per_token)
        language = language_class(repository)
        if language is None or repository.tensors is None:
            raise _with_advice(refusal, repository, kv_bytes_per_token, language) from None
    return composite(repository, language)


def _at(fault: Fault, repository: Repository) -> Fault:
    return Fault(fault.what, repository.where, fault.line, fault.key, fault.expected, fault.suggestion)


def _with_advice(
    refusal: NotModelledError, repository: Repository, measured: int | None, language: str | None
) -> NotModelledError:
    """The refusal with what would be accepted instead."""
    if measured is None and language is not None:
        advice = f"all its safetensors files too: {language} inside is known, their headers say what is around it"
    elif measured is None:
        advice = f"a model class that is modelled, or {MEASURED} as measured on one GPU"
    else:
        advice = "the headers of all its safetensors files too, to know its weights"
    first, *others = (_at(fault, repository) for fault in refusal.faults)
    near = first.suggestion if language is None else None
    advised = Fault(first.what, first.file, first.line, first.key, advice, near)
    return NotModelledError([advised, *others])


def _check_patterns(repository: Repository, own: Model) -> None:
    patterns = len(own.quantisation.ignored) if own.quantisation else 0
    if patterns * own.layers > _MOST_COMPARISONS:
        what = f"{patterns:,} modules left in 16 bit, over {own.layers} layers"
        expected = f"at most {_MOST_COMPARISONS // own.layers:,}"
        raise InputError(Fault(what, repository.where, key="quantization_config", expected=expected))


def _check_size(repository: Repository, own: Model) -> None:
    """Raises InputError where the values are each possible, but not together."""
    largest = max([own.parameters, *(table.size_bytes() for table in own.rotary)])
    if largest > _MOST_PARAMETERS:
        what = f"describes a model of {largest:,} parameters or bytes of rotary tables"
        raise InputError(Fault(what, repository.where, expected=f"at most {_MOST_PARAMETERS:,}"))


def _files(repository: Repository, own: Model) -> Checkpoint:
    """The weights of the repository: bytes by group from headers, else the index's total, else unknown."""
    total = repository.index.total_bytes if repository.index else None
    notes = list(repository.notes)
    groups: tuple[tuple[str, int], ...] = ()
    if repository.tensors is not None:
        loaded = loaded_bytes(repository.tensors, layers=own.layers, tied=own.tied_embeddings)
        if is_measured(own):
            notes.append("class not modelled: KV cache as measured, attention weights whole on each GPU")
        else:
            _check_storage(repository, own, loaded)
        total, groups = loaded.stored_bytes, loaded.groups
        notes += [f"not loaded: {show_gb(size)} of {why}" for why, size in loaded.left_out]
    return Checkpoint(
        id=repository.id,
        model=own.id,
        weights=own.native,
        quantisation=own.quantisation,
        bytes_total=total,
        size_kind="unknown" if total is None else "index",
        source="; ".join((repository.source, *notes)),
        kv_declared=own.kv_declared,
        group_bytes=groups,
    )


def _check_storage(repository: Repository, own: Model, loaded: LoadedBytes) -> None:
    """Raises InputError where config and files disagree on whether weights are quantised: no engine loads that."""
    share = sum(size for _, size in loaded.packed) * _IGNORED_SHARE
    if own.quantisation is None and share > loaded.stored_bytes:
        dtypes = ", ".join(dtype for dtype, _ in loaded.packed)
        what = f"its files hold {dtypes} weights, but it says nothing of how they are quantised"
        raise InputError(Fault(what, repository.where, key="quantization_config", expected="quant_method and its keys"))
    if own.quantisation is not None and not loaded.packed:
        what = f"{own.quantisation.method} is said, but its files hold no quantised weight"
        raise InputError(Fault(what, repository.where, key="quantization_config"))


def is_measured(model: Model) -> bool:
    """Whether the model's cache is as somebody measured it, because its class is not modelled."""
    return any(layers.kind == "measured" for layers in model.attention)


def _base(repository: Repository, own: Model, catalog: Catalog | None) -> Model | None:
    """The catalog's model that a quantised repository says it was made from, where the two have the same geometry."""
    named = repository.config.get("_name_or_path")
    if catalog is None or own.quantisation is None or not isinstance(named, str):
        return None
    try:
        base = catalog.model(named)
    except InputError:
        return None
    return base if base.quantisation is None and _geometry(base) == _geometry(own) else None


def _geometry(model: Model) -> tuple[object, ...]:
    return model.architecture, model.layers, model.attention, model.tensors
