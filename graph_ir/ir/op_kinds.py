"""The base classes ops derive from: fusible ops (a computation over indices) and composite ops (made of others)."""

from __future__ import annotations

from typing import ClassVar

from ...base.errors import InternalError
from .computation import Computation
from .graph import Graph, GraphTensor, Op


class FusibleOp(Op):
    """An op with one output, described by a `Computation`; a group of them becomes one loop nest."""

    kind: ClassVar[str] = "fusible"
    elementwise: ClassVar[bool] = False
    """Whether output element i reads only element i, or its broadcast, of every input."""

    def computation(self) -> Computation:
        """What one element of the output is."""
        raise InternalError(f"op '{self.op_name}' has no computation")


class TunableOp(FusibleOp):
    """An op with a loop template of its own (`lowering.registry`)."""

    kind: ClassVar[str] = "tunable"

    @property
    def is_tuned(self) -> bool:
        """Whether the template runs this one; else its computation does."""
        return True

    @property
    def result_holds_sums(self) -> bool:
        """Whether partial sums wait in the result, which must then be of the accumulator's type."""
        return False


class CompositeOp(Op):
    """An op defined by smaller ones. The pass `decompose` replaces it, unless fusion has a loop for it."""

    kind: ClassVar[str] = "composite"

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """Append the ops that compute the same from `self.inputs`; return what replaces `self.outputs`."""
        raise InternalError(f"op '{self.op_name}' has no decomposition")
