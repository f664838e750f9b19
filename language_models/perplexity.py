"""The perplexity of a text: how likely a model holds its tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.block_types import Array
from ..base.errors import UserError
from .session import Session


def perplexity(session: Session, tokens: Sequence[int], size: int) -> float:
    """Return exp of the mean negative log likelihood of tokens but the first, fed in chunks of `size`.

    Tokens that do not fit the context are split into parts that fill it. Raise UserError for less than two tokens.
    """
    if len(tokens) < 2:
        raise UserError(f"perplexity: the text must have two tokens at least, got {len(tokens)}")
    total, count = 0.0, 0
    for first in range(0, len(tokens) - 1, session.context):
        part = tokens[first : first + session.context + 1]
        session.truncate(0)
        for begin in range(0, len(part) - 1, size):
            chunk = part[begin : begin + size][: len(part) - 1 - begin]
            logits = session.feed(chunk, every=True)
            wanted = np.array(part[begin + 1 : begin + 1 + len(chunk)])
            total -= _log_likelihood(logits, wanted)
            count += len(chunk)
    return float(np.exp(total / count))


def _log_likelihood(logits: Array, tokens: Array) -> float:
    wide = logits.astype(np.float64)
    most = wide.max(axis=1, keepdims=True)
    norm = most[:, 0] + np.log(np.exp(wide - most).sum(axis=1))
    return float((wide[np.arange(len(tokens)), tokens] - norm).sum())
