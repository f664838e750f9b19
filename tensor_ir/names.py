"""Names in code: the only module that makes identifiers for buffers, variables and functions.

Code is named after what it computes (`relu_v2`, `in0`, `f32_gemm_add_8x8x8__amx`) and never after a model's tensors,
so no name in a model can break, shadow or distinguish kernels. What a model calls things is in notes, for people.

Names in one function differ by their form: `fresh` adds `_1`, `_2`, ..., a value of the graph ends in `_v` and a
number, parameters are `in0`, `out0`, and the fixed names that templates use have none of these endings.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Iterable

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_LETTERS = 60


def is_identifier(name: str) -> bool:
    """Return whether Tensor IR may use `name`: ASCII letters, digits and underscores, and no keyword of Python, as
    whose syntax the text is parsed."""
    return _IDENTIFIER.fullmatch(name) is not None and not keyword.iskeyword(name)


def identifier(text: str, most: int = _MAX_LETTERS) -> str:
    """An identifier of at most `most` characters that resembles `text`, which may be any string; not unique."""
    parts = unicodedata.normalize("NFKD", text[: 4 * most])
    bare = "".join(c for c in parts if not unicodedata.combining(c))
    name = re.sub(r"[^A-Za-z0-9_]+", "_", bare)[:most] or "unnamed"[:most]
    if name[0].isdigit():
        name = f"_{name}"[:most]
    return name if is_identifier(name) else f"{name[: most - 1]}_"


def value_name(kind: str, reader: str, number: int) -> str:
    """The name of the value that a reader of a fused group binds as its `number`-th; `reader` tells readers apart."""
    return f"{identifier(kind)}_{reader}v{number}"


class Names:
    """Hands out names that were not used before."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def fresh(self, wish: str) -> str:
        """`wish`, or `wish_1`, `wish_2`, ... when it is taken."""
        name, count = wish, self._next.get(wish, 0)
        while name in self._taken:
            count += 1
            name = f"{wish}_{count}"
        self._next[wish] = count
        self._taken.add(name)
        return name

    def reserve(self, name: str) -> None:
        """Never hand out `name`."""
        self._taken.add(name)
