"""How fast a replica reads prompts, by the tokens of one engine step: what fewer of them cost."""

from __future__ import annotations

from recommender.errors import NotModelledError
from recommender.search.candidates import Row
from recommender.search.plans import Question
from recommender.speed.answer import Running, prepared_of
from recommender.speed.setup import Found, Load, Setup
from recommender.speed.steady import prefill_s
from recommender.workload.lengths import mean_tokens


def prefill_tokens_per_s(question: Question, row: Row, max_num_batched_tokens: int) -> float | None:
    """Tokens a second of one prompt read by itself; None where the speed of the card or the model is not modelled.

    The prompt is the mean one; of a fixed total, which does not say how much is prompt, all of it.
    """
    scenario, layout, terms = question.scenario, row.layout, question.candidates.terms[row.terms]
    choice = terms.choice
    prompt = max(mean_tokens(scenario.workload.lengths)[0], 1.0)
    setup = Setup(
        question.model.id,
        row.gpu,
        layout.tp,
        layout.pp,
        layout.ep,
        layout.dp,
        weights=choice.weights,
        kv_dtype=terms.kv_dtype,
        engine=scenario.engine,
        engine_version=scenario.engine_version,
    )
    gpu = question.gpus[row.gpu]
    found = Found(question.model, gpu, choice.weights, choice.checkpoint, choice.quantisation, layout.dp)
    try:
        prepared, _ = prepared_of(setup, found, Load(prompt, 1.0, 1), Running(1, max_num_batched_tokens))
    except NotModelledError:
        return None
    return prompt / float((prefill_s(prepared.costs) * prepared.factors.ttft)[0])
