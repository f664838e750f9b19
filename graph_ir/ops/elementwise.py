"""Shared by all elementwise ops: a row describes an op, `define` creates its class.

A family file (`elementwise_unary`, `activation`, ...) is a table of rows; a new op needs only a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from ...base.dtypes import F32, DType
from ...base.records import dataclass
from ...base.size_limits import broadcast_sizes
from ...base.size_queries import sizes_text
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.attributes import Attribute
from ..ir.computation import Index, Read
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import FusibleOp
from ..ir.operands import Operand
from ..ir.reference import narrow, widen
from ..ir.registry import register

FLOAT = ("float",)
NUMBER = ("float", "int", "uint")
INTEGER = ("int", "uint")
BITS = ("int", "uint", "bool")
ANY = ("float", "int", "uint", "bool")


@dataclass(frozen=True)
class Row:
    """One elementwise op.

    `element(*operands, **attrs)` is the value of one output element, 16-bit floats being f32; `reference` the same on
    arrays, floats being float64. `accepts` are the dtype kinds of the operands, which agree in dtype; the output has
    that dtype, or `result`. `conditions` counts the leading operands that are bool instead; `attrs` are by name.
    `function(**attrs)` names the function of vector math that computes f32 more exactly than `element` would.
    """

    name: str
    meaning: str
    element: Callable[..., Expr]
    reference: Callable[..., Any]
    accepts: tuple[str, ...] = ANY
    inputs: tuple[str, ...] = ("x",)
    attrs: Mapping[str, Attribute[Any]] = field(default_factory=dict)
    result: DType | None = None
    conditions: int = 0
    function: Callable[..., str] | None = None


class Elementwise(FusibleOp):
    """An op whose output element i is a function of element i, or its broadcast, of every input."""

    elementwise: ClassVar[bool] = True
    row: ClassVar[Row]

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The broadcast shape in the operands' dtype, or the row's own."""
        dtype = self._operand_dtype(inputs)
        return [LogicalTensor(self.row.result or dtype, self._shape(inputs))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The row's formula, floats computed in float64 and rounded once."""
        with np.errstate(all="ignore"):
            value = self.row.reference(*(widen(x) for x in inputs), **self.attr_values())
        return [narrow(value, self.outputs[0].details.dtype)]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The row's expression on one element of each input."""
        dims = [x.details.plain_dims for x in self.inputs]
        row, attrs = self.row, self.attr_values()
        operands = [read(broadcast_index(index, d)) for read, d in zip(reads, dims, strict=True)]
        if row.function and operands[0].dtype == F32:
            return t.call(row.function(**attrs), *operands)
        return row.element(*operands, **attrs)

    def attr_values(self) -> dict[str, Any]:
        """Every attribute of the row, defaults included."""
        return {name: self.attr(name) for name in self.row.attrs}

    def _operand_dtype(self, inputs: Sequence[LogicalTensor]) -> DType:
        row = self.row
        for name, condition in zip(row.inputs[: row.conditions], inputs, strict=False):
            if condition.dtype.kind != "bool":
                raise self.rule(f"{name} must be bool", str(condition.dtype), "insert a cast")
        operands = inputs[row.conditions :]
        dtype = operands[0].dtype
        if any(x.dtype != dtype for x in operands):
            given = " and ".join(str(x.dtype) for x in operands)
            raise self.rule("inputs must have one dtype", given, "insert a cast")
        check_kind(self, operands[0], row.accepts)
        return dtype

    def _shape(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        try:
            return broadcast_sizes(*(x.plain_dims for x in inputs))
        except ValueError:
            shapes = " and ".join(sizes_text(x.plain_dims) for x in inputs)
            raise self.rule("input shapes must broadcast", shapes) from None


def define(row: Row, base: type[Elementwise] = Elementwise) -> type[Elementwise]:
    """Make and register the class of a row; `base` adds further rules."""
    name = "".join(part.capitalize() for part in row.name.split("_"))
    members = {
        "row": row,
        **{name: Operand() for name in row.inputs},
        **row.attrs,
        "__doc__": row.meaning,
        "__module__": base.__module__,
    }
    return register(row.name)(type(name, (base,), members))


def broadcast_index(index: Index, dims: Sequence[int]) -> Index:
    """Index into an input of shape `dims`: right-aligned, 0 on broadcast axes."""
    own = index[len(index) - len(dims) :]
    return tuple(t.as_expr(0) if size == 1 else i for i, size in zip(own, dims, strict=True))


def check_kind(op: Op, x: LogicalTensor, kinds: Sequence[str]) -> None:
    """Raise UserError in the name of `op` if the dtype of an input is of none of these kinds."""
    if x.dtype.kind not in kinds:
        raise op.rule(f"input dtype must be {kinds_text(kinds)}", str(x.dtype), "insert a cast")


def kinds_text(kinds: Sequence[str]) -> str:
    """Dtype kinds in the words of a message: `a float, signed or unsigned integer`."""
    if tuple(kinds) == NUMBER:
        return "a float or an integer"
    words = {
        "float": "a float",
        "int": "a signed integer",
        "uint": "an unsigned integer",
        "bool": "bool",
    }
    if set(INTEGER) <= set(kinds):
        words["int"] = "an integer"
        kinds = [kind for kind in kinds if kind != "uint"]
    return " or ".join(words[kind] for kind in kinds)
