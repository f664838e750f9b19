"""The choice of the next token: the likeliest, or one drawn from the likeliest ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

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
        rules: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
            ("temperature", lambda x: x >= 0, "a number of at least 0"),
            ("top_p", lambda x: 0 < x <= 1, "a number in (0, 1]"),
            ("min_p", lambda x: 0 <= x <= 1, "a number in [0, 1]"),
            ("repetition_penalty", lambda x: x > 0, "a positive number"),
        )
        for name, holds, rule in rules:
            value = getattr(self, name)
            if not isinstance(value, Real) or not math.isfinite(value) or not holds(value):
                raise UserError(f"{name} must be {rule}, got {value!r}")
        check_integer("top_k", self.top_k)
        if self.seed is not None:
            check_integer("seed", self.seed)


def check_integer(name: str, value: object, low: int = 0, high: int | None = None) -> None:
    """Raise UserError for what is not an integer from `low` to `high`."""
    if (
        not isinstance(value, int | np.integer)
        or not low <= value
        or not (high is None or value <= high)
    ):
        rule = f"of at least {low}" if high is None else f"in [{low}, {high}]"
        raise UserError(f"{name} must be an integer {rule}, got {value!r}")


class Sampler:
    """Chooses tokens, one call after another, with random numbers of its seed."""

    def __init__(self, sampling: Sampling) -> None:
        sampling.check()
        self._how = sampling
        self._random = np.random.default_rng(sampling.seed)

    def choose(self, logits: Array, seen: Sequence[int]) -> int:
        """Return the next token, of logits f32 [vocabulary] after the tokens `seen`. Raise UserError if the largest is
        not a finite number."""
        how = self._how
        if how.repetition_penalty != 1 and len(seen):
            logits = _penalized(logits, np.unique(seen), how.repetition_penalty)
        best = int(logits.argmax())  # the first NaN, if there is one
        if not math.isfinite(logits[best]):
            raise UserError(
                f"logits must be finite numbers, got {logits[best]}; the weights are wrong, or their sums overflow"
            )
        if not how.temperature:
            return best
        order = _likeliest(logits, how.top_k)
        with np.errstate(over="ignore"):  # as -inf, whose share is 0
            share = np.exp((logits[order] - np.float64(logits[best])) / how.temperature)
        share /= share.sum()
        before = np.cumsum(share) - share
        kept = (before < how.top_p) & (share >= how.min_p * share[0])
        share = np.where(kept, share, 0)
        return int(self._random.choice(order, p=share / share.sum()))


def _penalized(logits: Array, seen: Array, penalty: float) -> Array:
    logits = logits.copy()
    old, limit = logits[seen].astype(np.float64), np.finfo(logits.dtype).max
    with np.errstate(all="ignore"):
        logits[seen] = np.clip(np.where(old > 0, old / penalty, old * penalty), -limit, limit)
    return logits


def _likeliest(logits: Array, count: int) -> Array:
    """The indices of the largest logits, `count` or all, the largest first."""
    if not 0 < count < len(logits):
        return np.argsort(-logits, kind="stable")
    found = np.argpartition(-logits, count)[:count]
    return found[np.argsort(-logits[found], kind="stable")]
