"""Replace functions of one quantized tensor, whose results are quantized, by tables of their 256 values."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import U8
from ..ir.graph import Array, Graph, GraphTensor, Op
from ..ir.logical_tensor import LogicalTensor
from ..ops.compose import Composer
from ..ops.contraction_types import is_byte
from ..ops.quantize import ByteTable, Dequantize, Quantize
from ..rewriting.groups import is_elementwise
from ..rewriting.rewrite import rewrite
from ..rewriting.values import constant_value, uniform_value
from ..schedule.context import LowerContext

MAX_OPS = 64
MIN_WORK = 10
"""Minimum instructions per vector for which a table, which is a separate kernel, is faster than an epilogue."""
SIMPLE = frozenset((
    "abs", "add", "cast", "clamp", "dequantize", "leaky_relu", "max", "min", "mul", "neg",
    "quantize", "relu", "sub",
))  # fmt: skip
"""Ops of one or two instructions; others are taken for `MIN_WORK`."""


def tabulate_bytes(graph: Graph, ctx: LowerContext) -> bool:
    """Look up what is computed of one byte by elementwise ops and constants, and quantized to a byte again.

    %y = quantize(gelu(dequantize(%x, 0.1, 3)), 0.05, 7)
    ->
    %y = byte_table(%x, %table)

    The table is computed from the references of the ops, so results are exactly those of the definition.
    Requires: topological order, quantize and dequantize not decomposed. Ensures: topological order.
    """
    return rewrite(graph, {"quantize": (_tabulated,)})


def _tabulated(graph: Graph, op: Op) -> GraphTensor | None:
    if not isinstance(op, Quantize) or not is_byte(op.dtype):
        return None
    found = _function_of_bytes(op)
    if found is None:
        return None
    source, members = found
    if sum(1 if member.op_name in SIMPLE else MIN_WORK for member in members) < MIN_WORK:
        return None
    make = Composer(graph, op)
    return make("byte_table", source, make.constant(_table(source, members)))


def _function_of_bytes(op: Op) -> tuple[GraphTensor, list[Op]] | None:
    """The tensor of bytes farthest back of which alone, by elementwise ops, `op` is computed; the ops in order."""
    dims, members, best = op.outputs[0].details.plain_dims, [op], None
    frontier = _varying(op)
    while frontier and len(members) < MAX_OPS:
        latest = max(frontier, key=lambda x: x.producer_owner.logical_op_id)
        if any(x.details.plain_dims != dims for x in frontier):
            break
        if frontier == {latest} and is_byte(latest.details.dtype):
            best = latest, members[::-1]
        if not _is_member(latest.producer_owner):
            break
        members.append(latest.producer_owner)
        frontier = frontier - {latest} | _varying(latest.producer_owner)
    return best


def _varying(op: Op) -> set[GraphTensor]:
    """The operands that are not one number for all elements, nor a table."""
    if isinstance(op, ByteTable):
        return {op.x}
    return {x for x in op.inputs if _number(x) is None}


def _is_member(op: Op) -> bool:
    return isinstance(op, Quantize | Dequantize | ByteTable) or is_elementwise(op)


def _table(source: GraphTensor, members: list[Op]) -> Array:
    """The results for all bytes, in order of their bits."""
    dtype = source.details.dtype
    bytes_ = np.arange(256, dtype=U8.numpy).view(dtype.numpy)
    values = {source: bytes_}
    for op in members:
        graph = Graph("table")
        arrays = [values[x] if x in values else _given(op, x) for x in op.inputs]
        inputs = [
            graph.make_input(LogicalTensor(x.details.dtype, np.shape(array)))
            for x, array in zip(op.inputs, arrays, strict=True)
        ]
        twin = graph.make(op.op_name, inputs, op.attrs)
        values[op.outputs[0]] = twin.reference(arrays)[0]
    return values[members[-1].outputs[0]]


def _given(op: Op, tensor: GraphTensor) -> Array:
    """A number that fits the table; of a table, which may be of one number too, its entries."""
    found = constant_value(tensor) if isinstance(op, ByteTable) else _number(tensor)
    return np.asarray(found)


def _number(tensor: GraphTensor) -> Array | None:
    """The number that all elements of a constant are, which may be dequantized; None where they differ."""
    op = tensor.producer_owner
    if isinstance(op, Dequantize):
        known = [uniform_value(x) for x in op.inputs]
        given = [np.asarray(value) for value in known if value is not None]
        return op.reference(given)[0] if len(given) == len(known) else None
    number = uniform_value(tensor)
    return None if number is None else np.asarray(number)
