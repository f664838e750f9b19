"""Shapes as values, and ops that move whole tensors, where a row of the table is not enough."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...base.dtypes import S32, from_numpy
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.known import number_range
from ..correspondence.compositions.movement import depth_to_space, space_to_depth, with_rest
from ..correspondence.reading import Pair
from ..op_builder import OpBuilder, Value
from ..shape_spec import check_size
from .scope import Handler, NodeContext


def _read_reshape(node: NodeContext, _: str) -> Value:
    x = node.tensor("x")
    dims, rank = x.details.plain_dims, x.details.rank
    first = node.axis(node.attr_int("axis"), rank, inclusive=True)
    count = node.attr_int("num_axes")
    last = rank if count == -1 else first + count
    if not first <= last <= rank:
        raise node.rule(f"num_axes must be -1 or at most {rank - first}", str(count))
    old = dims[first:last]
    middle = with_rest(node, old, node.ints("shape"), zero_copies=math.prod(old) > 0)
    return node.make("reshape", x, shape=(*dims[:first], *middle, *dims[last:]))


def _shape(node: NodeContext) -> Value:
    return np.array(node.details("x").plain_dims, node.attr_dtype("dtype").numpy)


def _shapes(node: NodeContext) -> list[Value]:
    dtype = node.attr_dtype("dtype").numpy
    return [np.array(x.details.plain_dims, dtype) for x in node.tensors("x")]


def _size(node: NodeContext) -> Value:
    return np.array(node.details("x").elements, np.int32)


def _rank(node: NodeContext) -> Value:
    return np.array(node.details("x").rank, np.int32)


def _fill(node: NodeContext) -> Value:
    dims = node.ints("dims")
    if node.type == "FillV2":
        value: GraphTensor = node.constant(
            np.float32(node.attr_float("value")), from_numpy(np.dtype("f4"))
        )
    else:
        value = node.scalar("value")
    check_size(f"{node.type} '{node.name}'", value.details.dtype, dims)
    return node.make("broadcast", value, shape=dims)


def _blocks(move: Callable[[OpBuilder, GraphTensor, int, str], GraphTensor]) -> Handler:
    """DepthToSpace and SpaceToDepth, for images with channels first or last."""

    def handler(node: NodeContext) -> Value:
        x, form = node.tensor("x"), node.attr_text("data_format")
        if form not in ("NHWC", "NCHW"):
            raise node.unsupported(f"data_format '{form}'")
        if x.details.rank != 4:
            raise node.rule("x must be an image", str(x.details))
        mode = node.attr_text("mode") if "mode" in node.signature.defaults else "DCR"
        last = form == "NHWC"
        image = node.transposed(x, (0, 3, 1, 2)) if last else x
        y = move(node, image, node.attr_int("block_size"), mode)
        return node.transposed(y, (0, 2, 3, 1)) if last else y

    return handler


def _bitcast(node: NodeContext) -> Value:
    x, dtype = node.tensor("x"), node.attr_dtype("type")
    if x.details.dtype.size != dtype.size:
        raise node.unsupported(f"a bitcast of {x.details.dtype} to {dtype}")
    return x if x.details.dtype == dtype else node.make("bitcast", x, dtype=dtype.name)


def _range(node: NodeContext) -> Value:
    start, limit, delta = (node.array(name) for name in ("start", "limit", "delta"))
    return number_range(node, start, limit, delta, node.attr_bool("is_closed"))


def _read_top_k(node: NodeContext, _: str) -> list[Value]:
    x, k = node.tensor("x"), node.integer("k")
    largest = node.attr_bool("largest")
    values, indices = node.outputs("top_k", x, k=k, axis=node.attr_int("dim"), largest=largest)
    dtype = node.attr_dtype("indices_dtype") if node.type == "TopKV2" else S32
    return [values, node.converted(indices, dtype)]


def _sort(node: NodeContext) -> list[Value]:
    x = node.tensor("x")
    axis = node.axis(node.attr_int("axis"), x.details.rank)
    largest, k = node.attr_bool("descending"), x.details.plain_dims[axis]
    values, indices = node.outputs("top_k", x, k=k, axis=axis, largest=largest)
    return [values, node.converted(indices, S32)]


PAIRS = {"reshape": Pair(_read_reshape), "top_k": Pair(_read_top_k)}

HANDLERS: dict[str, Handler] = {
    "IdentityN": lambda node: list(node.tensors("x")), "TransData": lambda node: node.tensor("src"),
    "Shape": _shape, "Size": _size, "Rank": _rank, "Fill": _fill,
    "FillV2": _fill, "Range": _range, "Sort": _sort, "ShapeN": _shapes, "Bitcast": _bitcast,
    "DepthToSpace": _blocks(depth_to_space), "SpaceToDepth": _blocks(space_to_depth),
}  # fmt: skip
