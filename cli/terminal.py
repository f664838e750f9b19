"""What commands print: names in models are any text, and must not steer the terminal of who looks at them."""

from __future__ import annotations

from ..base.printable import printable


def say(value: object) -> None:
    """Print a value's lines of text, with what is neither printable nor a tab as Python would write it."""
    lines = str(value).split("\n")
    print("\n".join("\t".join(map(printable, line.split("\t"))) for line in lines))
