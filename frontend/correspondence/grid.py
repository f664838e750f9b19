"""Rows of ops that differ only in their names, as a grid: a line per op, a column per format."""

from __future__ import annotations

from .row import Op


def grid(text: str, **templates: str) -> tuple[Op, ...]:
    """The rows of a grid, whose first line names the columns; a name is put into its column's template.

    `op onnx ge`, `abs Abs Abs` with onnx="{}(X)", ge="{}(x)" give `Op("abs", onnx="Abs(X)", ge="Abs(x)")`. `-` is
    no cell; `a/b` are two types of one meaning.
    """
    header, *lines = [line.split() for line in text.splitlines() if line.strip()]
    rows = []
    for op_name, *types in lines:
        cells = {}
        for column, names in zip(header[1:], types, strict=True):
            if names != "-":
                head, found, tail = templates[column].partition("(")
                joined = "/".join(head.format(name) for name in names.split("/"))
                cells[column] = joined + found + tail
        rows.append(Op(op_name, **cells))
    return tuple(rows)
