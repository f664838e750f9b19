"""Views of memory: elements by strides, in the order in which PyTorch stores what is viewed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from ..torch_calls.call import Value
from .node import Node, Read


def _in_memory(node: Node, x: GraphTensor, strides: Sequence[int]) -> tuple[GraphTensor, list[int]]:
    """All elements of x in the order of memory, and the axes of x in that order."""
    dims = x.details.plain_dims
    order = sorted(range(len(dims)), key=lambda axis: (-strides[axis], axis))
    step = 1
    for axis in reversed(order):
        if dims[axis] != 1 and strides[axis] != step:
            raise node.unsupported(f"a view of memory with gaps (strides {list(strides)})")
        step *= dims[axis]
    return node.reshaped(node.transposed(x, order), (x.details.elements,)), order


def _wanted(node: Node) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Sizes, strides, and the first element, counted from that of the tensor."""
    sizes, strides = node.attr_ints("size"), node.attr_ints("stride")
    if len(sizes) != len(strides):
        raise node.rule("size and stride must have one length", f"{sizes} and {strides}")
    begin = node.first_element("self")
    return sizes, strides, node.attr_int("storage_offset", begin) - begin


def _read_view(node: Node) -> Value:
    """Whole tensors are transposed; other elements are looked up."""
    x = node.tensor_of()
    sizes, strides, start = _wanted(node)
    flat, _ = _in_memory(node, x, node.strides("self"))
    axes = [axis for axis in range(len(sizes)) if sizes[axis] != 1]
    order = sorted(axes, key=lambda axis: -strides[axis])
    dense = [math.prod(sizes[axis] for axis in order[i + 1 :]) for i in range(len(order))]
    if not start and dense == [strides[axis] for axis in order] and (
        math.prod(sizes) == flat.details.elements
    ):  # fmt: skip
        stored = node.reshaped(flat, [sizes[axis] for axis in order])
        return node.reshaped(node.transposed(stored, [order.index(axis) for axis in axes]), sizes)
    indices = _indices(node, sizes, strides, start, flat.details.elements)
    return node.make("gather", flat, node.constant(indices, S64), axis=0)


def _indices(
    node: Node, sizes: Sequence[int], strides: Sequence[int], start: int, count: int
) -> np.ndarray:
    """The position in memory of every element of a view."""
    node.check_array(sizes)
    grids = np.ix_(*(np.arange(n) * s for n, s in zip(sizes, strides, strict=True)))
    indices: np.ndarray = sum(grids, np.full((1,) * len(sizes), start, np.int64))
    if indices.size and not 0 <= indices.min() <= indices.max() < count:
        raise node.unsupported("a view of memory outside of its tensor")
    return indices


def _read_assignment(node: Node) -> Value:
    """as_strided_scatter: the elements of a view replaced."""
    x, source = node.tensor_of(), node.tensor_of("src")
    sizes, strides, start = _wanted(node)
    flat, order = _in_memory(node, x, node.strides("self"))
    indices = _indices(node, sizes, strides, start, flat.details.elements)
    changed = node.make("scatter", node.constant(indices, S64), flat, source, run=1)
    dims = x.details.plain_dims
    stored = node.reshaped(changed, [dims[axis] for axis in order])
    return node.transposed(stored, [order.index(axis) for axis in range(len(dims))])


HANDLERS: dict[str, Read] = {"as_strided": _read_view, "as_strided_scatter": _read_assignment}
