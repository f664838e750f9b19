"""Ops that move elements, or convert them one at a time: shapes, slices, pads, concats, casts."""

from __future__ import annotations

import math
from collections.abc import Callable

from ....base.dtypes import ALL
from ....graph_ir.ir.graph import GraphTensor
from ..scope import ANY, Dims, Scope
from .reductions import one_axis

MODES = ("constant", "reflect", "edge", "wrap")


def copy(scope: Scope) -> None:
    """The tensor again."""
    scope.make("copy", [scope.any()])


def cast(scope: Scope) -> None:
    """Another element type."""
    x = scope.any()
    kinds = ("float", "bool") if x.details.dtype.is_float and not scope.plan.strays else ANY
    scope.make("cast", [x], dtype=scope.dtype(kinds).name)


def bitcast(scope: Scope) -> None:
    """The bits as another type of their width."""
    x = scope.any(("float", "int", "uint"))
    same = [d for d in ALL if d.bits == x.details.dtype.bits and d.kind != "bool"]
    scope.make("bitcast", [x], dtype=scope.random.choice(same).name)


def transpose(scope: Scope) -> None:
    """Axes in another order."""
    x = scope.any(ANY, 1)
    perm = list(range(x.details.rank))
    if scope.chance(0.5):
        scope.random.shuffle(perm)
    else:  # the last two, as matmuls want them
        perm[-2:] = perm[-2:][::-1]
    scope.make("transpose", [x], perm=tuple(perm))


def other_shape(scope: Scope, dims: Dims) -> Dims:
    """Return dims with the same number of elements: axes merged, split, inserted or flattened."""
    kind = scope.random.randrange(4)
    if kind == 0 and len(dims) > 1:
        at = scope.random.randrange(len(dims) - 1)
        return (*dims[:at], dims[at] * dims[at + 1], *dims[at + 2 :])
    if kind == 1 and dims:
        at = scope.random.randrange(len(dims))
        factor = next((f for f in (2, 3, 4, 5, 8) if dims[at] % f == 0 and dims[at]), 1)
        return (*dims[:at], dims[at] // factor, factor, *dims[at + 1 :])
    if kind == 2:
        at = scope.random.randint(0, len(dims))
        return (*dims[:at], 1, *dims[at:])
    return (math.prod(dims),)


def reshape(scope: Scope) -> None:
    """The elements under another shape."""
    x = scope.any()
    scope.make("reshape", [x], shape=other_shape(scope, x.details.plain_dims))


def broadcast(scope: Scope) -> None:
    """New axes in front, and axes of one element repeated."""
    x = scope.any()
    dims = [scope.size() if d == 1 and scope.chance(0.6) else d for d in x.details.plain_dims]
    front = [scope.size() for _ in range(scope.random.randint(0, 2))]
    scope.make("broadcast", [x], shape=(*front, *dims))


def concat(scope: Scope) -> None:
    """Tensors that agree in all sizes but one."""
    x = scope.any(ANY, 1)
    axis, dims = one_axis(scope, x.details.rank), x.details.plain_dims
    parts = [x]
    for _ in range(scope.random.choice((1, 1, 2, 3, 0))):
        size = dims[axis] if scope.chance(0.5) else scope.size()
        at = axis % len(dims)
        parts.append(scope.like(x.details.dtype, (*dims[:at], size, *dims[at + 1 :])))
    scope.random.shuffle(parts)
    scope.make("concat", parts, axis=axis)


def slices(scope: Scope) -> None:
    """A part of every axis, some with steps or backwards."""
    x = scope.any(ANY, 1)
    bounds = [_bounds(scope, size) for size in x.details.plain_dims]
    starts, steps, sizes = (tuple(b[i] for b in bounds) for i in range(3))
    scope.make("slice", [x], starts=starts, steps=steps, sizes=sizes)


def _bounds(scope: Scope, size: int) -> tuple[int, int, int]:
    if scope.chance(0.4) or not size:
        return 0, 1, size
    start, step = scope.random.randrange(size), scope.random.choice((1, 1, 1, 2, 3, -1, -1, -2))
    room = (size - 1 - start) // step if step > 0 else start // -step
    return start, step, scope.random.randint(0, room + 1) if scope.chance(0.3) else room + 1


def pad(scope: Scope) -> None:
    """Elements added around, or cut off."""
    x = scope.any(ANY, 1)
    mode = scope.random.choice(MODES)
    before, after = (
        tuple(_padding(scope, size, mode) for size in x.details.plain_dims) for _ in range(2)
    )
    if mode != "constant":
        scope.make("pad", [x], before=before, after=after, mode=mode)
        return
    value = scope.random.choice((0, 1, -1, 2.5)) if x.details.dtype.is_float else 1
    scope.make("pad", [x], before=before, after=after, mode=mode, value=value)


def _padding(scope: Scope, size: int, mode: str) -> int:
    if scope.chance(0.5):
        return 0
    return scope.random.randint(-1, max(size - 1, 0) if mode == "reflect" else 4)


def two_way(scope: Scope, x: GraphTensor) -> GraphTensor:
    """Add x transposed, reshaped or unchanged, as movement around matmuls."""
    kind = scope.random.randrange(4)
    if kind == 0 and x.details.rank > 1:
        perm = list(range(x.details.rank))
        scope.random.shuffle(perm)
        return scope.one("transpose", x, perm=tuple(perm))
    if kind == 1:
        return scope.one("reshape", x, shape=other_shape(scope, x.details.plain_dims))
    return x


RECIPES: dict[str, Callable[[Scope], None]] = {
    "copy": copy,
    "cast": cast,
    "bitcast": bitcast,
    "transpose": transpose,
    "reshape": reshape,
    "broadcast": broadcast,
    "concat": concat,
    "slice": slices,
    "pad": pad,
}
