"""The classes of ops that user code defines: elementwise, made of other ops, or with a kernel of user code only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ..base.records import dataclass
from ..graph_ir.ir.computation import Index, Read
from ..graph_ir.ir.graph import Array, Graph, GraphTensor
from ..graph_ir.ir.logical_tensor import LogicalTensor
from ..graph_ir.ir.op import Op
from ..graph_ir.ir.op_kinds import CompositeOp
from ..graph_ir.ir.reference import narrow, widen
from ..graph_ir.ops.compose import Composer
from ..graph_ir.ops.elementwise import Elementwise
from ..tensor_ir.nodes import Expr
from .blame import called


@dataclass(frozen=True)
class Definition:
    """Functions of user code. Each takes a value per operand (None for one that is absent, a tuple for any number), and
    the attributes by keyword; `compose` before that what makes an op."""

    infer: Callable[..., Any] | None
    reference: Callable[..., Any] | None
    compose: Callable[..., Any] | None


class DefinedElementwise(Elementwise):
    """An elementwise op whose formulas are user code."""

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Evaluate the reference like `Elementwise`."""
        return called(_who(self), "reference", super().reference, inputs)

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """Return the element like `Elementwise`."""
        return called(_who(self), "element", super().element, reads, index)


class _Defined(Op):
    """Base of ops with a `Definition`."""

    definition: ClassVar[Definition]

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """Return what the user's function infers, or else what the decomposition infers."""
        infer = self.definition.infer
        if infer is None:
            return [tensor.details for tensor in self._parts(inputs)[1]]
        found = called(
            _who(self), "infer", infer, *self.schema.by_operand(inputs), **self._attributes()
        )
        results = found if isinstance(found, (list, tuple)) else [found]
        for result in results:
            if not isinstance(result, LogicalTensor) or not result.format.is_plain:
                raise self.rule("infer must return plain LogicalTensors", repr(result))
        return list(results)

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Return what the user's function computes, floats given as float64 and rounded once, or else
        the decomposition."""
        reference = self.definition.reference
        if reference is None:
            return self._parts([x.details for x in self.inputs])[0].evaluate(inputs)
        arrays = self.schema.by_operand([widen(array) for array in inputs])
        with np.errstate(all="ignore"):
            found = called(_who(self), "reference", reference, *arrays, **self._attributes())
        results = list(found) if isinstance(found, (list, tuple)) else [found]
        self._check_shapes("reference", [np.shape(result) for result in results])
        details = [y.details for y in self.outputs]
        return [narrow(result, d.dtype) for result, d in zip(results, details, strict=True)]

    def _check_shapes(self, what: str, shapes: Sequence[tuple[int, ...]]) -> None:
        wanted = [y.details.plain_dims for y in self.outputs]
        if list(shapes) != wanted:
            shown = " and ".join(str(list(dims)) for dims in shapes) or "nothing"
            raise self.rule(
                f"{what} must give the shapes of infer, {' and '.join(str(list(d)) for d in wanted)}",
                shown,
            )

    def _attributes(self) -> dict[str, Any]:
        return {key: self.attr(key) for key in self.schema.attributes}

    def _parts(self, inputs: Sequence[LogicalTensor]) -> tuple[Graph, list[GraphTensor]]:
        """A graph of the op's parts, and the tensors that are its results."""
        graph = Graph(f"parts of {self.name}")
        tensors = [graph.make_input(x) for x in inputs]
        results = self._composed(graph, tensors)
        for tensor in results:
            graph.make_output(tensor)
        return graph, results

    def _composed(self, graph: Graph, tensors: Sequence[GraphTensor]) -> list[GraphTensor]:
        """The results of the op's parts, appended to a graph."""
        compose = self.definition.compose
        assert compose is not None
        make, operands = Composer(graph, self), self.schema.by_operand(tensors)
        found = called(_who(self), "compose", compose, make, *operands, **self._attributes())
        results = list(found) if isinstance(found, (list, tuple)) else [found]
        if not all(isinstance(result, GraphTensor) for result in results):
            raise self.rule("compose must return what make(...) returns", repr(found))
        return results


class ComposedOp(_Defined, CompositeOp):
    """An op that user code makes of other ops."""

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """The parts. Raise UserError if they do not give what `infer` promised."""
        results = self._composed(graph, self.inputs)
        found, wanted = ([str(y.details) for y in side] for side in (results, self.outputs))
        if found != wanted:
            raise self.rule(
                f"compose must give what infer does, {' and '.join(wanted)}", " and ".join(found)
            )
        return results


class KernelOp(_Defined):
    """An op that only kernels of user code can run."""

    kind: ClassVar[str] = "loop"


def _who(op: Op) -> str:
    return f"{op.op_name} '{op.name}'"
