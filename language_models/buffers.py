"""The memory of caches: a buffer for each, which fills; layers with a window keep its tokens and a few more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.block_types import Array
from ..frontend.decoder.caches import Cache


class CacheBuffers:
    """Buffers of `heads` heads for up to `context` tokens, of which a call appends `chunk` at most.

    Buffers of layers with a window of `window` tokens have room for it and two calls. A full one moves its window to
    its beginning. The system gives memory to buffers as they fill.
    """

    def __init__(
        self, caches: Sequence[Cache], heads: int, context: int, chunk: int, window: int
    ) -> None:
        self._window, self._caches, self._heads = window, caches, heads
        self._room = min(context, window - 1 + 2 * chunk)
        self._first = 0  # the token at the beginning of buffers of layers with a window
        self._slides = [one.is_local and self._room < context for one in caches]
        self._buffers = [
            np.zeros((1, heads, self._room if slides else context, one.size), one.dtype.numpy)
            for one, slides in zip(caches, self._slides, strict=True)
        ]

    @property
    def nbytes(self) -> int:
        """Return the bytes of full buffers."""
        return sum(one.nbytes for one in self._buffers)

    def bytes_read(self, length: int) -> int:
        """Return the bytes that a token after `length` others reads."""
        seen = {False: length, True: min(length, self._window - 1)}
        return sum(
            seen[one.is_local] * self._heads * one.size * one.dtype.size for one in self._caches
        )

    def views(self, length: int, new: int) -> list[Array]:
        """Return the tokens that `new` ones after `length` need, in buffers that have room for these."""
        kept = min(length, self._window - 1)
        if any(self._slides) and length + new - self._first > self._room:
            begin = length - kept - self._first
            for buffer, slides in zip(self._buffers, self._slides, strict=True):
                if slides:
                    buffer[:, :, :kept] = buffer[:, :, begin : begin + kept]
            self._first = length - kept
        end = length - self._first
        return [
            buffer[:, :, end - kept : end] if slides else buffer[:, :, :length]
            for buffer, slides in zip(self._buffers, self._slides, strict=True)
        ]

    def truncate(self, length: int) -> int:
        """Return the tokens that remain of `length`: all, or none where the window before the next is gone."""
        if not any(self._slides) or length - self._window + 1 >= self._first or not self._first:
            return length
        self._first = 0
        return 0
