"""The table as text, for docs/reference/spellings.md: every op with its spelling in each format."""

from __future__ import annotations

import textwrap

from .row import Op, Table


def listing(table: Table, formats: tuple[str, ...]) -> str:
    """A paragraph per row: the op, or the meaning of a node of several ops, followed by the cells of each format."""
    ops: dict[str, list[str]] = {}
    for row in table.rows:
        cells = ops.setdefault(row.name if isinstance(row, Op) else f"({row.name})", [])
        for name in formats:
            cells += [f"{name:<5} {spelling.text}" for spelling in row.spellings(name)]
    return "\n".join(
        line
        for name, cells in ops.items()
        for line in (name, *(part for cell in sorted(cells) for part in _wrapped(cell)))
    )


def _wrapped(cell: str) -> list[str]:
    return textwrap.wrap(cell, 110, initial_indent="  ", subsequent_indent=" " * 10)
