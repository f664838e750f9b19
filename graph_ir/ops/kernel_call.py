"""kernel_call: an op that a kernel of user code computes. Made by the pass `call_kernels`, never by a frontend."""

from __future__ import annotations

from typing import ClassVar

from ..ir.attributes import StrAttr
from ..ir.graph import Array, Graph, GraphTensor, Op
from ..ir.graph_attributes import GraphAttr
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import VariadicOperand
from ..ir.registry import register


@register("kernel_call")
class KernelCall(Op):
    """The op in `graph`, computed by an added kernel."""

    kind: ClassVar[str] = "loop"
    x = VariadicOperand("the inputs of the graph")
    graph = GraphAttr("the op, alone; inputs and output are those of this op, in order")
    kernel = StrAttr("the name of the kernel among those of the op")

    @property
    def computed(self) -> Op:
        """The op that the kernel computes."""
        return self.graph.outputs[0].inputs[0].producer_owner

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """Return the result types of the op."""
        return [op.inputs[0].details for op in self.graph.outputs]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Evaluate the reference of the op."""
        return self.graph.evaluate(inputs)

    def get_gflop(self) -> float:
        """Work of the op."""
        return self.graph.get_gflop()


def call_kernel(graph: Graph, op: Op, kernel: str) -> GraphTensor:
    """Append a call of a kernel that computes `op`, on the inputs of `op`; return its result."""
    inputs = list(dict.fromkeys(op.inputs))
    alone = Graph(op.name)
    mapping = {x: alone.make_input(x.details, x.name) for x in inputs}
    twin = alone.make(op.op_name, [mapping[x] for x in op.inputs], op.attrs, op.name)
    alone.make_output(twin.outputs[0])
    attrs = {"graph": alone, "kernel": kernel}
    return graph.make("kernel_call", inputs, attrs, f"{op.name}.{kernel}").outputs[0]
