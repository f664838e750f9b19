"""Several texts that are continued together: each new token of all of them is one pass over the weights."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from ..base.block_types import Array
from ..frontend.decoder.caches import Cache
from .sampling import Sampler
from .session import Embed, Session, Step
from .stops import Stops
from .tokenizer import TextTokenizer
from .usage import Usage


class Batch:
    """At most `count` sequences of at most `room` tokens: the tokens of each, and its row of the caches."""

    def __init__(
        self, step: Step, embed: Embed, caches: Sequence[Cache], heads: int, count: int, room: int
    ) -> None:
        self.tokens: list[list[int]] = []
        self.count = count
        self._step, self._embed = step, embed
        self._buffers = [
            np.zeros((count, heads, room, one.size), one.dtype.numpy) for one in caches
        ]

    def add(self, session: Session) -> None:
        """Append the sequence of a session, with what it keeps of its tokens."""
        length = len(session.tokens)
        for buffer, kept in zip(self._buffers, session.caches(), strict=True):
            buffer[len(self.tokens), :, length - kept.shape[2] : length] = kept[0]
        self.tokens.append(list(session.tokens))

    def feed(self, tokens: Sequence[int]) -> Array:
        """Append a token to each sequence; return the logits after them, f32 [sequences, vocabulary]."""
        lengths = np.array([len(one) for one in self.tokens])
        rows = self._embed(np.asarray(tokens, np.int64))
        rows = np.ascontiguousarray(rows.reshape(len(tokens), 1, -1))
        caches = [buffer[: len(tokens)] for buffer in self._buffers]
        logits = self._step(lengths, rows, *caches)[0]
        for own, token in zip(self.tokens, tokens, strict=True):
            own.append(token)
        return logits[:, 0]

    def remove(self, index: int) -> None:
        """Remove a sequence; the last one takes its row."""
        last = self.tokens.pop()
        if index < len(self.tokens):
            for buffer in self._buffers:
                buffer[index, :, : len(last)] = buffer[len(self.tokens), :, : len(last)]
            self.tokens[index] = last


class Continuation:
    """The text that follows a prompt, as its tokens are chosen.

    Attributes:
        text: What was made so far, without a stop text.
        made: The number of new tokens.
    """

    def __init__(
        self, tokenizer: TextTokenizer, sampler: Sampler, stops: Stops, limit: int, context: int
    ) -> None:
        self.text, self.made = "", 0
        self._ends, self._stream = tokenizer.ends, tokenizer.stream()
        self._sampler, self._stops, self._limit, self._context = sampler, stops, limit, context

    def next(self, logits: Array, seen: Sequence[int]) -> int | None:
        """Return the token to feed after those `seen`, of logits f32 [vocabulary]; None when the text has ended."""
        token = self._sampler.choose(logits, seen) if self.made < self._limit else None
        if token is None or token in self._ends:
            self._finish()
            return None
        self.made += 1
        self.text += self._stops.push(self._stream.push(token))
        if self._stops.found:
            return None
        if self.made == self._limit or len(seen) == self._context:
            self._finish()
            return None
        return token

    def _finish(self) -> None:
        self.text += self._stops.push(self._stream.rest()) + self._stops.rest()


def continue_together(
    batch: Batch, session: Session, prompts: Sequence[Sequence[int]], texts: Sequence[Continuation]
) -> Usage:
    """Continue prompts, as many at a time as the batch holds: another begins where one ends."""
    waiting, running = list(range(len(texts)))[::-1], list[int]()
    fed, usage, start = list[int](), Usage(), time.perf_counter()
    while waiting or running:
        while waiting and len(running) < batch.count:
            number = waiting.pop()
            logits = _begun(batch, session, prompts[number], usage)
            token = texts[number].next(logits, batch.tokens[-1])
            if token is None:
                batch.remove(len(running))
            else:
                running.append(number)
                fed.append(token)
        if not running:
            break
        rows = zip(running, batch.feed(fed), batch.tokens, strict=True)
        found = [texts[number].next(logits, seen) for number, logits, seen in rows]
        for index in reversed(range(len(running))):
            if found[index] is None:
                batch.remove(index)
                running[index], found[index] = running[-1], found[-1]
                del running[-1], found[-1]
        fed = [token for token in found if token is not None]
    usage.new = sum(one.made for one in texts)
    usage.decode_seconds = time.perf_counter() - start - usage.prefill_seconds
    return usage


def _begun(batch: Batch, session: Session, prompt: Sequence[int], usage: Usage) -> Array:
    """Add the sequence of a prompt to a batch; return the logits after it, f32 [vocabulary]."""
    start = time.perf_counter()
    rest = session.reuse(prompt)
    logits: Array = session.feed(rest)[-1]
    batch.add(session)
    usage.prompt += len(rest)
    usage.reused += len(prompt) - len(rest)
    usage.prefill_seconds += time.perf_counter() - start
    return logits
