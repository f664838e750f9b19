"""Guesses of the next tokens, looked up in the text so far: after the same tokens the same ones often follow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LONGEST = 4
"""Tokens at the end of the text that are looked for, then one less at a time."""

SHORTEST = 2
"""A single token says too little of what follows."""


def looked_up(tokens: Sequence[int], count: int) -> list[int]:
    """Return up to `count` tokens that followed the text's end where it last stood before, or none."""
    text = np.asarray(tokens)
    for length in range(min(LONGEST, len(text) - 1), SHORTEST - 1, -1):
        if count < 1:
            break
        windows = np.lib.stride_tricks.sliding_window_view(text[:-1], length)
        found = np.flatnonzero((windows == text[-length:]).all(axis=1))
        if len(found):
            first = int(found[-1]) + length
            return [int(token) for token in text[first : first + count]]
    return []
