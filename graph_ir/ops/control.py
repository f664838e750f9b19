"""Control flow: case runs one of several subgraphs, while runs a subgraph repeatedly.

A subgraph is closed: values from outside are inputs of the op and, at the same position, inputs of the subgraph. The
subgraphs run in the same native call as everything else.
"""

from __future__ import annotations

from typing import ClassVar

from ...base.dtypes import BOOL, S64
from ..ir.graph import Array, Graph, Op
from ..ir.graph_attributes import GraphAttr, GraphsAttr
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand, VariadicOperand
from ..ir.registry import register


class ControlOp(Op):
    """An op that decides at run time which subgraphs run, and how often."""

    kind: ClassVar[str] = "control"

    def signature(self, graph: Graph) -> tuple[list[LogicalTensor], list[LogicalTensor]]:
        """Inputs and outputs of a subgraph, in plain layouts."""
        inputs = [_plain(op.outputs[0].details) for op in graph.inputs]
        return inputs, [_plain(op.inputs[0].details) for op in graph.outputs]

    def check_inputs(self, graph: Graph, inputs: list[LogicalTensor], what: str) -> None:
        """Raise UserError if a subgraph does not take these inputs."""
        takes = self.signature(graph)[0]
        given = [_plain(x) for x in inputs]
        if takes != given:
            raise self.rule(
                f"{what} '{graph.name}' must take the op's inputs ({_listed(given)})",
                f"a graph of ({_listed(takes)})",
            )


@register("case")
class Case(ControlOp):
    """Run branch `index` on the other inputs, or the last branch if the index is out of range.

    The branches have the same inputs (all but the index) and the same outputs.
    """

    index = Operand("s64[]")
    x = VariadicOperand("the inputs of each branch")
    branches = GraphsAttr("graphs of the same inputs and outputs")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """Return the types that all branches return."""
        if _plain(inputs[0]) != LogicalTensor(S64, ()):
            raise self.rule("the index must be s64[]", str(inputs[0]))
        if not self.branches:
            raise self.rule("there must be a branch", "none")
        first = self.signature(self.branches[0])[1]
        for branch in self.branches:
            self.check_inputs(branch, inputs[1:], "branch")
            returned = self.signature(branch)[1]
            if returned != first:
                raise self.rule(
                    "all branches must return the same types",
                    f"({_listed(first)}) from '{self.branches[0].name}' and ({_listed(returned)}) "
                    f"from '{branch.name}'",
                )
        return first

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The references of the branch taken."""
        index = int(inputs[0])
        chosen = index if 0 <= index < len(self.branches) else -1
        return self.branches[chosen].evaluate(inputs[1:])

    def get_gflop(self) -> float:
        """Work of the longest branch."""
        return max(branch.get_gflop() for branch in self.branches)


@register("while")
class While(ControlOp):
    """Run `body` while `condition` holds; return the final state.

    Both graphs take all inputs; the body returns new values for the first of them, the state, and the rest stays the
    same for all rounds.
    """

    x = VariadicOperand("the first state, then what stays the same")
    condition = GraphAttr("returns a bool[]: run another iteration")
    body = GraphAttr("one iteration")

    @property
    def carried(self) -> int:
        """The number of inputs that are the state."""
        return len(self.body.outputs)

    @property
    def in_place_state(self) -> frozenset[int]:
        """The parts of the state that the body updates in place."""
        last = [output.inputs[0].producer_owner for output in self.body.outputs]
        return frozenset(i for i, made in enumerate(last) if made.op_name == "update_in_place")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The types of the state."""
        for graph, what in ((self.condition, "condition"), (self.body, "body")):
            self.check_inputs(graph, inputs, what)
        decides = self.signature(self.condition)[1]
        if decides != [LogicalTensor(BOOL, ())]:
            raise self.rule("the condition must return a bool[]", f"({_listed(decides)})")
        returned = self.signature(self.body)[1]
        state = [_plain(x) for x in inputs[: len(returned)]]
        if not returned or returned != state:
            raise self.rule(
                f"the body must return the types of the state ({_listed(state)})",
                f"({_listed(returned)})",
            )
        return returned

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The references of condition and body, alternately; may never terminate."""
        state, fixed = list(inputs[: self.carried]), list(inputs[self.carried :])
        while bool(self.condition.evaluate([*state, *fixed])[0]):
            state = self.body.evaluate([*state, *fixed])
        return state

    def get_gflop(self) -> float:
        """Work of one iteration: their number depends on the data."""
        return self.condition.get_gflop() + self.body.get_gflop()


def _plain(details: LogicalTensor) -> LogicalTensor:
    return LogicalTensor(details.dtype, details.plain_dims)


def _listed(many: list[LogicalTensor]) -> str:
    return ", ".join(map(str, many))
