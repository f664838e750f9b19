"""The operators a fused kernel is named after: `tvmgen_default_fused_nn_dense_add_nn_relu_3`."""

from __future__ import annotations

import re
from collections.abc import Collection

_PREFIX = re.compile(r"(?:tvmgen_\w*?_)?fused?_+")
_COUNTER = re.compile(r"_+\d{1,9}\Z", re.ASCII)
_HASH = re.compile(r"_[0-9a-f]{12,20}_(?:_?\d+)?\Z", re.ASCII)
_MAX_CHARACTERS = 4096


def split_name(func_name: str, known: Collection[str]) -> list[str] | str:
    """The operators in order, each one of `known`; where that fails, the reason as a text.

    Of several readings the one whose first operators are longest counts: the format itself is ambiguous.
    """
    prefix = _PREFIX.match(func_name)
    if not prefix:
        return "its name does not begin with fused_, so it is code that TVM did not generate"
    if len(func_name) > _MAX_CHARACTERS:
        return f"its name is longer than {_MAX_CHARACTERS} characters"
    if _HASH.search(func_name):
        return "its name was cut off, so the last operators are lost"
    body = func_name[prefix.end() :]
    for text in (body, _COUNTER.sub("", body)):
        found = _split(text.rstrip("_"), known)
        if found is not None:
            return found
    return f"its name holds operators that are not supported ('{_rest(body, known)[:80]}')"


def _split(text: str, known: Collection[str]) -> list[str] | None:
    """A reading of the whole text, found from the back: choice[i] is the first operator of text[i:]."""
    # Old names such as __add_scalar__ bring their own underscores.
    bare = {name.strip("_"): name for name in known}
    sizes = sorted({len(name) for name in bare}, reverse=True)
    choice: dict[int, tuple[str, int]] = {}
    for start in range(len(text) - 1, -1, -1):
        for size in sizes:
            word, end = text[start : start + size], start + size
            after = end
            while after < len(text) and text[after] == "_":
                after += 1
            apart = after > end or end == len(text)
            if word in bare and apart and (after in choice or after == len(text)):
                choice[start] = (bare[word], after)
                break
    found, at = [], 0
    while at < len(text):
        if at not in choice:
            return None
        word, at = choice[at]
        found.append(word)
    return found or None


def _rest(text: str, known: Collection[str]) -> str:
    """Return the text after the longest run of known operators."""
    names = sorted(known, key=len, reverse=True)
    while True:
        name = next((n for n in names if text.startswith(n + "_")), None)
        if name is None:
            return text
        text = text[len(name) + 1 :]
