"""Output of commands: names in models may be any text, and must not control the user's terminal."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from ..base.dims import Dim
from ..base.printable import printable

WIDTH = 100
"""Columns that tables and wrapped text fit into."""


def say(value: object) -> None:
    """Print a value's lines of text; unprintable characters except tabs are escaped as in Python."""
    print(shown(str(value)))


def say_lines(lines: Iterable[str], indent: int) -> None:
    """Print lines that fit into `WIDTH` columns; what continues a line is indented."""
    say("\n".join(wrapped(lines, indent)))


def answer(
    args: argparse.Namespace, facts: object, lines: Iterable[str], indent: int | None = None
) -> None:
    """Print the result of a command: facts as JSON where that is requested, else lines.

    `indent`: lines are wrapped, and what continues one is indented; None for lines that are to be copied, as they are.
    """
    if args.json:
        say(json.dumps(facts, default=_size_text))
    elif indent is None:
        say("\n".join(lines))
    else:
        say_lines(lines, indent)


def _size_text(value: object) -> str:
    """Return a dynamic size as JSON has it."""
    if isinstance(value, Dim):
        return str(value)
    raise TypeError(f"a fact must be plain or a size, got {type(value).__name__}")


def warn_of_load(threads: int) -> None:
    """Print a warning if other processes make measurements unreliable."""
    from ..bench.measure import load_warning

    if warning := load_warning(threads):
        print(f"graphc: warning: {warning}", file=sys.stderr)


def show(table: object) -> None:
    """Print a text, or a table of rich, which is as wide as the terminal, or `WIDTH` where there is none."""
    if isinstance(table, str):
        say(table)
        return
    from rich.console import Console

    console = Console()
    (console if console.is_terminal else Console(width=WIDTH)).print(table)


def shown(text: str) -> str:
    """Return a text with its unprintable characters except tabs and line ends escaped as in Python."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def shortened(text: str, width: int) -> str:
    """Return a text of at most `width` characters, with "..." for the middle of a longer one."""
    if len(text) <= width:
        return text
    tail = (width - 3) * 2 // 3
    return f"{text[: width - 3 - tail]}...{text[len(text) - tail :]}"


def wrapped(lines: Iterable[str], indent: int) -> Iterator[str]:
    """Yield lines that fit into `WIDTH` columns; what continues a line is indented."""
    for line in lines:
        if len(line) <= WIDTH:
            yield line
            continue
        lead = len(line) - len(line.lstrip())
        yield from textwrap.wrap(
            line.strip(), WIDTH, subsequent_indent=" " * (lead + indent), break_on_hyphens=False,
            drop_whitespace=True, replace_whitespace=False, initial_indent=" " * lead,
        )  # fmt: skip


def table(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Return the lines of a table: the last `left` columns are text, those before numbers, aligned to the right.

    The last column is shortened so that lines fit into `WIDTH` columns.
    """
    count = len(rows[0])
    widths = [max(len(row[i]) for row in rows) for i in range(count)]
    widths[-1] = min(widths[-1], WIDTH - sum(widths[:-1]) - 2 * (count - 1))
    lines = []
    for row in rows:
        numbers = [text.rjust(width) for text, width in zip(row[:-left], widths, strict=False)]
        texts = [
            shortened(text, width).ljust(width)
            for text, width in zip(row[-left:], widths[-left:], strict=True)
        ]
        lines.append("  ".join([*numbers, *texts]).rstrip())
    return lines
