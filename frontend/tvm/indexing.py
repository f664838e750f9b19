"""Splitting, copying and ordering elements: split, stack, pad, tile, gather, topk, one_hot."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from .document import DTYPES
from .scope import Operator, OperatorContext, UndeterminedError


def _split(op: OperatorContext) -> list[GraphTensor]:
    dims = op.x.details.plain_dims
    if op.stored or op.has("indices_or_sections"):
        axis = op.axis(op.integer("axis", 0), len(dims))
        return _pieces(op, axis, _bounds(op, dims[axis]))
    if not op.results:
        raise UndeterminedError("indices_or_sections")
    parts = [r.plain_dims for r in op.results]
    axes = [
        i for i in range(len(dims)) if any(len(p) != len(dims) or p[i] != dims[i] for p in parts)
    ]
    if len(axes) != 1 or sum(p[axes[0]] for p in parts) != dims[axes[0]]:
        raise UndeterminedError("axis")
    return _pieces(op, axes[0], [sum(p[axes[0]] for p in parts[:i]) for i in range(len(parts) + 1)])


def _bounds(op: OperatorContext, size: int) -> list[int]:
    """The boundaries of pieces: equal pieces for a number, those between the positions of a list."""
    value = op.attr("indices_or_sections")
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1 or size % value:
            raise op.rule(f"indices_or_sections must divide {size}", str(value))
        return list(range(0, size + 1, size // value)) if size else [0] * (value + 1)
    bounds = [0, *op.integers("indices_or_sections"), size]
    if sorted(bounds) != bounds:
        raise op.rule(f"indices_or_sections must rise up to {size}", str(bounds[1:-1]))
    return bounds


def _pieces(op: OperatorContext, axis: int, bounds: Sequence[int]) -> list[GraphTensor]:
    return [
        op.sliced(op.x, axis, start, end - start)
        for start, end in zip(bounds, bounds[1:], strict=False)
    ]


def _stack(op: OperatorContext) -> GraphTensor:
    dims = op.x.details.plain_dims
    if op.has("axis") or op.stored:
        axis = op.axis(op.integer("axis", 0), len(dims) + 1)
    else:
        if op.result is None:
            raise UndeterminedError("axis")
        count = len(op.operands)
        fits = [
            i for i in range(len(dims) + 1) if (*dims[:i], count, *dims[i:]) == op.result.plain_dims
        ]
        if len(fits) != 1:
            raise UndeterminedError("axis")
        axis = fits[0]
    parts = [op.reshaped(x, (*dims[:axis], 1, *dims[axis:])) for x in op.operands]
    return op.make("concat", *parts, axis=axis)


def _pad(op: OperatorContext) -> GraphTensor:
    """pad_width has a pair per axis; Relay's second operand is the value."""
    rank = op.x.details.rank
    width = op.attr("pad_width")
    flat = [n for pair in width for n in pair] if _is_pairs(width) else op.integers("pad_width")
    if len(flat) != 2 * rank:
        raise op.rule(f"pad_width must have a pair for each of {rank} axes", str(width)[:60])
    mode = str(op.attr("pad_mode", "constant")) if op.has("pad_mode") or op.stored else "constant"
    if mode not in ("constant", "edge", "reflect"):
        raise op.unsupported(f"pad_mode '{mode}'")
    value = op.number("pad_value", 0.0) if op.has("pad_value") or op.stored else 0.0
    before, after = tuple(flat[::2]), tuple(flat[1::2])
    return op.make("pad", op.x, before=before, after=after, mode=mode, value=value)


def _is_pairs(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(pair, (list, tuple)) and all(type(n) is int for n in pair) for pair in value
    )


