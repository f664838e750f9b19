"""Operators that order elements along an axis: top_k, sorting, scans."""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from .indexing import axis_of
from .scope import Handler, Node, Value


def _ordered(
    node: Node, x: GraphTensor, axis: int, k: int, largest: bool
) -> tuple[GraphTensor, GraphTensor]:
    """Values and indices of the first k elements; a scalar counts as an axis of size 1."""
    dims = x.details.plain_dims
    rows = x if dims else node.reshaped(x, (1,))
    values, places = node.outputs("top_k", rows, axis=axis, k=k, largest=largest)
    return (values, places) if dims else (node.reshaped(values, ()), node.reshaped(places, ()))


def _top_k(node: Node) -> tuple[Value, ...]:
    """`sorted=False` leaves the order open: it is then sorted too."""
    x = node.tensor_of()
    axis = node.axis(node.integer("dim", -1), x.details.rank)
    node.flag("sorted", True)
    return _ordered(node, x, axis, node.integer("k"), node.flag("largest", True))


def _sort(is_places: bool) -> Callable[[Node], Value | tuple[Value, ...]]:
    """Stable, which PyTorch's default allows."""

    def run(node: Node) -> Value | tuple[Value, ...]:
        x = node.tensor_of()
        node.flag("stable", False)
        axis = node.axis(node.integer("dim", -1), x.details.rank)
        size = x.details.plain_dims[axis] if x.details.rank else 1
        found = _ordered(node, x, axis, size, node.flag("descending", False))
        return found[1] if is_places else found

    return run


def _kth_value(node: Node) -> tuple[Value, ...]:
    x = node.tensor_of()
    axis, k, keep = axis_of(node, x, -1), node.integer("k"), node.flag("keepdim", False)
    dims = x.details.plain_dims
    if not 1 <= k <= dims[axis]:
        raise node.rule(f"k must be in [1, {dims[axis]}]", str(k))
    shape = (*dims[:axis], *((1,) if keep else ()), *dims[axis + 1 :])
    part = node.part()
    found = _ordered(node, x, axis, k, largest=False)
    return tuple(node.reshaped(part.part_of(y, axis, k - 1, 1), shape) for y in found)


def _running(op_name: str) -> Callable[[Node], Value]:
    """Cumulative sums and products; small integers and bools become s64."""

    def run(node: Node) -> Value:
        x = node.tensor_of()
        wanted = node.dtype()
        if wanted is None and not x.details.dtype.is_float:
            wanted = S64
        x = x if wanted is None else node.converted(x, wanted)
        if not x.details.rank:
            return x
        return node.make(op_name, x, axis=axis_of(node, x))

    return run


_ORDER = ("input", "dim", "descending")

_BY_NAME: dict[str, Handler] = {
    "topk": Handler(_top_k, ("input", "k", "dim", "largest", "sorted")),
    "sort": Handler(_sort(is_places=False), _ORDER),
    "argsort": Handler(_sort(is_places=True), _ORDER),
    "kthvalue": Handler(_kth_value, ("input", "k", "dim", "keepdim")),
    "cumsum": Handler(_running("cum_sum"), ("input", "dim", "dtype")),
    "cumprod": Handler(_running("cum_prod"), ("input", "dim", "dtype")),
}

HANDLERS: dict[str, Handler] = {
    f"{prefix}{name}": h
    for prefix in ("torch.", "Tensor.", "aten::")
    for name, h in _BY_NAME.items()
}
"""Operators of this family."""
