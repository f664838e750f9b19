"""Names and texts of models where only printable text may stand: messages, comments, XML, terminals."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` with every character that cannot be printed or encoded as Python would write it: `\\x00`, `\\ud800`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def encodable(text: str) -> str:
    """`text` with its surrogates, which UTF-8 cannot hold, as Python (and JSON) would write them: `\\ud800`."""
    return text.encode(errors="backslashreplace").decode()
