"""How long a request takes on an engine that has so many in flight: as stated, or from the times of its steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from recommender.errors import Fault, InputError
from recommender.workload.lengths import Lengths, mean_tokens
from recommender.workload.replica import StepTime

ASSUMED_STEP_TIME = StepTime(base_s=0.020, per_decode_s=0.000_1, per_prompt_token_s=0.000_05)
"""Stated, not measured: about a 70B model on a few large cards. 20 ms a step, 0.1 ms more for each request that
decodes, 20,000 prompt tokens a second."""

_NEAR = 1e-12


@dataclass(frozen=True, slots=True)
class Service:
    """The mean request on one engine: its lengths, and the step times or the stated seconds it takes."""

    step: StepTime
    prompt_tokens: float
    prompt_tokens_squared: float  # the mean of the squares
    output_tokens: float
    stated_s: float | None = None

    @classmethod
    def of(cls, lengths: Lengths, step: StepTime, stated_s: float | None = None) -> Service:
        """The service that requests of these lengths get; plain means, as Little's law asks for."""
        prompt, output = mean_tokens(lengths)
        weight = sum(cell.weight for cell in lengths.cells)
        squared = sum(cell.weight * cell.input_tokens**2 for cell in lengths.cells) / weight
        return cls(step, prompt, squared, output, stated_s)

    def in_flight(self, rate_per_s: float) -> float:
        """The mean in flight at a rate. Raises InputError where the engine cannot keep up with it.

        Steps are lengthened by the prompts that arrive in the step before. A request waits for the rest of a step
        (longer ones are likelier to be hit), has its prompt computed in the next, and decodes a token in each after it,
        which its own prompt and those beside it lengthen ever less. Each request that decodes lengthens all steps.
        """
        if self.stated_s is not None:
            return rate_per_s * self.stated_s
        step, prompts_busy = self.step, rate_per_s * self.step.per_prompt_token_s * self.prompt_tokens
        idle = 1 - prompts_busy
        steps = max(self.output_tokens - 1, 0.0) + 1.5
        decodes_busy = rate_per_s * steps * step.per_decode_s / idle if idle > 0 else 1.0
        if idle <= 0 or decodes_busy >= 1:
            what = f"{rate_per_s:g} requests a second are more than one engine answers at the stated step times"
            raise InputError(Fault(what, key="workload.rate_per_s"))
        uneven = rate_per_s * step.per_prompt_token_s**2 * self.prompt_tokens_squared / (1 - prompts_busy**2)
        longer = step.per_prompt_token_s * self.prompt_tokens + prompts_busy * uneven
        prompts_s = uneven / 2 + longer * (1 - math.pow(prompts_busy, steps - 0.5)) / idle
        return rate_per_s * (steps * step.base_s / idle + prompts_s) / (1 - decodes_busy)

    def rate_per_s(self, in_flight: float) -> float:
        """Requests a second that keep so many in flight."""
        if self.stated_s is not None:
            return in_flight / self.stated_s
        low, high = 0.0, self._most_per_s()
        while high - low > _NEAR * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self._keeps_up(middle, in_flight) else (low, middle)
        return low

    def request_s(self, in_flight: float) -> float:
        """Seconds from arrival to the last token where so many are in flight; rises with them."""
        return in_flight / self.rate_per_s(in_flight) if in_flight > 0 else self.request_s(1e-6)

    def _most_per_s(self) -> float:
        """A rate that no engine keeps up with: prompts alone, or decoding alone, would fill it."""
        prompt_s = self.step.per_prompt_token_s * self.prompt_tokens
        decode_s = self.step.per_decode_s * max(self.output_tokens, 1.0)
        return 1 / max(prompt_s, decode_s, 1e-9)

    def _keeps_up(self, rate_per_s: float, in_flight: float) -> bool:
        try:
            return self.in_flight(rate_per_s) <= in_flight
        except InputError:
            return False
