"""Checks of a run: the last outputs of a model may be conditions, which are not returned but must hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .errors import UserError


def without_checks(
    model: str, results: list[np.ndarray[Any, Any]], checks: Sequence[str]
) -> list[np.ndarray[Any, Any]]:
    """The results without the conditions at their end. UserError with the message of the first that does not hold."""
    count = len(results) - len(checks)
    for holds, message in zip(results[count:], checks, strict=True):
        if not holds.all():
            raise UserError(f"model '{model}': {message}")
    return results[:count]
