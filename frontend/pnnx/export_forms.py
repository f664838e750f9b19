"""Helpers shared by the exporters of all families."""

from __future__ import annotations

from collections.abc import Callable

from ...graph_ir.ir.graph import Array, GraphTensor, Op
from .export import WORDS, Exporter

ExportFunction = Callable[[Exporter, Op], str | tuple[str, ...]]
"""Writes one op; returns the operand of its result, or of each of its results."""


def write_call(e: Exporter, op: Op, type_name: str) -> str:
    """An operator of the op's inputs, without parameters."""
    return e.call(op, type_name)


def own_constant(x: GraphTensor, rank: int) -> bool:
    """A plain constant of that rank with one consumer and a dtype that can be written."""
    is_constant = x.producer_owner.op_name == "constant" and x.details.format.is_plain
    known = x.details.dtype.name in WORDS
    return is_constant and known and x.details.rank == rank and len(x.uses) == 1


def value_of(x: GraphTensor) -> Array:
    """The array of a constant."""
    return x.producer_owner.attr("value")
