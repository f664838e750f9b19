"""A sequence of tokens and its caches of keys and values, which grow in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from ..base.block_types import Array
from ..base.errors import UserError
from .buffers import CacheBuffers


class Step(Protocol):
    """A compiled decoder: logits and the longer caches, of embeddings, rows and caches."""

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """Run a step."""
        ...


class Embed(Protocol):
    """The embeddings f32 [1, T, width] of tokens s64 [T]."""

    def __call__(self, tokens: Array) -> Array:
        """Look tokens up."""
        ...


class Session:
    """The tokens a decoder has seen, at most `context`, and what it keeps of them.

    Long texts are fed in chunks of `chunk` tokens.
    """

    def __init__(
        self,
        vocabulary: int,
        step: Step,
        embed: Embed,
        buffers: CacheBuffers,
        context: int,
        chunk: int,
    ) -> None:
        self.tokens: list[int] = []
        self.context, self._chunk = context, chunk
        self._step, self._embed, self._vocabulary = step, embed, vocabulary
        self._buffers = buffers
        self._cached = 0  # the first tokens whose keys and values are in the buffers

    @property
    def nbytes(self) -> int:
        """Return the bytes of full caches."""
        return self._buffers.nbytes

    def bytes_read(self, length: int) -> int:
        """Return the bytes of caches that a token after `length` others reads."""
        return self._buffers.bytes_read(length)

    def caches(self) -> list[Array]:
        """Return the keys and values of all tokens seen, or of the last ones where older ones are not needed."""
        return self._buffers.views(self._cached, 0)

    def feed(self, tokens: Sequence[int], every: bool = False) -> Array:
        """Append tokens; return the logits after the last, f32 [1, vocabulary], or after `every` one.

        Raise UserError for no token, one that is not in the vocabulary, or more than the context holds.
        """
        self.check(tokens, len(self.tokens))
        for _ in self._steps(self.tokens[self._cached :], False):
            pass  # tokens that a window has passed are computed again
        found: list[Array] = []
        for logits in self._steps(tokens, every):
            found = [*found, logits] if every else [logits]
        return np.concatenate(found) if len(found) > 1 else found[0]

    def _steps(self, tokens: Sequence[int], every: bool) -> Iterator[Array]:
        """Run chunks of tokens; yield the logits of each, after its last token or `every` one."""
        for first in range(0, len(tokens), self._chunk):
            part = np.asarray(tokens[first : first + self._chunk], np.int64)
            rows = np.arange(len(part)) if every else np.array([len(part) - 1])
            caches = self._buffers.views(self._cached, len(part))
            yield self._step(self._embed(part), rows, *caches)[0][0]
            self.tokens[self._cached : self._cached + len(part)] = part.tolist()
            self._cached += len(part)

    def truncate(self, length: int) -> None:
        """Forget the tokens from `length` on. Raise UserError for a length that is not in [0, tokens seen]."""
        if not 0 <= length <= len(self.tokens):
            raise UserError(f"truncate: length must be in [0, {len(self.tokens)}], got {length}")
        del self.tokens[length:]
        if length < self._cached:
            self._cached = self._buffers.truncate(length)

    def reuse(self, tokens: Sequence[int]) -> list[int]:
        """Keep what the sequence has in common with `tokens`; return the others, at least the last one."""
        shared = 0
        for seen, given in zip(self.tokens, tokens[:-1], strict=False):
            if seen != given:
                break
            shared += 1
        self.truncate(shared)
        self.truncate(self._cached)
        return list(tokens[len(self.tokens) :])

    def resume(self, tokens: Sequence[int]) -> None:
        """Make the sequence `tokens` again, after whatever it was used for since."""
        if self.tokens[: len(tokens)] != tokens:
            self.feed(self.reuse(tokens))
        self.truncate(len(tokens))

    def check(self, tokens: Sequence[int], seen: int = 0) -> None:
        """Raise UserError for no token, one that is not in the vocabulary, or more than the context holds after those
        seen."""
        if not len(tokens):
            raise UserError(
                "generate: there must be a token to begin with, got none; give a prompt that is not empty"
            )
        wrong = [one for one in tokens if not 0 <= one < self._vocabulary]
        if wrong:
            raise UserError(f"tokens must be in [0, {self._vocabulary}), got {wrong[0]}")
        total = seen + len(tokens)
        if total > self.context:
            raise UserError(
                f"the context must hold all tokens, {self.context} at most, got {total}; load with a larger context"
            )
