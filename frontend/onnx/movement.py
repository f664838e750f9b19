"""Nodes that only change a tensor's shape or repeat and join its elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...base.dtypes import BOOL
from ..op_builder import Value
from .scope import Handler, NodeContext


def _dropout(node: NodeContext) -> Value | list[Value]:
    if node.opset >= 12 and node.has(2):
        training = node.known(2)
        if training is None or training.any():
            raise node.unsupported("training mode")
    x = node.tensor(0)
    if not node.wants(1):
        return x
    kept = node.helper("broadcast", node.constant(True, BOOL), shape=x.details.plain_dims)
    return [x, kept]


def _transpose(node: NodeContext) -> Value:
    x = node.tensor(0)
    perm = node.attr_ints("perm")
    if perm is None:
        perm = tuple(reversed(range(x.details.rank)))
    return node.make("transpose", x, perm=perm)


def _reshape(node: NodeContext) -> Value:
    x = node.tensor(0)
    dims = list(node.ints(1, "a shape"))
    old = x.details.plain_dims
    wanted = f"{list(old)} to {dims}"
    if min(dims, default=0) < -1 or dims.count(-1) > 1:
        raise node.rule("sizes must be 0 or more, and at most one may be -1", str(dims))
    if not node.attr_int("allowzero"):
        for axis, dim in enumerate(dims):
            if dim == 0:
                if axis >= len(old):
                    raise node.rule(
                        "a size of 0 copies the input's, which has no such axis", wanted
                    )
                dims[axis] = old[axis]
    if -1 in dims:
        rest = math.prod(d for d in dims if d != -1)
        if not rest or x.details.elements % rest:
            raise node.rule("the size of -1 cannot be found", wanted)
        dims[dims.index(-1)] = x.details.elements // rest
    return node.make("reshape", x, shape=tuple(dims))


def _flatten(node: NodeContext) -> Value:
    x = node.tensor(0)
    dims = x.details.plain_dims
    axis = node.axis(node.attr_int("axis"), len(dims), inclusive=True)
    return node.make("reshape", x, shape=(math.prod(dims[:axis]), math.prod(dims[axis:])))


def _axes(node: NodeContext) -> tuple[int, ...] | None:
    """The axes of Squeeze and Unsqueeze: an input from opset 13 on, an attribute before."""
    if node.opset < 13:
        return node.attr_ints("axes")
    return node.ints(1, "axes") if node.has(1) else None


def _squeeze(node: NodeContext) -> Value:
    x = node.tensor(0)
    dims = x.details.plain_dims
    given = _axes(node)
    if given is None:
        axes = {axis for axis, dim in enumerate(dims) if dim == 1}
    else:
        axes = {node.axis(axis, len(dims)) for axis in given}
        if any(dims[axis] != 1 for axis in axes):
            raise node.rule("squeezed axes must have size 1", f"axes {list(given)} of {list(dims)}")
    shape = tuple(d for axis, d in enumerate(dims) if axis not in axes)
    return node.make("reshape", x, shape=shape)


def _unsqueeze(node: NodeContext) -> Value:
    x = node.tensor(0)
    given = _axes(node)
    if given is None:
        raise node.rule("axes must be given", "none")
    rank = x.details.rank + len(given)
    axes = {node.axis(axis, rank) for axis in given}
    if len(axes) != len(given):
        raise node.rule("axes must be distinct", str(list(given)))
    rest = iter(x.details.plain_dims)
    shape = tuple(1 if axis in axes else next(rest) for axis in range(rank))
    return node.make("reshape", x, shape=shape)


def _concat(node: NodeContext) -> Value:
    tensors = node.tensors()
    axis = node.axis(node.attr_int("axis"), tensors[0].details.rank)
    return tensors[0] if len(tensors) == 1 else node.make("concat", *tensors, axis=axis)


def _expand(node: NodeContext) -> Value:
    x = node.tensor(0)
    shape = node.ints(1, "a shape")
    shape = _broadcast(node, x.details.plain_dims, shape)
    return x if shape == x.details.plain_dims else node.make("broadcast", x, shape=shape)


def _broadcast(node: NodeContext, dims: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(dims), len(shape))
    pairs = list(
        zip((1,) * (rank - len(dims)) + dims, (1,) * (rank - len(shape)) + shape, strict=True)
    )
    if any(a != b and 1 not in (a, b) or b < 0 for a, b in pairs):
        raise node.rule("the input must broadcast to the shape", f"{list(dims)} and {list(shape)}")
    return tuple(b if a == 1 else a for a, b in pairs)


def _tile(node: NodeContext) -> Value:
    x = node.tensor(0)
    dims = x.details.plain_dims
    repeats = node.ints(1, "repeats")
    if len(repeats) != len(dims) or min(repeats, default=0) < 0:
        raise node.rule("repeats must be one count per axis", f"{list(repeats)} for {list(dims)}")
    # [d0, d1] -> [1, d0, 1, d1] -> [r0, d0, r1, d1] -> [r0 * d0, r1 * d1]
    apart = node.reshaped(x, [n for dim in dims for n in (1, dim)])
    copies = tuple(n for r, dim in zip(repeats, dims, strict=True) for n in (r, dim))
    repeated = node.make("broadcast", apart, shape=copies)
    return node.reshaped(repeated, [r * d for r, d in zip(repeats, dims, strict=True)])


def _trilu(node: NodeContext) -> Value:
    x = node.tensor(0)
    dims = x.details.plain_dims
    if len(dims) < 2:
        raise node.rule("the input must be a matrix or a stack of them", str(x.details))
    node.check_array(dims[-2:])
    diagonal = _scalar(node, 1, "k", 0)
    upper = node.attr_int("upper")
    # Beyond the matrix the diagonal's place makes no difference, but could overflow NumPy's integers.
    diagonal = max(-dims[-2] - 1, min(diagonal, dims[-1] + 1))
    below = np.tri(dims[-2], dims[-1], diagonal - 1 if upper else diagonal, dtype=bool)
    kept = node.constant(~below if upper else below, BOOL)
    return node.make("select", kept, x, node.constant(0, x.details.dtype))


def _scalar(node: NodeContext, index: int, what: str, default: int) -> int:
    if not node.has(index):
        return default
    values = node.ints(index, what)
    if len(values) != 1:
        raise node.rule(f"{what} must be one integer", str(list(values)))
    return values[0]


def _space_to_depth(node: NodeContext) -> Value:
    x, block, mode = node.tensor(0), node.attr_int("blocksize"), _depth_mode(node)
    if x.details.rank != 4 or block < 1 or any(d % block for d in x.details.plain_dims[2:]):
        raise node.rule(f"the input must be NCHW with sizes divisible by {block}", str(x.details))
    n, c, h, w = x.details.plain_dims
    apart = node.reshaped(x, (n, c, h // block, block, w // block, block))
    perm = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    moved = node.make("transpose", apart, perm=perm)
    return node.reshaped(moved, (n, c * block * block, h // block, w // block))


def _depth_mode(node: NodeContext) -> str:
    """Whether the channels are depth-column-row or column-row-depth."""
    mode = node.attr_text("mode")
    if mode not in ("DCR", "CRD"):
        raise node.rule("mode must be DCR or CRD", f"'{mode}'")
    return mode


def _depth_to_space(node: NodeContext) -> Value:
    x, block, mode = node.tensor(0), node.attr_int("blocksize"), _depth_mode(node)
    if x.details.rank != 4 or block < 1 or x.details.plain_dims[1] % (block * block):
        raise node.rule(
            f"the input must be NCHW with C divisible by {block * block}", str(x.details)
        )
    n, c, h, w = x.details.plain_dims
    inner = c // (block * block)
    apart: Sequence[int] = (
        (n, block, block, inner, h, w) if mode == "DCR" else (n, inner, block, block, h, w)
    )
    perm = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    moved = node.make("transpose", node.reshaped(x, apart), perm=perm)
    return node.reshaped(moved, (n, inner, h * block, w * block))


HANDLERS: dict[str, Handler] = {
    "Dropout": _dropout,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Concat": _concat,
    "Expand": _expand,
    "Tile": _tile,
    "Trilu": _trilu,
    "SpaceToDepth": _space_to_depth,
    "DepthToSpace": _depth_to_space,
}
