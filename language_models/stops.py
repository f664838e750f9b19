"""Texts before which a result ends, found in text that arrives in pieces."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.errors import UserError


class Stops:
    """Passes text on, but what may be the beginning of a stop text waits until it is known."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Raise UserError for what is not a list of texts."""
        if not isinstance(texts, list | tuple) or not all(isinstance(one, str) for one in texts):
            raise UserError(f"stop must be a text, or a list of texts, got {texts!r}")
        self._texts = [text for text in texts if text]
        self._waiting = ""
        self.found = False

    def push(self, text: str) -> str:
        """Return the text that certainly comes before any stop text."""
        self._waiting += text
        starts = [at for at in map(self._waiting.find, self._texts) if at >= 0]
        if starts:
            self.found = True
            return self._waiting[: min(starts)]
        kept = max((self._overlap(one) for one in self._texts), default=0)
        sure = len(self._waiting) - kept
        passed, self._waiting = self._waiting[:sure], self._waiting[sure:]
        return passed

    def rest(self) -> str:
        """Return what waits, at the end of the text."""
        passed, self._waiting = self._waiting, ""
        return "" if self.found else passed

    def _overlap(self, stop: str) -> int:
        """Return the length of the longest end of the text that begins a stop text."""
        longest = min(len(stop) - 1, len(self._waiting))
        return next((n for n in range(longest, 0, -1) if self._waiting.endswith(stop[:n])), 0)
