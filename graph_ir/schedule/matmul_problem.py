"""A matmul and the elementwise ops around it as a contraction: where its operands lie."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...targets.isa import Microkernel
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer
from ...tensor_ir.sizes import elements_of
from ..ir.graph import GraphTensor, Op
from ..ir.group_values import parameters
from ..nest.problem import Contraction, View, matmul
from ..ops.matmul import MatmulCore
from ..rewriting.kernel_group import KernelGroup
from ..rewriting.operand_rows import first_element, in_memory
from .panels import BLOCK, panel_of

Memory = Mapping[GraphTensor, Buffer]
"""The parameters of a kernel: its inputs, each once, then its output."""


def group_memory(group: KernelGroup, operands: Iterable[GraphTensor]) -> dict[GraphTensor, Buffer]:
    """Return the parameters of the kernel of a group; the operands of its nest, and its result, have one axis."""
    flattened = {*operands, *group.outputs}
    buffers = parameters(group.inputs, group.outputs)
    return {x: flat(buffer) if x in flattened else buffer for x, buffer in buffers.items()}


def matmul_memory(op: MatmulCore, group: KernelGroup) -> dict[GraphTensor, Buffer]:
    """Return the parameters of the kernel of a matmul."""
    return group_memory(group, [in_memory(x, group.ops) for x in op.inputs])


def matmul_problem(
    op: MatmulCore, group: KernelGroup, kernel: Microkernel, memory: Memory
) -> Contraction:
    """Return the contraction of a matmul, before its epilogue."""
    (output,) = group.outputs
    batch = output.details.plain_dims[:-2]
    swaps = op.transpose_a, op.transpose_b
    a, b = (
        operand_view(x, group.ops, memory, len(batch), axes, swap)
        for x, axes, swap in zip(op.inputs, ("mk", "kn"), swaps, strict=True)
    )
    c = matrix_view(output, memory[output], len(batch), "mn")
    # Callers align their arrays as they like, the arena aligns tensors to cache lines.
    left = replace(a, is_aligned=not in_memory(op.inputs[0], group.ops).producer_owner.is_input)
    return matmul(batch, op.sizes, (left, b, c), kernel, None)


def flat(buffer: Buffer) -> Buffer:
    """Return the same memory as one axis, which is how nests address operands."""
    return Buffer(buffer.name, buffer.dtype, (elements_of(buffer.shape),), buffer.storage)


def operand_view(
    operand: GraphTensor, group: Container[Op], memory: Memory, rank: int, axes: str, swap: bool
) -> View:
    """Return the view of an operand of a matmul, in the memory of a larger tensor where the group takes its rows."""
    whole = in_memory(operand, group)
    view = matrix_view(whole, memory[whole], rank, axes, swap)
    return view.at(t.as_expr(first_element(operand, group)))


def matrix_view(
    tensor: GraphTensor, buffer: Buffer, batch_rank: int, axes: str, transposed: bool = False
) -> View:
    """Return the view of a matrix with the axes of `axes` and those of a batch, which are 0 apart where it broadcasts.

    In blocks of 16 by 16, B has neighboring k together, A and C neighboring columns.
    """
    details = tensor.details
    dims, fmt, memory = details.plain_dims, details.format, details.physical_dims
    own, rows, columns = len(dims) - 2, axes[0], axes[1]
    first = batch_rank - own
    strides: dict[str, Any] = {f"b{axis}": 0 for axis in range(batch_rank)}
    for axis in range(own):
        if dims[axis] != 1:
            strides[f"b{first + axis}"] = math.prod(memory[axis + 1 :])
    if not fmt.is_blocked:
        row, column = (1, dims[-1]) if transposed else (dims[-1], 1)
        return View(buffer, {**strides, rows: row, columns: column})
    distance, width = math.prod(memory[own + 1 :]), panel_of(fmt).columns
    if fmt.blocks[fmt.rank :] != (BLOCK, BLOCK):
        return View(buffer, {**strides, rows: width, columns: 1}, {columns: (width, distance)})
    inner, outer = (rows, columns) if rows == "k" else (columns, rows)
    blocks = {rows: (BLOCK, distance), columns: (BLOCK, BLOCK * BLOCK)}
    return View(buffer, {**strides, outer: BLOCK, inner: 1}, blocks)
