"""fused: a subgraph lowered as one function. Made by the pass `fuse`, never by a frontend."""

from __future__ import annotations

from typing import ClassVar

from ..ir.graph import Array, Op
from ..ir.graph_attributes import GraphAttr
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import VariadicOperand
from ..ir.registry import register


@register("fused")
class Fused(Op):
    """A group of ops that become one loop nest."""

    kind: ClassVar[str] = "fused"
    x = VariadicOperand("the inputs of the graph")
    graph = GraphAttr("its inputs and outputs are this op's, in order")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The tensors the subgraph's outputs carry."""
        return [op.inputs[0].details for op in self.graph.outputs]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The references of the subgraph, one after the other."""
        return self.graph.evaluate(inputs)

    def get_gflop(self) -> float:
        """Work of the subgraph."""
        return self.graph.get_gflop()
