"""The command line that starts a replica, safe to paste into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from recommender.catalog.models import Model
from recommender.memory.fit import Fit
from recommender.memory.weights import WeightChoice
from recommender.report.launch_others import sglang_words, trtllm_words


def launch_line(
    model: Model, choice: WeightChoice, fit: Fit, arguments: Sequence[str] = (), *, enforce_eager: bool = False
) -> str:
    """The line that starts a replica with its engine; `arguments` are what compatibility asks for besides.

    Where the checkpoint would have to be made first, a local path stands for it and a comment says so; a comment also
    says what a file named in the line has to hold.
    """
    words, comment = _words(model, choice, fit, enforce_eager)
    further = [*choice.launch_arguments, *arguments, *fit.launch_arguments]
    line = shlex.join([*_environment(further), *words, *_further(further, words)])
    comments = ["make this checkpoint first"] if choice.how == "to_make" else []
    comments += [comment] if comment else []
    return f"{line}  # {'; '.join(comments)}" if comments else line


def _words(model: Model, choice: WeightChoice, fit: Fit, enforce_eager: bool) -> tuple[list[str], str]:
    """(the command with its flags, what else has to be done)."""
    served = _served(model, choice)
    if fit.engine == "sglang":
        return sglang_words(model, served, choice, fit, enforce_eager), ""
    if fit.engine == "tensorrt-llm":
        return trtllm_words(served, fit, enforce_eager)
    words = ["vllm", "serve", served, *_sizes(fit), *_limits(fit), *_dtypes(choice, fit)]
    return words + (["--enforce-eager"] if enforce_eager else []), ""


def _served(model: Model, choice: WeightChoice) -> str:
    if choice.how == "to_make":
        return f"./{model.id.rpartition('/')[2]}-{choice.weights}"
    published = choice.how == "checkpoint" and choice.checkpoint is not None
    return (choice.checkpoint.id if published and choice.checkpoint else None) or model.id


def _sizes(fit: Fit) -> Iterable[str]:
    """Flags for the GPUs of one replica; pipeline, data and expert parallel only where they are used."""
    yield from ("--tensor-parallel-size", str(fit.tp))
    if fit.pp > 1:
        yield from ("--pipeline-parallel-size", str(fit.pp))
    if fit.dp > 1:
        yield from ("--data-parallel-size", str(fit.dp))
    if fit.ep > 1:
        yield "--enable-expert-parallel"


def _limits(fit: Fit) -> Iterable[str]:
    yield from ("--max-model-len", str(fit.max_model_len))
    yield from ("--max-num-seqs", str(fit.max_num_seqs))
    yield from ("--max-num-batched-tokens", str(fit.max_num_batched_tokens))
    yield from ("--gpu-memory-utilization", f"{fit.gpu_memory_utilization:g}")


def _dtypes(choice: WeightChoice, fit: Fit) -> Iterable[str]:
    if choice.weights == "fp16":
        yield from ("--dtype", "half")
    if choice.how == "online":
        yield from ("--quantization", choice.weights)
    if fit.kv_dtype != "auto":
        yield from ("--kv-cache-dtype", fit.kv_dtype)


def _environment(arguments: Iterable[str]) -> Iterable[str]:
    """Variables of a version that has no flag for what they set, each once."""
    return dict.fromkeys(argument for argument in arguments if "=" in argument and not argument.startswith("-"))


def _further(arguments: Iterable[str], words: Sequence[str]) -> Iterable[str]:
    """Flags that are not there yet, each once; one may come as `--flag value` or as two words."""
    seen = set(words)
    flag = ""
    for word in (word for argument in arguments for word in shlex.split(argument)):
        if word.startswith("--"):
            flag = "" if word.partition("=")[0] in seen else word.partition("=")[0]
            seen.add(word.partition("=")[0])
        if flag:
            yield word


def broken(line: str, width: int) -> list[str]:
    """A launch line over several lines that a shell reads as one, each flag beside its value; a comment comes first."""
    command, _, comment = line.partition("  # ")
    flags: list[str] = []
    for word in map(shlex.quote, shlex.split(command)):
        if flags and not word.startswith("--"):
            flags[-1] += f" {word}"
        else:
            flags.append(word)
    lines = [f"# {comment}"] if comment else []
    current, *others = flags
    for flag in others:
        if len(current) + len(flag) + 3 > width:
            lines.append(f"{current} \\")
            current = f"  {flag}"
        else:
            current += f" {flag}"
    return [*lines, current]