def _tile(op: OperatorContext) -> GraphTensor:
    """Copies side by side: [d0, d1] -> [1, d0, 1, d1] -> [r0, d0, r1, d1] -> [r0 * d0, r1 * d1]."""
    dims = op.x.details.plain_dims
    if op.has("reps") or op.stored:
        reps = op.integers("reps")
    else:
        target = None if op.result is None else op.result.plain_dims
        if target is None or any(d < 1 for d in dims):
            raise UndeterminedError("reps")
        wide = (1,) * (len(target) - len(dims)) + dims
        reps = [out // d for out, d in zip(target, wide, strict=False)]
    rank = max(len(reps), len(dims))
    sizes = (1,) * (rank - len(dims)) + dims
    counts = [1] * (rank - len(reps)) + reps
    if min(counts, default=1) < 0:
        raise op.rule("reps must not be negative", str(reps))
    apart = op.reshaped(op.x, [n for d in sizes for n in (1, d)])
    shape = tuple(n for r, d in zip(counts, sizes, strict=True) for n in (r, d))
    copies = op.make("broadcast", apart, shape=shape)
    return op.reshaped(copies, [r * d for r, d in zip(counts, sizes, strict=True)])


def _repeat(op: OperatorContext) -> GraphTensor:
    """Each element of an axis repeated consecutively."""
    dims = op.x.details.plain_dims
    axis, count = op.axis(op.integer("axis"), len(dims)), op.integer("repeats")
    if count < 0:
        raise op.rule("repeats must not be negative", str(count))
    apart = op.reshaped(op.x, (*dims[: axis + 1], 1, *dims[axis + 1 :]))
    copies = op.make("broadcast", apart, shape=(*dims[: axis + 1], count, *dims[axis + 1 :]))
    return op.reshaped(copies, (*dims[:axis], dims[axis] * count, *dims[axis + 1 :]))


def _flip(op: OperatorContext) -> GraphTensor:
    axis = op.axis(op.integer("axis", 0), op.x.details.rank)
    size = op.x.details.plain_dims[axis]
    return op.sliced(op.x, axis, size - 1, size, -1) if size > 1 else op.x


def _gather(op: OperatorContext) -> GraphTensor:
    axis = op.axis(op.integer("axis", 0), op.x.details.rank)
    return op.make("gather_elements", op.x, op.operand(1), axis=axis)


def _gather_nd(op: OperatorContext) -> GraphTensor:
    """The first axis of the indices holds the coordinates."""
    x, indices = op.x, op.converted(op.operand(1), S64)
    dims = x.details.plain_dims
    if (op.has("batch_dims") or op.stored) and op.integer("batch_dims", 0):
        raise op.unsupported("batch_dims other than 0")
    depth = indices.details.plain_dims[0] if indices.details.rank else 0
    if not 1 <= depth <= len(dims):
        raise op.rule(f"indices must have 1 to {len(dims)} rows", str(indices.details))
    steps = op.constant([math.prod(dims[i + 1 : depth]) for i in range(depth)], S64)
    scaled = op.helper(
        "mul", indices, op.reshaped(steps, (depth,) + (1,) * (indices.details.rank - 1))
    )
    places = op.helper("reduce_sum", scaled, axes=(0,), keep_dims=False)
    flat = op.reshaped(x, (math.prod(dims[:depth]), *dims[depth:]))
    return op.make("gather", flat, places, axis=0)


def _top_k(op: OperatorContext) -> list[GraphTensor]:
    """Values and places; `ret_type` (or the number of results) says which of them are given."""
    dims = op.x.details.plain_dims
    axis = op.axis(op.integer("axis", -1), len(dims))
    known = op.results[0].plain_dims if op.results else None
    k = op.integer("k", 1) if op.has("k") or known is None else known[axis]
    ascending = op.flag("is_ascend", False)
    values, places = op.outputs("top_k", op.x, k=k, axis=axis, largest=not ascending)
    if op.results:
        places = op.converted(places, op.results[-1].dtype)
    kind = str(op.attr("ret_type", "both")) if op.has("ret_type") or op.stored else "both"
    if kind not in ("both", "values", "indices"):
        raise op.rule("ret_type must be both, values or indices", f"'{kind}'")
    return {"both": [values, places], "values": [values], "indices": [places]}[kind]


def _one_hot(op: OperatorContext) -> GraphTensor:
    """Operands: indices, on, off."""
    dims, rank = op.x.details.plain_dims, op.x.details.rank + 1
    axis = op.axis(op.integer("axis", -1), rank)
    known = op.has("depth") or op.result is None
    depth = op.integer("depth") if known or op.result is None else op.result.plain_dims[axis]
    if depth < 0:
        raise op.rule("depth must not be negative", str(depth))
    op.check_array((depth,))
    places = [depth if i == axis else 1 for i in range(rank)]
    steps = op.reshaped(op.constant(list(range(depth)), S64), places)
    wide = op.converted(op.reshaped(op.x, (*dims[:axis], 1, *dims[axis:])), S64)
    on, off = (op.reshaped(op.operand(i), ()) for i in (1, 2))
    y = op.make("select", op.helper("eq", wide, steps), on, off)
    if op.has("dtype") and str(op.attr("dtype")) in DTYPES:
        return op.converted(y, DTYPES[str(op.attr("dtype"))])
    return y


def _sum_of_all(op: OperatorContext) -> GraphTensor:
    total, *rest = op.operands
    for x in rest:
        total = op.helper("add", total, x)
    return total


OPERATORS: dict[str, tuple[int, Operator]] = {
    "split": (1, _split), "stack": (-1, _stack), "nn_pad": (1, _pad), "pad": (1, _pad), "tile": (1, _tile),
    "repeat": (1, _repeat), "reverse": (1, _flip), "flip": (1, _flip), "gather": (2, _gather),
    "gather_nd": (2, _gather_nd), "topk": (1, _top_k), "one_hot": (3, _one_hot), "elemwise_sum": (-1, _sum_of_all),
    "add_n": (-1, _sum_of_all),
}  # fmt: skip
"""Operator to the number of its operands (-1: all there are) and its meaning."""
