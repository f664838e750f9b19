"""Writes control flow as ONNX nodes: case as a chain of If, while as Loop. Subgraphs read outer values by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from onnx import GraphProto

from ...base.dtypes import BOOL, S64
from ...graph_ir.ir.graph import Graph, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ...graph_ir.ops.control import Case, While
from ..correspondence.writing import InexpressibleError
from .export import Exporter

MAX_BRANCHES = 64
"""Each branch but the first is nested in the one before it."""


def _case(e: Exporter, op: Op) -> None:
    branches = cast(Case, op).branches
    index, *values = e.values(op)
    if len(branches) > MAX_BRANCHES:
        raise InexpressibleError(f"case of more than {MAX_BRANCHES} branches")
    source = op.inputs[0].producer_owner
    if len(branches) == 1:
        for tensor, value in zip(op.outputs, e.inline(branches[0], values), strict=True):
            e.bind(tensor, value)
    elif len(branches) == 2 and source.op_name == "cast" and _is_flag(source):
        no, yes = (_branch(e.nested(), branch, values) for branch in branches)
        e.node(op, "If", [e.operand(source.inputs[0])], then_branch=yes, else_branch=no)
    else:
        then, others = _branch(e.nested(), branches[0], values), _others(e, op, index, values, 1)
        e.node(op, "If", [_equals(e, op, index, 0)], then_branch=then, else_branch=others)


def _is_flag(cast_op: Op) -> bool:
    return cast_op.inputs[0].details == LogicalTensor(BOOL, ())


def _branch(inner: Exporter, graph: Graph, values: Sequence[str]) -> GraphProto:
    results = inner.inline(graph, values)
    details = [op.inputs[0].details for op in graph.outputs]
    return inner.subgraph(graph.name, list(zip(results, details, strict=True)))


def _others(e: Exporter, op: Op, index: str, values: Sequence[str], number: int) -> GraphProto:
    """The branches from `number` on; the last one is taken if the index is out of range."""
    branches, inner = cast(Case, op).branches, e.nested()
    if number == len(branches) - 1:
        return _branch(inner, branches[number], values)
    then = _branch(inner.nested(), branches[number], values)
    others = _others(inner, op, index, values, number + 1)
    condition = _equals(inner, op, index, number)
    dtypes = [y.details.dtype for y in op.outputs]
    results = inner.parts(op, "If", [condition], dtypes, then_branch=then, else_branch=others)
    details = [y.details for y in op.outputs]
    return inner.subgraph(op.name, list(zip(results, details, strict=True)))


def _equals(e: Exporter, op: Op, index: str, number: int) -> str:
    return e.part(op, "Equal", [index, e.constant(op, "branch", np.array(number, np.int64))], BOOL)


def _while(e: Exporter, op: Op) -> None:
    """The condition is evaluated once before the loop and at the end of each iteration."""
    loop, values = cast(While, op), e.values(op)
    state, fixed = values[: loop.carried], values[loop.carried :]
    details = [y.details for y in op.outputs]
    (start,) = e.inline(loop.condition, values)
    inner = e.nested()
    inputs = [
        inner.formal(f"{op.name}.round", LogicalTensor(S64, ())),
        inner.formal(f"{op.name}.going", LogicalTensor(BOOL, ())),
        *(inner.formal(f"{op.name}.state", d) for d in details),
    ]
    following = inner.inline(loop.body, [*(info.name for info in inputs[2:]), *fixed])
    (again,) = inner.inline(loop.condition, [*following, *fixed])
    results = [(again, LogicalTensor(BOOL, ())), *zip(following, details, strict=True)]
    e.node(op, "Loop", ["", start, *state], body=inner.subgraph(loop.body.name, results, inputs))


EXPORTERS: dict[str, Callable[[Exporter, Op], None]] = {"case": _case, "while": _while}
