"""The base classes ops derive from: fusible ops (a computation over indices) and composite ops (made of others)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ...base.errors import InternalError
from ...tensor_ir.nodes import Expr
from .computation import Computation, Index, Pointwise, Read, Reduction
from .graph import Graph, GraphTensor, Op


class FusibleOp(Op):
    """An op with one output, described by a `Computation`; a group of them becomes one loop nest."""

    kind: ClassVar[str] = "fusible"
    elementwise: ClassVar[bool] = False
    """True if output element i reads only element i, or its broadcast, of every input."""

    def computation(self) -> Computation:
        """The computation of one output element; pointwise, by `element`, unless the op says otherwise."""
        return Pointwise(self.element)

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The output of a pointwise op at plain `index`, as of `Pointwise`."""
        raise InternalError(f"op '{self.op_name}' has no computation")


def reduction(op: Op) -> Reduction | None:
    """The computation of a reduction; None for any other op."""
    computation = op.computation() if isinstance(op, FusibleOp) else None
    return computation if isinstance(computation, Reduction) else None


class TunableOp(FusibleOp):
    """An op with its own loop template (`lowering.registry`)."""

    kind: ClassVar[str] = "tunable"

    @property
    def is_tuned(self) -> bool:
        """Return whether the template can run this op; otherwise it runs as its computation."""
        return True

    @property
    def result_holds_sums(self) -> bool:
        """Return whether partial sums are kept in the result, which must then have the accumulator's type."""
        return False


class CompositeOp(Op):
    """An op defined by smaller ones. The pass `decompose` replaces it, unless fusion has a loop for it."""

    kind: ClassVar[str] = "composite"

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """Append equivalent ops that read `self.inputs`; return the tensors that replace `self.outputs`."""
        raise InternalError(f"op '{self.op_name}' has no decomposition")
