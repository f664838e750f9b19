"""Ops whose operands say which elements are meant: gathers, scatters, updates of slices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....base.dtypes import S64
from ....graph_ir.ir.graph import Graph
from ....graph_ir.ir.logical_tensor import LogicalTensor
from ..scope import ANY, Scope
from .reductions import one_axis

_COMBINING = {
    "float": ("none", "add", "mul", "min", "max"),
    "int": ("none", "add", "mul", "min", "max", "and", "or", "xor"),
    "uint": ("none", "add", "mul", "min", "max", "and", "or", "xor"),
    "bool": ("none", "and", "or", "xor"),
}


def gather(scope: Scope) -> None:
    """Slices picked by indices, a few of them outside."""
    x = scope.any(ANY, 1)
    axis = one_axis(scope, x.details.rank)
    size = x.details.plain_dims[axis]
    indices = scope.indices(scope.dtype(("int", "uint")), scope.dims(0, 2), -size, size - 1)
    scope.make("gather", [x, indices], axis=axis)


def gather_elements(scope: Scope) -> None:
    """One element of an axis for each element of the result."""
    x = scope.any(ANY, 1)
    axis = one_axis(scope, x.details.rank)
    size = x.details.plain_dims[axis]
    indices = _part(scope, x.details, axis)
    chosen = scope.indices(scope.dtype(("int", "uint")), indices, -size, size - 1)
    scope.make("gather_elements", [x, chosen], axis=axis)


def scatter_elements(scope: Scope) -> None:
    """Elements of an axis replaced or combined."""
    x = scope.any(ANY, 1)
    axis = one_axis(scope, x.details.rank)
    size = x.details.plain_dims[axis]
    dims = _part(scope, x.details, axis)
    chosen = scope.indices(scope.dtype(("int", "uint")), dims, -size, size - 1)
    updates = scope.like(x.details.dtype, dims)
    known = [r for r in _COMBINING[x.details.dtype.kind] if r not in ("and", "or", "xor")]
    reduction = scope.random.choice(known)
    scope.make("scatter_elements", [x, chosen, updates], axis=axis, reduction=reduction)


def _part(scope: Scope, x: LogicalTensor, axis: int) -> tuple[int, ...]:
    """x's shape with any size on the axis and some others shorter."""
    dims = [d - 1 if d > 1 and scope.chance(0.2) else d for d in x.plain_dims]
    dims[axis] = scope.size()
    return scope.fitting(dims)


def scatter(scope: Scope) -> None:
    """Runs of updates at flat indices, combined by name or by a body."""
    data = scope.any()
    elements = data.details.elements
    run = scope.random.choice((1, 1, 2, 3))
    count = scope.random.randint(0, 6)
    targets = scope.indices(S64, (count,), -scope.plan.strays, elements - 1)
    updates = scope.like(data.details.dtype, (count, run) if run > 1 else (count,))
    attrs: dict[str, Any] = {"run": run} if run > 1 else {}
    if scope.chance(0.25):
        attrs["body"] = _body(scope, data.details)
    else:
        attrs["reduction"] = scope.random.choice(_COMBINING[data.details.dtype.kind])
    scope.make("scatter", [targets, data, updates], **attrs)


def _body(scope: Scope, data: LogicalTensor) -> Graph:
    """A graph of two scalars to one."""
    graph = Graph("combine")
    old, new = (graph.make_input(LogicalTensor(data.dtype, ()), name) for name in ("old", "new"))
    if data.dtype.kind == "bool":
        names: tuple[str, ...] = ("and", "or", "xor")
    else:
        names = ("add", "max", "min", "sub")
    graph.make_output(graph.make(scope.random.choice(names), [old, new]).outputs[0])
    return graph


def update_slice(scope: Scope) -> None:
    """A box replaced at an index that is known at run time."""
    x = scope.any(ANY, 1)
    axes = [axis for axis in range(x.details.rank) if scope.chance(0.5)]
    dims = list(x.details.plain_dims)
    for axis in axes:
        dims[axis] = scope.random.randint(0, dims[axis])
    update = scope.like(x.details.dtype, tuple(dims))
    starts = [scope.small_integers(S64, (), -1, math.prod(dims) % 9) for _ in axes]
    scope.make("update_slice", [x, update, *starts], axes=tuple(axes))


RECIPES: dict[str, Callable[[Scope], None]] = {
    "gather": gather,
    "gather_elements": gather_elements,
    "scatter": scatter,
    "scatter_elements": scatter_elements,
    "update_slice": update_slice,
}
