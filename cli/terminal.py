"""Output of commands: names in models may be any text, and must not control the user's terminal."""

from __future__ import annotations

from ..base.printable import printable


def say(value: object) -> None:
    """Print a value's lines of text; unprintable characters except tabs are escaped as in Python."""
    lines = str(value).split("\n")
    print("\n".join("\t".join(map(printable, line.split("\t"))) for line in lines))
