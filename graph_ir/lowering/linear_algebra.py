"""Derives the arguments of the templates for matrices from the ops."""

from __future__ import annotations

import math

from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Buffer, Function, Module
from ...tensor_ir.sizes import shape_of
from ..ir.group_values import parameters
from ..ops.factorizations import (
    MAX_SWEEPS,
    SVD,
    Eigh,
    Householder,
    HouseholderProduct,
    rotation_limit,
)
from ..ops.linear_algebra import LU, Cholesky, MatrixOp, TriangularSolve
from ..schedule.context import LowerContext
from ..schedule.workspaces import workspace_of
from ..templates.householder import householder_function, householder_product_function
from ..templates.jacobi import Convergence, eigh_function, svd_function
from ..templates.linear_algebra import (
    Triangle,
    cholesky_function,
    lu_function,
    triangular_solve_function,
)


def lower_matrix_op(op: MatrixOp, ctx: LowerContext) -> Module:
    """One function: parameters inputs then outputs, the axes of batches merged."""
    named = parameters(op.inputs, op.outputs)
    tensors = [*op.inputs, *op.outputs]
    outer = op.matrices.rank - 2
    merged = [
        Buffer(
            named[y].name,
            named[y].dtype,
            shape_of((math.prod(y.details.plain_dims[:outer]), *y.details.plain_dims[outer:])),
        )
        for y in tensors
    ]
    work = [
        Buffer(f"work{i}", x.dtype, shape_of(x.plain_dims))
        for i, x in enumerate(workspace_of(op, ctx))
    ]
    shape = identifier("x".join(map(str, op.outputs[0].details.plain_dims)))
    name = f"{op.matrices.dtype}_{op.op_name}_{shape}__{ctx.target.isa}"
    return Module((_function(op, name, merged, work, ctx.threads_for(op.matrices.elements)),))


def _function(
    op: MatrixOp, name: str, merged: list[Buffer], work: list[Buffer], tasks: int
) -> Function:
    if isinstance(op, (SVD, Eigh)):
        until = Convergence(rotation_limit(op.matrices.dtype), MAX_SWEEPS)
        if isinstance(op, SVD):
            return svd_function(name, merged, until, tasks, op.name)
        return eigh_function(name, merged, work[0], until, tasks, op.name)
    if isinstance(op, Householder):
        return householder_function(name, merged, work[0], tasks, op.name)
    if isinstance(op, HouseholderProduct):
        return householder_product_function(name, merged, work[0], tasks, op.name)
    if isinstance(op, Cholesky):
        return cholesky_function(name, merged[0], merged[1], tasks, op.name)
    if isinstance(op, LU):
        factors = (merged[0], merged[1], merged[2], merged[3])
        return lu_function(name, factors, tasks, op.name)
    assert isinstance(op, TriangularSolve)
    operands = (merged[0], merged[1], merged[2])
    triangle = Triangle(op.is_forward, op.transpose_a, op.unit_diagonal)
    return triangular_solve_function(name, operands, triangle, tasks, op.name)
