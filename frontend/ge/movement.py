"""Shapes, and ops that move whole tensors: reshapes, transposes, joins, repeats, triangles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...base.dtypes import BOOL, S32, from_numpy
from ...graph_ir.ir.graph import GraphTensor
from ..op_builder import Value
from ..shape_spec import check_size
from .scope import Handler, NodeContext, known_scalar

LARGEST_ARRAY = 1 << 16
"""Elements up to which a computed constant is kept as an array; what is larger is computed by the graph."""


def _identity_n(node: NodeContext) -> list[Value]:
    return list(node.tensors("x"))


def _trans_data(node: NodeContext) -> Value:
    return node.tensor("src")


def resolved_shape(node: NodeContext, old: Sequence[int], dims: Sequence[int]) -> tuple[int, ...]:
    """A wanted shape with -1 (the rest) and 0 (the input's size) replaced."""
    sizes = list(dims)
    wanted = f"{list(old)} to {list(dims)}"
    if min(sizes, default=0) < -1 or sizes.count(-1) > 1:
        raise node.rule("sizes must be 0 or more, and at most one may be -1", str(sizes))
    count = math.prod(old)
    if 0 in sizes and count:
        for axis, size in enumerate(sizes):
            if size == 0:
                if axis >= len(old):
                    raise node.rule(
                        "a size of 0 copies the input's, which has no such axis", wanted
                    )
                sizes[axis] = old[axis]
    if -1 in sizes:
        rest = math.prod(size for size in sizes if size != -1)
        if not rest or count % rest:
            raise node.rule("the size of -1 cannot be found", wanted)
        sizes[sizes.index(-1)] = count // rest
    return tuple(sizes)


def _reshape(node: NodeContext) -> Value:
    x = node.tensor("x")
    dims, rank = x.details.plain_dims, x.details.rank
    first = node.axis(node.attr_int("axis"), rank, inclusive=True)
    count = node.attr_int("num_axes")
    last = rank if count == -1 else first + count
    if not first <= last <= rank:
        raise node.rule(f"num_axes must be -1 or at most {rank - first}", str(count))
    middle = resolved_shape(node, dims[first:last], node.ints("shape"))
    return node.make("reshape", x, shape=(*dims[:first], *middle, *dims[last:]))


def _unsqueeze(node: NodeContext) -> Value:
    x = node.tensor("x")
    name = "axes" if node.type == "UnsqueezeV3" else "axis"
    given = node.attr_ints("axes") if node.type == "Unsqueeze" else node.ints(name)
    rank = x.details.rank + len(given)
    axes = {node.axis(axis, rank) for axis in given}
    if len(axes) != len(given):
        raise node.rule("axes must be distinct", str(list(given)))
    rest = iter(x.details.plain_dims)
    shape = tuple(1 if axis in axes else next(rest) for axis in range(rank))
    return node.make("reshape", x, shape=shape)


def _squeeze(node: NodeContext) -> Value:
    x = node.tensor("x")
    dims = x.details.plain_dims
    if node.type == "Squeeze":
        given = node.attr_ints("axis")
    else:
        given = node.ints("axes") if node.has("axes") else ()
    axes = {node.axis(axis, len(dims)) for axis in given}
    axes = axes or {axis for axis, dim in enumerate(dims) if dim == 1}
    if any(dims[axis] != 1 for axis in axes):
        raise node.rule("squeezed axes must have size 1", f"axes {list(given)} of {list(dims)}")
    return node.make("reshape", x, shape=tuple(d for i, d in enumerate(dims) if i not in axes))


def _flatten(node: NodeContext) -> Value:
    x = node.tensor("x")
    dims, rank = x.details.plain_dims, x.details.rank
    if node.type == "Flatten":
        axis = node.axis(node.attr_int("axis"), rank, inclusive=True)
        return node.make("reshape", x, shape=(math.prod(dims[:axis]), math.prod(dims[axis:])))
    first, last = (node.axis(node.attr_int(key), rank) for key in ("axis", "end_axis"))
    if first > last:
        raise node.rule("axis must not be behind end_axis", f"{first} and {last}")
    middle = math.prod(dims[first : last + 1])
    return node.make("reshape", x, shape=(*dims[:first], middle, *dims[last + 1 :]))


def _transpose(node: NodeContext) -> Value:
    key = {"Transpose": "perm", "TransposeD": "perm", "Permute": "order"}[node.type]
    perm = node.ints("perm") if node.type == "Transpose" else node.attr_ints(key)
    return node.make("transpose", node.tensor("x"), perm=perm)


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


def _broadcast_to(node: NodeContext) -> Value:
    x = node.tensor("x")
    dims, shape = x.details.plain_dims, list(node.ints("shape"))
    before = len(shape) - len(dims)
    for axis, size in enumerate(shape):
        if size == -1:
            shape[axis] = dims[axis - before] if axis >= before else 1
    if tuple(shape) == dims:
        return x
    return node.make("broadcast", x, shape=tuple(shape))


def _expand(node: NodeContext) -> Value:
    x, shape = node.tensor("x"), node.ints("shape")
    try:
        dims = np.broadcast_shapes(x.details.plain_dims, shape)
    except ValueError as error:
        both = f"{list(x.details.plain_dims)} and {list(shape)}"
        raise node.rule("the input and the shape must broadcast", both) from error
    return x if dims == x.details.plain_dims else node.make("broadcast", x, shape=dims)


def _tile(node: NodeContext) -> Value:
    x, repeats = node.tensor("x"), node.ints("multiples")
    dims = x.details.plain_dims
    if len(repeats) != len(dims) or min(repeats, default=0) < 0:
        raise node.rule("multiples must be one count per axis", f"{list(repeats)} for {list(dims)}")
    # [d0, d1] -> [1, d0, 1, d1] -> [r0, d0, r1, d1] -> [r0 * d0, r1 * d1]
    apart = node.reshaped(x, [n for dim in dims for n in (1, dim)])
    copies = tuple(n for r, dim in zip(repeats, dims, strict=True) for n in (r, dim))
    repeated = node.make("broadcast", apart, shape=copies)
    return node.reshaped(repeated, [r * d for r, d in zip(repeats, dims, strict=True)])


def _concat(node: NodeContext) -> Value:
    tensors = node.tensors("x")
    axis = node.integer("concat_dim") if node.has("concat_dim") else node.attr_int("concat_dim")
    references = list(node.dynamic("x").values())
    sure = [r not in node.scope.guessed for r in references]
    dtype = tensors[sure.index(True) if any(sure) else 0].details.dtype
    tensors = [
        x if known else node.retyped(x, dtype) for x, known in zip(tensors, sure, strict=True)
    ]
    axis = node.axis(axis, tensors[0].details.rank)
    return tensors[0] if len(tensors) == 1 else node.make("concat", *tensors, axis=axis)


def _pack(node: NodeContext) -> Value:
    tensors = node.tensors("x")
    literal = [reference in node.scope.guessed for reference in node.dynamic("x").values()]
    # A constant of one element is a scalar where the others are.
    rank = min(x.details.rank for x in tensors)
    tensors = [
        node.reshaped(x, ()) if loose and not rank and x.details.elements == 1 else x
        for x, loose in zip(tensors, literal, strict=True)
    ]
    axis = node.axis(node.attr_int("axis"), tensors[0].details.rank + 1)
    parts = []
    for x in tensors:
        dims = x.details.plain_dims
        parts.append(node.reshaped(x, (*dims[:axis], 1, *dims[axis:])))
    return parts[0] if len(parts) == 1 else node.make("concat", *parts, axis=axis)


def _triangle(node: NodeContext) -> Value:
    x = node.tensor("x")
    dims = x.details.plain_dims
    if len(dims) < 2:
        raise node.rule("the input must be a matrix or a stack of them", str(x.details))
    node.check_array(dims[-2:])
    upper = node.attr_bool("upper") if node.type == "Trilu" else node.type == "Triu"
    if node.type != "Trilu":
        diagonal = node.attr_int("diagonal")
    else:
        diagonal = node.integer("k") if node.has("k") else 0
    diagonal = max(-dims[-2] - 1, min(diagonal, dims[-1] + 1))
    below = np.tri(dims[-2], dims[-1], diagonal - 1 if upper else diagonal, dtype=bool)
    kept = node.constant(~below if upper else below, BOOL)
    return node.make("select", kept, x, node.constant(0, x.details.dtype))


def _depth_to_space(node: NodeContext) -> Value:
    """Channels as blocks of the image; CRD counts the channels of the result first, DCR the places in a block."""
    x, block, last = _blocked_image(node)
    mode = node.attr_text("mode")
    if mode not in ("DCR", "CRD"):
        raise node.rule("mode must be DCR or CRD", f"'{mode}'")
    batch, height, width, channels = x.details.plain_dims
    if channels % (block * block):
        raise node.rule(f"block_size ** 2 must divide the {channels} channels", str(block))
    depth = channels // (block * block)
    if mode == "DCR":
        parts = node.reshaped(x, (batch, height, width, block, block, depth))
        moved = node.transposed(parts, (0, 1, 3, 2, 4, 5))
    else:
        parts = node.reshaped(x, (batch, height, width, depth, block, block))
        moved = node.transposed(parts, (0, 1, 4, 2, 5, 3))
    y = node.reshaped(moved, (batch, height * block, width * block, depth))
    return y if last else node.transposed(y, (0, 3, 1, 2))


def _space_to_depth(node: NodeContext) -> Value:
    x, block, last = _blocked_image(node)
    batch, height, width, channels = x.details.plain_dims
    if height % block or width % block:
        raise node.rule("block_size must divide height and width", f"{block} and {x.details}")
    parts = node.reshaped(x, (batch, height // block, block, width // block, block, channels))
    moved = node.transposed(parts, (0, 1, 3, 2, 4, 5))
    y = node.reshaped(moved, (batch, height // block, width // block, block * block * channels))
    return y if last else node.transposed(y, (0, 3, 1, 2))


def _blocked_image(node: NodeContext) -> tuple[GraphTensor, int, bool]:
    """The image with channels last, the block's size, and whether its channels are last in the file."""
    x, block = node.tensor("x"), node.attr_int("block_size")
    form = node.attr_text("data_format")
    if form not in ("NHWC", "NCHW"):
        raise node.unsupported(f"data_format '{form}'")
    if x.details.rank != 4 or block < 1:
        raise node.rule("x must be an image and block_size positive", f"{x.details} and {block}")
    last = form == "NHWC"
    return x if last else node.transposed(x, (0, 2, 3, 1)), block, last


def _bitcast(node: NodeContext) -> Value:
    x, dtype = node.tensor("x"), node.attr_dtype("type")
    if x.details.dtype.size != dtype.size:
        raise node.unsupported(f"a bitcast of {x.details.dtype} to {dtype}")
    return x if x.details.dtype == dtype else node.make("bitcast", x, dtype=dtype.name)


def _range(node: NodeContext) -> Value:
    values = [node.array(name) for name in ("start", "limit", "delta")]
    if any(value.size != 1 or value.dtype.kind not in "iuf" for value in values):
        raise node.rule("start, limit and delta must be numbers", str([str(v) for v in values]))
    start, limit, delta = (known_scalar(value) for value in values)
    if not all(map(math.isfinite, (start, limit, delta))) or delta == 0:
        numbers = f"{start}, {limit}, {delta}"
        raise node.rule("start, limit and delta must be finite and delta not 0", numbers)
    steps = (limit - start) / delta
    count = (
        max(math.ceil(steps), 0)
        if not node.attr_bool("is_closed")
        else max(math.floor(steps) + 1, 0)
    )
    node.check_array((count,))
    dtype = np.result_type(*(value.dtype for value in values))
    return (start + np.arange(count) * delta).astype(dtype)


def _top_k(node: NodeContext) -> list[Value]:
    x = node.tensor("x")
    k = node.attr_int("k") if node.type == "TopKD" else node.integer("k")
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


HANDLERS: dict[str, Handler] = {
    "IdentityN": _identity_n, "TransData": _trans_data, "Reshape": _reshape, "Unsqueeze": _unsqueeze,
    "UnsqueezeV3": _unsqueeze, "ExpandDims": _unsqueeze, "Squeeze": _squeeze, "SqueezeV3": _squeeze,
    "Flatten": _flatten, "FlattenV2": _flatten, "Transpose": _transpose, "TransposeD": _transpose,
    "Permute": _transpose, "Shape": _shape, "Size": _size, "Rank": _rank, "Fill": _fill, "FillV2": _fill,
    "BroadcastTo": _broadcast_to, "Expand": _expand, "Tile": _tile, "Concat": _concat, "ConcatV2": _concat,
    "ConcatD": _concat, "ConcatV2D": _concat, "Pack": _pack, "Triu": _triangle, "Tril": _triangle, "Range": _range,
    "TopKV2": _top_k, "TopK": _top_k, "TopKD": _top_k, "Sort": _sort,
    "ShapeN": _shapes, "Trilu": _triangle, "DepthToSpace": _depth_to_space, "SpaceToDepth": _space_to_depth,
    "Bitcast": _bitcast,
}  # fmt: skip
