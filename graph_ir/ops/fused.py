"""Ops that mean what a subgraph does, made by passes, never by a frontend: fused, which is lowered as one function, and
kernel_call, an op that a kernel of user code computes."""

from __future__ import annotations

from typing import ClassVar

from ..ir.attributes import StrAttr
from ..ir.graph import Array, Graph, GraphTensor, Op
from ..ir.graph_attributes import GraphAttr
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import VariadicOperand
from ..ir.registry import register


class _Subgraph(Op):
    """Base: an op that means what its graph does."""

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


@register("fused")
class Fused(_Subgraph):
    """A group of ops that become one loop nest."""

    kind: ClassVar[str] = "fused"


@register("kernel_call")
class KernelCall(_Subgraph):
    """The op that is alone in `graph`, computed by an added kernel."""

    kind: ClassVar[str] = "loop"
    kernel = StrAttr("the name of the kernel among those of the op")

    @property
    def computed(self) -> Op:
        """The op that the kernel computes."""
        return self.graph.outputs[0].inputs[0].producer_owner


def call_kernel(graph: Graph, op: Op, kernel: str) -> GraphTensor:
    """Append a call of a kernel that computes `op`, on the inputs of `op`; return its result."""
    inputs = list(dict.fromkeys(op.inputs))
    alone = Graph(op.name)
    mapping = {x: alone.make_input(x.details, x.name) for x in inputs}
    twin = alone.make(op.op_name, [mapping[x] for x in op.inputs], op.attrs, op.name)
    alone.make_output(twin.outputs[0])
    attrs = {"graph": alone, "kernel": kernel}
    return graph.make("kernel_call", inputs, attrs, f"{op.name}.{kernel}").outputs[0]
