"""Nodes whose result is known at import: constants, shapes, ranges."""

from __future__ import annotations

import math

import numpy as np

from ...base.dims import Dim, Size, is_known
from ...base.dtypes import S64, from_numpy
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.rewriting.run_sizes import Reading, integer_value
from ...graph_ir.rewriting.size_values import settled
from ..correspondence.compositions.indexing import size_range
from ..correspondence.compositions.known import number_range
from ..correspondence.compositions.run_time import counted_range, end_of_range, range_from
from ..correspondence.compositions.triangles import diagonal_mask
from ..correspondence.scoped import details_of
from ..folding import LARGEST_ARRAY
from ..op_builder import Value
from ..shape_spec import check_size
from .scope import Handler, NodeContext


def _constant(node: NodeContext) -> Value:
    given = [attribute.name for attribute in node.node.attribute]
    if len(given) != 1:
        raise node.rule("one attribute must hold the value", str(given))
    (name,) = given
    if name in ("sparse_value", "value_string", "value_strings"):
        raise node.unsupported(f"a constant of kind {name}")
    if name == "value":
        return node.attr_array(name)
    if name == "value_float":
        return np.array(node.attr_float(name), np.float32)
    if name == "value_int":
        return np.array(node.attr_int(name), np.int64)
    if name == "value_floats":
        return np.array(node.attr_floats(name), np.float32)
    if name == "value_ints":
        return np.array(node.attr_ints(name, None), np.int64)
    raise node.rule("one attribute must hold the value", str(given))


def _constant_of_shape(node: NodeContext) -> Value:
    dims = node.ints(0, "a shape", sizes=True)
    value = node.attr_array("value") if node.given("value") else np.zeros(1, np.float32)
    if value.size != 1:
        raise node.rule("value must have one element", f"shape {list(value.shape)}")
    dtype = from_numpy(value.dtype)
    check_size(f"ConstantOfShape '{node.name}'", dtype, dims)
    scalar = value.reshape(())
    if is_known(*dims) and math.prod(dims) <= LARGEST_ARRAY:
        return np.full(dims, scalar)
    return node.make("broadcast", node.constant(scalar, dtype), shape=dims)


def _shape(node: NodeContext) -> Value:
    dims = node.details(0).plain_dims
    if node.opset >= 15:
        dims = dims[node.attr_int("start") : node.attr_int("end", len(dims))]
    return settled(np.array(dims, object))


def _size(node: NodeContext) -> Value:
    return settled(np.array(node.details(0).elements, object))


def _range(node: NodeContext) -> Value:
    sizes = node.scope.declared.get(node.node.output[0])
    if sizes is not None and node.scope.checks is not None and None in map(node.known, range(3)):
        given = [node.tensor(i) for i in range(3)]
        return range_from(node, given[0], given[1], given[2], sizes[0])
    values = [node.value(i) for i in range(3)]
    known = [x for x in values if not isinstance(x, GraphTensor) and x.dtype != object]
    dtypes = {details_of(x).dtype for x in values if isinstance(x, GraphTensor)}
    dtypes |= {from_numpy(x.dtype) for x in known}
    if len(dtypes) > 1:
        raise node.rule("inputs must have one dtype", ", ".join(sorted(map(str, dtypes))))
    if len(known) == 3:
        return number_range(node, known[0], known[1], known[2])
    start, delta = _whole(node, 0), _whole(node, 2)
    is_counted = isinstance(delta, int) and delta > 0 and isinstance(start, int) and start >= 0
    limit = _whole(node, 1, end_of_range(node) if is_counted else None)
    if isinstance(delta, int) and delta and start is not None and limit is not None:
        return node.converted(size_range(node, start, limit, delta), next(iter(dtypes), S64))
    if not node.may_count:
        node.array(1, "limit")
    return counted_range(node, *(node.tensor(i) for i in range(3)))


def _whole(node: NodeContext, index: int, reading: Reading | None = None) -> Size | None:
    """An operand as a size or an integer; None for other numbers, except for those that a run counts by `reading`."""
    value = node.known(index)
    if value is None:
        count = node.count_size if reading else None
        value = integer_value(node.graph, node.tensor(index), count, reading)
    number = None if value is None or value.size != 1 else value.reshape(-1)[0]
    if number is None or isinstance(number, Dim):
        return number
    return int(number) if number == number // 1 else None


def _eye_like(node: NodeContext) -> Value:
    like = node.details(0)
    if like.rank != 2:
        raise node.rule("the input must be a matrix", str(like))
    dtype = like.dtype
    if node.given("dtype"):
        dtype = node.attr_dtype("dtype")
    rows, columns = like.plain_dims
    on = diagonal_mask(node, rows, columns, node.attr_int("k"), "eq")
    return node.converted(on, dtype)


HANDLERS: dict[str, Handler] = {
    "Constant": _constant, "ConstantOfShape": _constant_of_shape, "Shape": _shape, "Size": _size,
    "Range": _range, "EyeLike": _eye_like,
}  # fmt: skip
