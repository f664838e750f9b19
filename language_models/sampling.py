"""The choice of the next token: the likeliest, or one drawn from the likeliest ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.block_types import Array
from ..base.errors import UserError
from ..base.records import dataclass


@dataclass(frozen=True)
class Sampling:
    """The way tokens are chosen.

    Attributes:
        temperature: Logits are divided by it; 0 chooses the likeliest token.
        top_k: Number of the likeliest tokens to draw from; 0: all.
        top_p: Only the likeliest tokens whose probabilities add up to this.
        min_p: Only tokens with at least this share of the largest probability.
        repetition_penalty: Positive logits of tokens seen before are divided by it, others multiplied.
        seed: Of the random numbers; None draws others in every call.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None

    def check(self) -> None:
        """Raise UserError for a number outside its range."""
        rules = (
            ("temperature", self.temperature >= 0, "at least 0"),
            ("top_k", self.top_k >= 0, "at least 0"),
            ("top_p", 0 < self.top_p <= 1, "in (0, 1]"),
            ("min_p", 0 <= self.min_p <= 1, "in [0, 1]"),
            ("repetition_penalty", self.repetition_penalty > 0, "positive"),
        )
        for name, holds, rule in rules:
            if not holds:
                raise UserError(f"{name} must be {rule}, got {getattr(self, name)}")


class Sampler:
    """Chooses tokens, one call after another, with random numbers of its seed."""

    def __init__(self, sampling: Sampling) -> None:
        sampling.check()
        self._how = sampling
        self._random = np.random.default_rng(sampling.seed)

    def choose(self, logits: Array, seen: Sequence[int]) -> int:
        """Return the next token, of logits f32 [vocabulary] after the tokens `seen`."""
        how = self._how
        if how.repetition_penalty != 1 and len(seen):
            logits = _penalized(logits, np.unique(seen), how.repetition_penalty)
        if not how.temperature:
            return int(logits.argmax())
        order = _likeliest(logits, how.top_k)
        scaled = logits[order].astype(np.float64) / how.temperature
        share = np.exp(scaled - scaled[0])
        share /= share.sum()
        before = np.cumsum(share) - share
        kept = (before < how.top_p) & (share >= how.min_p * share[0])
        share = np.where(kept, share, 0)
        return int(self._random.choice(order, p=share / share.sum()))


def _penalized(logits: Array, seen: Array, penalty: float) -> Array:
    logits = logits.copy()
    old = logits[seen]
    logits[seen] = np.where(old > 0, old / penalty, old * penalty)
    return logits


def _likeliest(logits: Array, count: int) -> Array:
    """The indices of the largest logits, `count` or all, the largest first."""
    if not 0 < count < len(logits):
        return np.argsort(-logits, kind="stable")
    found = np.argpartition(-logits, count)[:count]
    return found[np.argsort(-logits[found], kind="stable")]
