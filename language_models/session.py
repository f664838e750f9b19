"""A sequence of tokens and its caches of keys and values, which grow in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..base.block_types import Array
from ..base.dtypes import F32, DType
from ..base.errors import UserError


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


class Sizes(Protocol):
    """The sizes of a decoder that a session needs."""

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        ...

    @property
    def layers(self) -> int:
        """Number of blocks."""
        ...

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        ...

    @property
    def key_size(self) -> int:
        """Elements of a key."""
        ...

    @property
    def value_size(self) -> int:
        """Elements of a value."""
        ...


class Session:
    """The tokens a decoder has seen, at most `context`, and what it keeps of them.

    Long texts are fed in chunks of `chunk` tokens. The system gives memory to the buffers as they fill.
    """

    def __init__(
        self,
        config: Sizes,
        step: Step,
        embed: Embed,
        context: int,
        chunk: int,
        cache: DType = F32,
    ) -> None:
        self.tokens: list[int] = []
        self.context, self._chunk = context, chunk
        self._step, self._embed, self._vocabulary = step, embed, config.vocabulary
        shapes = [
            (1, config.kv_heads, context, size) for size in (config.key_size, config.value_size)
        ]
        self._buffers = [np.zeros(shape, cache.numpy) for shape in shapes * config.layers]

    def feed(self, tokens: Sequence[int], every: bool = False) -> Array:
        """Append tokens; return the logits after the last, f32 [1, vocabulary], or after `every` one.

        Raise UserError for no token, one that is not in the vocabulary, or more than the context holds.
        """
        self._check(tokens)
        found = []
        for first in range(0, len(tokens), self._chunk):
            part = np.asarray(tokens[first : first + self._chunk], np.int64)
            is_last = first + self._chunk >= len(tokens)
            rows = np.arange(len(part)) if every else np.array([len(part) - 1])
            caches = [buffer[:, :, : len(self.tokens)] for buffer in self._buffers]
            logits = self._step(self._embed(part), rows, *caches)[0]
            self.tokens += part.tolist()
            if every or is_last:
                found.append(logits[0])
        return np.concatenate(found) if len(found) > 1 else found[0]

    def truncate(self, length: int) -> None:
        """Forget the tokens from `length` on. Raise UserError for a length that is not in [0, tokens seen]."""
        if not 0 <= length <= len(self.tokens):
            raise UserError(f"truncate: length must be in [0, {len(self.tokens)}], got {length}")
        del self.tokens[length:]

    def reuse(self, tokens: Sequence[int]) -> list[int]:
        """Keep what the sequence has in common with `tokens`; return the others, at least the last one."""
        shared = 0
        for seen, given in zip(self.tokens, tokens[:-1], strict=False):
            if seen != given:
                break
            shared += 1
        self.truncate(shared)
        return list(tokens[shared:])

    def _check(self, tokens: Sequence[int]) -> None:
        if not len(tokens):
            raise UserError(
                "generate: there must be a token to begin with, got none; give a prompt that is not empty"
            )
        wrong = [one for one in tokens if not 0 <= one < self._vocabulary]
        if wrong:
            raise UserError(f"tokens must be in [0, {self._vocabulary}), got {wrong[0]}")
        total = len(self.tokens) + len(tokens)
        if total > self.context:
            raise UserError(
                f"the context must hold all tokens, {self.context} at most, got {total}; load with a larger context"
            )
