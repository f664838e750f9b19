"""Derives the arguments of the scatter template, and turns a body graph into expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...tensor_ir import builder as t
from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Buffer, Expr, Let, Module
from ...tensor_ir.sizes import shape_of
from ..ir.graph import Graph
from ..ir.group_values import GroupValues, parameters
from ..ops.scatter import Scatter
from ..schedule.context import LowerContext
from ..schedule.spaces import schedule_of
from ..templates.scatter import ScatterProblem, scatter_function


def lower_scatter(op: Scatter, ctx: LowerContext) -> Module:
    """One function: parameters inputs, then outputs, all flat."""
    named = parameters(op.inputs, op.outputs)
    flat = {x: Buffer(b.name, b.dtype, shape_of((x.details.elements,))) for x, b in named.items()}
    data, updates = op.inputs[1 : 1 + op.count], op.inputs[1 + op.count :]
    arrays = [
        (flat[x], flat[u], flat[y]) for x, u, y in zip(data, updates, op.outputs, strict=True)
    ]
    runs = op.inputs[0].details.elements
    problem = ScatterProblem(data[0].details.elements, runs, op.run)
    dims = identifier("x".join(map(str, data[0].details.plain_dims)) or "scalar")
    function = scatter_function(
        f"{data[0].details.dtype}_scatter_{dims}__{ctx.target.isa}",
        tuple(flat.values()),
        arrays,
        flat[op.inputs[0]],
        problem,
        lambda old, new: _combined(op, old, new),
        schedule_of(op, ctx),
        op.name,
    )
    return Module((function,))


def _combined(
    op: Scatter, old: Sequence[Expr], new: Sequence[Expr]
) -> tuple[list[Let], list[Expr]]:
    if op.body is not None:
        return _inlined(op.body, [*old, *new])
    if op.reduction == "none":
        return [], [new[0]]
    return [], [t.binary(op.reduction, old[0], new[0])]


def _inlined(body: Graph, operands: Sequence[Expr]) -> tuple[list[Let], list[Expr]]:
    """The body's results for these scalars, and the bindings that compute them."""
    given: dict[Any, Any] = {
        op.outputs[0]: lambda _, value=value: value
        for op, value in zip(body.inputs, operands, strict=True)
    }
    for op in body.ops:
        if op.is_constant:
            details = op.outputs[0].details
            value = t.const(op.attr("value").item(), details.dtype)
            given[op.outputs[0]] = lambda _, value=value: value
    values = GroupValues({}, given, "body")
    results = [values.read(op.inputs[0])(()) for op in body.outputs]
    return values.lets, results
