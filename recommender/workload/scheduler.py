"""The engine's scheduler, a step at a time or many where nothing but decoding happens.

The rules are vLLM V1's (vllm/v1/core/sched/scheduler.py, kv_cache_manager.py). Running requests are served first, in
the order they were admitted. Where a block is missing, the request admitted last is preempted: it loses all its blocks
and waits at the head of the queue, to be computed again (there is no swap), and nothing is admitted in that step. A
waiting request is admitted once its whole sequence fits beside the watermark, which does not count while nothing runs;
its prompt is computed in chunks within the batched-token budget. Steps in which nothing but decoding happens are taken
together, so a request costs the same however long its output is.

Not modelled: prefix caching, speculative decoding, and caches that do not grow with every token (sliding windows).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from recommender.workload.replica import Finished, Progress, Request, Server, StepTime, Trail


@dataclass(slots=True, eq=False)
class _Sequence:
    """A request on its way. Decoding, it holds `tokens` + (step - since) tokens after each step."""

    number: int
    prompt: int
    output: int
    sent_s: float
    generated: int = 0
    computed: int = 0  # tokens in the cache while the prompt is being computed
    decoding: bool = False
    tokens: int = 0
    since: int = 0
    ends: int = 0  # step that gives the last token
    first_token_s: float = -1.0
    preemptions: int = 0

    @property
    def length(self) -> int:
        """Tokens that must be computed before the next one can be generated."""
        return self.prompt + self.generated


@dataclass(slots=True)
class Scheduler:
    """One replica at work on all its requests."""

    requests: Sequence[Request]
    server: Server
    step_time: StepTime
    clients: int | None
    progress: Progress | None
    now: float = 0.0
    step: int = 0
    free: int = 0
    sent: int = 0
    running: dict[int, _Sequence] = field(default_factory=dict)  # in the order of admission
    computing: list[_Sequence] = field(default_factory=list)  # running, their prompt not yet computed
    waiting: deque[_Sequence] = field(default_factory=deque)
    due: list[tuple[int, int]] = field(default_factory=list)  # (last step, number) of decoding sequences
    growing: list[int] = field(
        default_factory=list
    )  # decoding sequences by the step (modulo block) of their next block
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
        self.growing = [0] * self.server.block_size
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
            self.waiting.append(_Sequence(number, request.prompt_tokens, request.output_tokens, sent_s))
        self.sent = min(self.sent + count, len(self.requests))

    def _admissible(self) -> bool:
        """Whether the head of the queue may start in this step."""
        if not self.waiting or len(self.running) >= self.server.max_num_seqs:
            return False
        kept = int(self.server.watermark * self.server.blocks) if self.running else 0
        return self._blocks(self.waiting[0].length) + kept <= self.free

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.server.block_size)

    def _many_steps(self) -> bool:
        """Take all steps up to the next event in which requests only decode; false where a block is missing at once."""
        decoding = len(self.running)
        seconds = self.step_time.base_s + self.step_time.per_decode_s * decoding
        steps = self._next_due() - self.step + 1
        if self.clients is None and not self.waiting and self.sent < len(self.requests):
            until = self.requests[self.sent].arrival_s - self.now
            steps = min(steps, max(1, -int(-until // seconds)))
        steps, blocks = self._affordable(steps, decoding)
        if steps == 0:
            return False
        self._account(seconds * steps, self.server.blocks - self.free + blocks / 2, decoding)
        self.free -= blocks
        self.peak_blocks = max(self.peak_blocks, self.server.blocks - self.free)
        self.step += steps
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

    def _affordable(self, steps: int, decoding: int) -> tuple[int, int]:
        """How many of the steps find all their blocks, and the blocks they take."""
        size = self.server.block_size
        rounds = min(steps // size, self.free // decoding)
        taken, done = rounds * decoding, rounds * size
        while done < steps:
            need = self.growing[(self.step + done) % size]
            if taken + need > self.free:
                break
            taken += need
            done += 1
        return done, taken

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
        self._account(seconds, used, len(self.running))
        self._start_decoding()
        self.step += 1
        self._retire(self.step - 1)

    def _grow(self) -> None:
        """Give decoding sequences the blocks they need in this step; the last ones are preempted where none is left."""
        place = self.step % self.server.block_size
        if self.growing[place] <= self.free:
            self.free -= self.growing[place]
            return
        for sequence in [each for each in self.running.values() if each.decoding and self._place(each) == place]:
            if sequence.number in self.running and self._make_room(1, sequence):
                self.free -= 1

    def _compute(self, sequence: _Sequence, left: int) -> int:
        """Compute the next chunk of a sequence's prompt; gives the tokens computed."""
        chunk = min(sequence.length - sequence.computed, left)
        need = self._blocks(sequence.computed + chunk) - self._blocks(sequence.computed)
        if not self._make_room(need, sequence):
            return 0
        self.free -= need
        sequence.computed += chunk
        return chunk

    def _make_room(self, blocks: int, asking: _Sequence) -> bool:
        """Preempt the sequences admitted last until so many blocks are free; false if the asking one had to go."""
        while self.free < blocks:
            number = next(reversed(self.running))
            self._preempt(self.running.pop(number))
            if number == asking.number:
                return False
        return True

    def _preempt(self, sequence: _Sequence) -> None:
        held = sequence.computed
        if sequence.decoding:
            self.growing[self._place(sequence)] -= 1
            held = sequence.tokens + self.step - 1 - sequence.since
            sequence.generated += self.step - 1 - sequence.since
            sequence.decoding = False
        else:
            self.computing.remove(sequence)
        self.free += self._blocks(held)
        self.recomputed += held
        self.preemptions += 1
        sequence.preemptions += 1
        sequence.computed = 0
        self.waiting.appendleft(sequence)

    def _place(self, sequence: _Sequence) -> int:
        """The step, modulo the block size, in which a decoding sequence needs its next block."""
        return (sequence.since + 1 - sequence.tokens) % self.server.block_size

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
            self.growing[self._place(sequence)] += 1
            heappush(self.due, (sequence.ends, sequence.number))

    def _retire(self, step: int) -> None:
        """Let go of the sequences whose last token came in this step; their clients send the next request."""
        while self.due and self.due[0][0] <= step:
            ends, number = heappop(self.due)
            sequence = self.running.get(number)
            if sequence is None or not sequence.decoding or sequence.ends != ends:
                continue
            del self.running[number]
            self.growing[self._place(sequence)] -= 1
            self.free += self._blocks(sequence.tokens + step - sequence.since)
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
