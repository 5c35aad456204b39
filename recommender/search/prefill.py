"""How fast a replica reads prompts, by the tokens of one engine step: what fewer of them cost."""

from __future__ import annotations

from recommender.errors import NotModelledError
from recommender.search.candidates import Row
from recommender.search.plan_speed import setup_of
from recommender.search.plans import Question
from recommender.speed.answer import Running, prepared_of
from recommender.speed.setup import Found, Load
from recommender.speed.steady import prefill_s
from recommender.workload.lengths import mean_request


def prefill_tokens_per_s(question: Question, row: Row, max_num_batched_tokens: int) -> float | None:
    """Tokens a second of one prompt read by itself; None where the speed of the card or the model is not modelled.

    The prompt is the mean one; of a fixed total, which does not say how much is prompt, all of it.
    """
    scenario, layout, terms = question.scenario, row.layout, question.candidates.terms[row.terms]
    prompt, _ = mean_request(scenario.workload.lengths)
    setup = setup_of(scenario, question.model, row.gpu, layout, terms.choice.weights, terms.kv_dtype)
    found = Found.of(question.model, question.gpus[row.gpu], terms.choice, layout.dp)
    try:
        prepared, _ = prepared_of(setup, found, Load(prompt, 1.0, 1), Running(1, max_num_batched_tokens))
    except NotModelledError:
        return None
    return prompt / float((prefill_s(prepared.costs) * prepared.factors.ttft)[0])
