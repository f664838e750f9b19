"""Sources and sinks of a graph: input, constant, output."""

from __future__ import annotations

from typing import Any, ClassVar

from ...base.dtypes import from_numpy
from ..ir.attributes import (
    ArrayAttr,
    AttributeOwner,
    FormatAttr,
    StrAttr,
    TensorTypeAttr,
    optional,
)
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.registry import register


@register("input")
class Input(Op):
    """A tensor that the caller passes to each run."""

    kind: ClassVar[str] = "source"
    operations: ClassVar[int] = 0
    is_input: ClassVar[bool] = True
    details = TensorTypeAttr("dtype, sizes and layout")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The declared tensor."""
        return [self.details]


@register("constant")
class Constant(Op):
    """A tensor known at compile time."""

    kind: ClassVar[str] = "source"
    operations: ClassVar[int] = 0
    is_constant: ClassVar[bool] = True
    value = ArrayAttr("the elements, in plain layout")
    format = optional(FormatAttr("layout in memory; none: plain"))

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """dtype and shape of the value, in the chosen format."""
        layout: Any = self.format
        return [LogicalTensor(from_numpy(self.value.dtype), self.value.shape, layout)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The value itself."""
        return [self.value]


class _ResultNameAttr(StrAttr):
    """A name that an op of the graph may bear too; that of the op itself where none is given."""

    def default_of(self, op: AttributeOwner) -> str:
        """The name of the op."""
        return op.name


@register("output")
class Output(Op):
    """A tensor that is returned to the caller."""

    kind: ClassVar[str] = "sink"
    operations: ClassVar[int] = 0
    is_output: ClassVar[bool] = True
    x = Operand()
    result_name = _ResultNameAttr("name of the input or output", default="", key="temp.result")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """Return no outputs."""
        return []
