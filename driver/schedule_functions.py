"""Schedules that are Python functions: called on the nest of their kernel, they become the text of a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..base.errors import UserError
from ..graph_ir.inspect.nest_steps import contraction_kernel
from ..graph_ir.ir.op import Op
from ..graph_ir.ir.schedule import parse_schedule
from ..graph_ir.nest.script import Operation, steps_by
from ..graph_ir.passes import pipeline
from ..graph_ir.rewriting.groups import is_tuned
from ..graph_ir.rewriting.kernel_group import group_of
from ..graph_ir.schedule.requested import is_called
from .request import CompileRequest


def with_functions(request: CompileRequest, functions: Mapping[str, Operation]) -> CompileRequest:
    """Return the request with the schedules that functions, by op, make of the naive nests. May raise UserError."""
    if not functions:
        return request
    graph, ctx = request.source.copy(), request.context
    if not request.optimized:
        pipeline.run(graph, ctx)
    found = dict(request.requested)
    for name, function in functions.items():
        op = next((op for op in graph.ops if _is_kernel_of(op, name)), None)
        kernel = None if op is None else contraction_kernel(op, ctx)
        if kernel is None:
            raise UserError(
                f"schedule of '{name}': a function must be for a matmul or a direct convolution, and no kernel is "
                f"one by this name; `graphc explain MODEL` lists the kernels"
            )
        found[name] = parse_schedule(steps_by(function, kernel.nest, name))
    return replace(request, requested=found)


def _is_kernel_of(op: Op, name: str) -> bool:
    return any(is_tuned(one) and is_called(one, name) for one in group_of(op).ops)
