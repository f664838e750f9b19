"""The known name that a mistyped one resembles."""

from __future__ import annotations

from collections.abc import Sequence


def closest(name: str, known: Sequence[str], likeness: float = 0.6) -> str:
    """Return the known name most like `name`, or "" if none is.

    `likeness`: the lowest ratio of equal letters, 0 to 1, as difflib counts them.
    """
    import difflib  # only mistakes need it

    return "".join(difflib.get_close_matches(name, known, 1, likeness))


def suggestion(name: str, known: Sequence[str], likeness: float = 0.6) -> str:
    """Return "did you mean 'strides'?", or "" if no known name is like `name`."""
    like = closest(name, known, likeness)
    return f"did you mean '{like}'?" if like else ""
