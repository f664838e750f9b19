"""The table as text, for docs/formats.md: every op with its spelling in each format."""

from __future__ import annotations

import textwrap

from .row import Op, Table


def listing(table: Table, formats: tuple[str, ...]) -> str:
    """A paragraph per row: the op, or the meaning of a node of several ops, followed by the cells of each format."""
    ops: dict[str, list[str]] = {}
    for row in table.rows:
        lines = ops.setdefault(row.name if isinstance(row, Op) else f"({row.name})", [])
        for name in formats:
            for spelling in row.spellings(name):
                text = f"{name:<5} {spelling.text}"
                lines += textwrap.wrap(text, 110, initial_indent="  ", subsequent_indent=" " * 10)
    return "\n".join(line for name, lines in ops.items() for line in (name, *sorted(lines)))
