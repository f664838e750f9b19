"""What a word that is not known may have been meant to be."""

from __future__ import annotations

from collections.abc import Sequence


def suggestion(name: str, known: Sequence[str], likeness: float = 0.6) -> str:
    """ "did you mean 'strides'?" with the known name that is most like `name`; "" where none is.

    `likeness`: the least ratio of equal letters, 0 to 1, as difflib counts them.
    """
    import difflib  # only mistakes need it

    close = difflib.get_close_matches(name, known, 1, likeness)
    return "".join(f"did you mean '{x}'?" for x in close)
