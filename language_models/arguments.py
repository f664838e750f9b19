"""Checks of what a caller gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

from ..base.errors import UserError


def integer(name: str, value: Any, low: int = 0, high: int | None = None) -> int:
    """Return an integer in [low, high]. Raise UserError for others."""
    found = _index(value)
    if found is None or found < low or (high is not None and found > high):
        rule = f"of at least {low}" if high is None else f"in [{low}, {high}]"
        raise UserError(f"{name} must be an integer {rule}, got {value!r}")
    return found


def token_list(tokens: Iterable[Any]) -> list[int]:
    """Return tokens as a list. Raise UserError for one that is not an integer."""
    given = list(tokens)
    found = [one for one in map(_index, given) if one is not None]
    if len(found) < len(given):
        wrong = next(one for one in given if _index(one) is None)
        raise UserError(
            f"a prompt must be a text, tokens or messages, or a list of these, got {wrong!r} in one"
        )
    return found


def stop_texts(stop: str | Sequence[str]) -> tuple[str, ...]:
    """Return the texts before which a result ends. Raise UserError for anything else."""
    texts = (stop,) if isinstance(stop, str) else tuple(stop or ())
    for text in texts:
        if not isinstance(text, str):
            raise UserError(f"generate: stop must be a text, or several, got {text!r}")
    return texts


def _index(value: Any) -> int | None:
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None
