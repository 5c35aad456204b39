"""The engine's scheduler, a step at a time or many where nothing but decoding happens.

The rules are vLLM V1's (vllm/v1/core/sched/scheduler.py, kv_cache_manager.py). Running requests are served first, in
the order they were admitted. Where a block is missing, the request admitted last is preempted: it loses all its blocks
and waits at the head of the queue, to be computed again (there is no swap), and nothing is admitted in that step. A
waiting request is admitted once its whole sequence fits beside the watermark, which does not count while nothing runs;
its prompt is computed in chunks within the batched-token budget. Steps in which nothing but decoding happens are taken
together, so a request costs the same however long its output is.

Layers that keep a window or a state hold what `holding` says: they stop to grow, and let go of what was
computed at once when a prompt is done. Such a request is admitted where the engine's own reserve for it fits.

Not modelled: prefix caching and speculative decoding.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from recommender.workload.growth import Growing, InService
from recommender.workload.holding import Holding
from recommender.workload.replica import Finished, Progress, Request, Server, StepTime, Trail


@dataclass(slots=True)
class Scheduler:
    """One replica at work on all its requests."""

    requests: Sequence[Request]
    server: Server
    step_time: StepTime
    clients: int | None
    progress: Progress | None
    holds: Holding = field(init=False)
    now: float = 0.0
    step: int = 0
    free: int = 0
    sent: int = 0
    running: dict[int, InService] = field(default_factory=dict)  # in the order of admission
    computing: list[InService] = field(default_factory=list)  # running, their prompt not yet computed
    waiting: deque[InService] = field(default_factory=deque)
    due: list[tuple[int, int]] = field(default_factory=list)  # (last step, number) of decoding sequences
    growing: Growing = field(init=False)
    finished: list[Finished] = field(default_factory=list)
    preemptions: int = 0
    recomputed: int = 0
    peak_blocks: int = 0
    peak_waiting: int = 0
    block_seconds: float = 0.0
    running_seconds: float = 0.0

    def run(self) -> Trail:
        """Serve all requests, then tell what happened."""
        self.free = self.server.blocks
        self.holds = self.server.holds
        self.growing = Growing.of(self.holds.kinds)
        every = max(1, len(self.requests) // 100)
        shown = 0
        self._arrive(first=True)
        while len(self.finished) < len(self.requests):
            self._arrive()
            if not self.running and not self.waiting:
                self.now = self.requests[self.sent].arrival_s
                continue
            if self.computing or self._admissible() or not self._many_steps():
                self._one_step()
            if self.progress and len(self.finished) >= shown + every:
                shown = len(self.finished)
                self.progress(shown, len(self.requests))
        return self._trail()

    def _arrive(self, *, first: bool = False) -> None:
        """Queue what has been sent by now; clients in a loop send one request each at the start."""
        if self.clients is not None:
            if first:
                self._send(min(self.clients, len(self.requests)))
        else:
            count = 0
            while self.sent + count < len(self.requests) and self.requests[self.sent + count].arrival_s <= self.now:
                count += 1
            self._send(count)
        self.peak_waiting = max(self.peak_waiting, len(self.waiting))

    def _send(self, count: int) -> None:
        for number in range(self.sent, min(self.sent + count, len(self.requests))):
            request = self.requests[number]
            sent_s = self.now if self.clients is not None else request.arrival_s
            self.waiting.append(InService(number, request.prompt_tokens, request.output_tokens, sent_s))
        self.sent = min(self.sent + count, len(self.requests))

    def _admissible(self) -> bool:
        """Whether the head of the queue may start in this step."""
        if not self.waiting or len(self.running) >= self.server.max_num_seqs:
            return False
        kept = int(self.server.watermark * self.server.blocks) if self.running else 0
        return self.holds.to_admit(self.waiting[0].length) + kept <= self.free

    def _many_steps(self) -> bool:
        """Take all steps up to the next event in which requests only decode; false where a block is missing at once."""
        decoding = len(self.running)
        seconds = self.step_time.base_s + self.step_time.per_decode_s * decoding
        steps = self._next_due() - self.step + 1
        if self.clients is None and not self.waiting and self.sent < len(self.requests):
            until = self.requests[self.sent].arrival_s - self.now
            steps = min(steps, max(1, -int(-until // seconds)))
        steps, blocks = self.growing.affordable(self.step, steps, self.free)
        if steps == 0:
            return False
        self._account(seconds * steps, self.server.blocks - self.free + blocks / 2, decoding)
        self.free -= blocks
        self.peak_blocks = max(self.peak_blocks, self.server.blocks - self.free)
        self.step += steps
        self.growing.settle(self.step - 1)
        self._retire(self.step - 1)
        return True

    def _next_due(self) -> int:
        """The step in which the next decoding sequence ends."""
        while True:
            ends, number = self.due[0]
            sequence = self.running.get(number)
            if sequence is not None and sequence.decoding and sequence.ends == ends:
                return ends
            heappop(self.due)

    def _one_step(self) -> None:
        """One step: decode, go on with prompts, admit."""
        before = self.preemptions
        self._grow()
        decoding = len(self.running) - len(self.computing)
        budget = left = self.server.max_num_batched_tokens - decoding
        for sequence in list(self.computing):
            if left > 0 and sequence.number in self.running:
                left -= self._compute(sequence, left)
        if self.preemptions == before:
            while left > 0 and self._admissible():
                sequence = self.waiting.popleft()
                self.running[sequence.number] = sequence
                self.computing.append(sequence)
                left -= self._compute(sequence, left)
        decoding = len(self.running) - len(self.computing)
        used = self.server.blocks - self.free
        self.peak_blocks = max(self.peak_blocks, used)
        times = self.step_time
        seconds = times.base_s + times.per_decode_s * decoding + times.per_prompt_token_s * (budget - left)
        seconds += times.with_prompt_s if left < budget else 0.0
        self._account(seconds, used, len(self.running))
        self._start_decoding()
        self.step += 1
        self.growing.settle(self.step - 1)
        self._retire(self.step - 1)

    def _grow(self) -> None:
        """Give decoding sequences the blocks they need in this step; the last ones are preempted where none is left."""
        needed = self.growing.needed(self.step)
        if needed <= self.free:
            self.free -= needed
            return
        for sequence in [each for each in self.running.values() if each.decoding]:
            if sequence.number not in self.running:
                continue
            need = self.growing.needed_by(sequence, self.step)
            if need and self._make_room(need, sequence):
                self.free -= need

    def _compute(self, sequence: InService, left: int) -> int:
        """Compute the next chunk of a sequence's prompt; gives the tokens computed."""
        chunk = min(sequence.length - sequence.computed, left)
        holds = self.holds.blocks(sequence.computed + chunk, chunk)
        need = holds - sequence.held
        if not self._make_room(need, sequence):
            return 0
        self.free -= need
        sequence.held = holds
        sequence.computed += chunk
        return chunk

    def _make_room(self, blocks: int, asking: InService) -> bool:
        """Preempt the sequences admitted last until so many blocks are free; false if the asking one had to go."""
        while self.free < blocks:
            number = next(reversed(self.running))
            self._preempt(self.running.pop(number))
            if number == asking.number:
                return False
        return True

    def _preempt(self, sequence: InService) -> None:
        tokens, held = sequence.computed, sequence.held
        if sequence.decoding:
            tokens = sequence.tokens + self.step - 1 - sequence.since
            held = self.holds.blocks(tokens)
            self.growing.drop(sequence)
            sequence.generated += self.step - 1 - sequence.since
            sequence.decoding = False
        else:
            self.computing.remove(sequence)
        self.free += held
        self.recomputed += tokens
        self.preemptions += 1
        sequence.preemptions += 1
        sequence.computed = sequence.held = 0
        self.waiting.appendleft(sequence)

    def _start_decoding(self) -> None:
        """Sequences whose prompt is computed give a token and decode from the next step on."""
        for sequence in [each for each in self.computing if each.computed == each.length]:
            self.computing.remove(sequence)
            if sequence.first_token_s < 0:
                sequence.first_token_s = self.now
            sequence.tokens, sequence.since = sequence.length, self.step
            sequence.generated += 1
            sequence.ends = self.step + sequence.output - sequence.generated
            sequence.decoding = True
            self.free += sequence.held - self.holds.blocks(sequence.tokens)
            self.growing.add(sequence)
            heappush(self.due, (sequence.ends, sequence.number))

    def _retire(self, step: int) -> None:
        """Let go of the sequences whose last token came in this step; their clients send the next request."""
        while self.due and self.due[0][0] <= step:
            ends, number = heappop(self.due)
            sequence = self.running.get(number)
            if sequence is None or not sequence.decoding or sequence.ends != ends:
                continue
            self.growing.drop(sequence)
            del self.running[number]
            self.free += self.holds.blocks(sequence.tokens + step - sequence.since)
            self.finished.append(
                Finished(sequence.sent_s, sequence.first_token_s, self.now, sequence.output, sequence.preemptions)
            )
            if self.clients is not None:
                self._send(1)

    def _account(self, seconds: float, blocks: float, running: int) -> None:
        self.now += seconds
        self.block_seconds += blocks * seconds
        self.running_seconds += running * seconds

    def _trail(self) -> Trail:
        began = self.requests[0].arrival_s if self.clients is None else 0.0
        duration = self.now - began
        return Trail(
            finished=tuple(self.finished),
            preemptions=self.preemptions,
            recomputed_tokens=self.recomputed,
            output_tokens=sum(request.output_tokens for request in self.requests),
            duration_s=duration,
            peak_blocks=self.peak_blocks,
            mean_blocks=self.block_seconds / duration,
            mean_running=self.running_seconds / duration,
            peak_waiting=self.peak_waiting,
        )
