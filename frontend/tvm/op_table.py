"""Every operator that is read: the table of all formats, and functions by family."""

from __future__ import annotations

from collections.abc import Mapping

from ...graph_ir.ir.graph import Op
from ...graph_ir.ir.registry import lookup
from ...graph_ir.ops.elementwise import Elementwise
from ..correspondence import row as rows
from ..correspondence.gathering import op_table
from ..correspondence.spelling import Spelling
from ..correspondence.tables import TABLE
from ..correspondence.writing import objection
from . import operators, windows  # noqa: F401
from .scope import Operator

_ROWS = TABLE.reads("tvm")
_WRITTEN = TABLE.writes("tvm")

OPERATORS: Mapping[str, Operator] = op_table(TABLE, "tvm", globals())[0]
"""Operator to its meaning."""


def arity(name: str) -> tuple[int, int]:
    """The fewest and the most operands of an operator; -1 for all there are."""
    if name not in _ROWS:  # one tensor and a number, or a tensor and a bias
        return (1, 1) if name.endswith("_scalar__") else (2, 2)
    formals = _ROWS[name][0][1].formals
    if any(formal.variadic for formal in formals):
        return -1, -1
    return sum(not formal.optional for formal in formals), len(formals)


def _is_elementwise(row: rows.Row) -> bool:
    return row.name == "copy" or (
        isinstance(row, rows.Op) and issubclass(lookup(row.name), Elementwise)
    )


_BY_ELEMENT = [name for name, ((row, _), *_) in _ROWS.items() if _is_elementwise(row)]

ELEMENTWISE = {name for name in _BY_ELEMENT if arity(name)[1] == 1}
"""Operators whose result has the shape of their only operand."""

KEEPING = (ELEMENTWISE - {"cast"}) | {"prelu", "nn_prelu", "bias_add", "nn_bias_add"}
"""Operators whose result has the type and shape of their first operand."""

BROADCASTING = {name for name in _BY_ELEMENT if arity(name)[1] == 2} | {"nn_bias_add"}
"""Operators that work element by element on operands which may be broadcast."""


def operator_name(op: Op) -> str:
    """The operator that says all of an op, or else the nearest; the op's own name where TVM has none."""
    spellings = _WRITTEN.get(op.op_name, [])
    exact = (s for s in spellings if objection(op, s, is_row=not s.pair) is None)
    chosen = next(exact, spellings[0] if spellings else None)
    return _by_axes(op, chosen) if chosen else op.op_name


def _by_axes(op: Op, spelling: Spelling) -> str:
    """The type for the op's number of spatial axes, of a cell that has one for each; else the first."""
    axes = f"{op.inputs[0].details.rank - 2}d" if op.inputs else ""
    return next((name for name in spelling.types if axes and axes in name), spelling.types[0])
