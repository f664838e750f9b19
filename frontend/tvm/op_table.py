"""Every operator that is read: the table of all formats, and functions by family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...graph_ir.ir.graph import Op
from ...graph_ir.ir.registry import lookup
from ...graph_ir.ops.elementwise import Elementwise
from ..correspondence import row as rows
from ..correspondence.reading import readers
from ..correspondence.spelling import Spelling
from ..correspondence.tables import TABLE
from ..correspondence.writing import objection
from . import indexing, normalize, operators, windows
from .scope import Operator

_ROWS: Mapping[str, list[tuple[rows.Row, Spelling]]] = TABLE.reads("tvm")


def _arity(spelling: Spelling) -> int:
    """How many operands an operator has; -1 for all there are."""
    return -1 if any(formal.variadic for formal in spelling.formals) else len(spelling.formals)


def _elementwise() -> Iterator[tuple[str, int]]:
    """The operators that compute each element alone, with the number of their operands."""
    for type_name, ((row, spelling), *_) in _ROWS.items():
        if (
            isinstance(row, rows.Op)
            and issubclass(lookup(row.name), Elementwise)
            or row.name == "copy"
        ):
            yield type_name, _arity(spelling)


_FUNCTIONS = {
    "matmul_core": "nn_matmul", "concat": "concatenate", "broadcast": "broadcast_to", "slice": "strided_slice",
    "gather": "take", "layer_norm": "nn_layer_norm", "batch_norm": "nn_batch_norm", "pad": "nn_pad", "top_k": "topk",
}  # fmt: skip
"""Our op to the operator it is called, where a function reads it."""

OPERATORS: Mapping[str, tuple[int, Operator]] = {
    **{
        name: (_arity(_ROWS[name][0][1]), read)
        for name, read in readers(TABLE, "tvm", operators.PAIRS).items()
    },
    **operators.OPERATORS,
    **windows.OPERATORS,
    **normalize.OPERATORS,
    **indexing.OPERATORS,
}
"""Operator to the number of its operands (-1: all there are) and its meaning."""

ELEMENTWISE = {name for name, count in _elementwise() if count == 1}
"""Operators whose result has the shape of their only operand."""

BROADCASTING = {name for name, count in _elementwise() if count == 2} | {"nn_bias_add"}
"""Operators that work element by element on operands which may be broadcast."""

_WRITTEN = TABLE.writes("tvm")


def operator_name(op: Op) -> str:
    """The operator that says all of an op, or else the nearest; the op's own name where TVM has none."""
    spellings = _WRITTEN.get(op.op_name, [])
    exact = (s for s in spellings if objection(op, s, is_row=not s.pair) is None)
    chosen = next(exact, spellings[0] if spellings else None)
    return chosen.types[0] if chosen else _FUNCTIONS.get(op.op_name, op.op_name)
