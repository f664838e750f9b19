"""A matmul and the elementwise ops around it as a contraction: where its operands lie."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ...targets.isa import Microkernel
from ...tensor_ir.nodes import Buffer
from ...tensor_ir.sizes import elements_of
from ..ir.graph import GraphTensor
from ..ir.group_values import parameters
from ..nest.operand import Operand, blocked_view, matrix_view
from ..nest.problem import Contraction, matmul
from ..ops.matmul import MatmulCore
from ..rewriting.kernel_group import KernelGroup
from ..rewriting.operand_rows import in_memory
from .panels import panel_of

Memory = Mapping[GraphTensor, Buffer]
"""The parameters of a kernel: its inputs, each once, then its output."""


def matmul_memory(op: MatmulCore, group: KernelGroup) -> dict[GraphTensor, Buffer]:
    """Return the parameters of the kernel of a matmul; its operands have one axis."""
    matrices = {*(in_memory(x, group.ops) for x in op.inputs), *group.outputs}
    buffers = parameters(group.inputs, group.outputs)
    return {x: flat(buffer) if x in matrices else buffer for x, buffer in buffers.items()}


def matmul_problem(
    op: MatmulCore, group: KernelGroup, kernel: Microkernel, memory: Memory
) -> Contraction:
    """Return the contraction of a matmul, before its epilogue."""
    (output,) = group.outputs
    batch = output.details.plain_dims[:-2]
    tensors = [*(in_memory(x, group.ops) for x in op.inputs), output]
    transposed = op.transpose_a, op.transpose_b, False
    a, b, c = (
        operand_of(x, memory[x], len(batch), swap)
        for x, swap in zip(tensors, transposed, strict=True)
    )
    view = blocked_view if c.panel else matrix_view
    # Callers align their arrays as they like, the arena aligns tensors to cache lines.
    left = replace(view(a, "m", "k"), is_aligned=tensors[0].producer_owner.op_name != "input")
    views = left, view(b, "k", "n"), view(c, "m", "n")
    return matmul(batch, op.sizes, views, kernel, None)


def flat(buffer: Buffer) -> Buffer:
    """Return the same memory as one axis, which is how nests address operands."""
    return Buffer(buffer.name, buffer.dtype, (elements_of(buffer.shape),), buffer.storage)


def operand_of(tensor: GraphTensor, buffer: Buffer, batch_rank: int, transposed: bool) -> Operand:
    """Return the strides of a matrix for each of the output's batch axes, 0 where it broadcasts."""
    details = tensor.details
    dims, fmt = details.plain_dims, details.format
    memory = details.physical_dims
    own = len(dims) - 2
    strides = [math.prod(memory[axis + 1 :]) if dims[axis] != 1 else 0 for axis in range(own)]
    batch = (0,) * (batch_rank - own) + tuple(strides)
    if fmt.is_blocked:
        return Operand(buffer, batch, math.prod(memory[own + 1 :]), 1, panel_of(fmt).columns)
    row, col = (1, dims[-1]) if transposed else (dims[-1], 1)
    return Operand(buffer, batch, row, col)
