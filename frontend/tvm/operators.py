"""Operators that a row of the table cannot say. A missing attribute is taken from shapes where they leave one reading,
else it is undetermined."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.reading import Pair
from .scope import Operator, OperatorContext, UndeterminedError

_SCALAR = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "rsub": "sub", "rdiv": "div",
           "pow": "pow"}  # fmt: skip


def _with_scalar(op_name: str, swapped: bool) -> Operator:
    def build(op: OperatorContext) -> GraphTensor:
        scalar = op.constant(op.number("scalar"), op.x.details.dtype)
        return op.make(op_name, *((scalar, op.x) if swapped else (op.x, scalar)))

    return build


def _bias_add(op: OperatorContext) -> GraphTensor:
    x, bias = op.x, op.operand(1)
    dims, size = x.details.plain_dims, bias.details.elements
    if bias.details.rank != 1:
        return op.make("add", x, bias)
    fits = [axis for axis, dim in enumerate(dims) if dim == size]
    if op.has("axis") or op.stored:
        axis = op.axis(op.integer("axis", 1), len(dims))
    elif len(dims) == 2 or len(fits) == 1:
        axis = fits[-1] if fits else len(dims) - 1
    else:
        raise UndeterminedError("axis")
    return op.make("add", x, op.reshaped(bias, (size,) + (1,) * (len(dims) - 1 - axis)))


def _dense(op: OperatorContext) -> GraphTensor:
    x, weight = op.x, op.operand(1)
    product = op.make("matmul_core", x, weight, transpose_b=True)
    if len(op.operands) < 3:
        return product
    return op.helper("add", product, op.operand(2))


def _fully_connected(op: OperatorContext) -> GraphTensor:
    x = op.x
    dims = x.details.plain_dims
    if len(dims) > 2:
        x = op.reshaped(x, (dims[0], math.prod(dims[1:])))
    operands = [x, *op.operands[1:]]
    inner = OperatorContext(op.graph, op.type, op.name, operands, op.given, None, op.stored)
    return _dense(inner)


def _dense_pack(op: OperatorContext) -> GraphTensor:
    x, weight = op.x, op.operand(1)
    if weight.details.rank != 3:
        raise op.rule("the packed weight must have 3 axes", str(weight.details))
    outer, depth, block = weight.details.plain_dims
    plain = op.reshaped(op.transposed(weight, (1, 0, 2)), (depth, outer * block))
    return op.make("matmul_core", x, plain)


def _batch_matmul(op: OperatorContext) -> GraphTensor:
    a, b = op.x, op.operand(1)
    flags = {
        key: op.flag(key, default) if op.has(key) or op.stored else default
        for key, default in (("transpose_a", False), ("transpose_b", op.type != "nn_matmul"))
    }
    return op.make("matmul_core", a, b, **flags)


def _softmax(op: OperatorContext, op_name: str) -> GraphTensor:
    if op.has("axis") or op.stored:
        axis = op.integer("axis", -1)
    elif (
        op.x.details.rank <= 3
    ):  # Relay's default; images of rank 4 are usually normalised over channels
        axis = -1
    else:
        raise UndeterminedError("axis")
    return op.make(op_name, op.x, axis=axis)


def _prelu(op: OperatorContext, _: str) -> GraphTensor:
    slope, rank = op.operand(1), op.x.details.rank
    if slope.details.rank == 1 and rank > 2:
        slope = op.reshaped(slope, (slope.details.elements,) + (1,) * (rank - 2))
    return op.make("prelu", op.x, slope)


def _reshape(op: OperatorContext) -> GraphTensor:
    dims: list[int] = list(op.shape("shape"))
    old = op.x.details.plain_dims
    dims = [
        old[i] if size == 0 and i < len(old) and op.x.details.elements else size
        for i, size in enumerate(dims)
    ]
    if dims.count(-1) == 1:
        rest = math.prod(size for size in dims if size != -1)
        if rest and op.x.details.elements % rest == 0:
            dims[dims.index(-1)] = op.x.details.elements // rest
    return op.make("reshape", op.x, shape=tuple(dims))


def _flatten(op: OperatorContext) -> GraphTensor:
    dims = op.x.details.plain_dims
    return op.make("reshape", op.x, shape=(*dims[:1], math.prod(dims[1:])))


def _squeeze(op: OperatorContext) -> GraphTensor:
    if op.result is not None:
        return op.make("reshape", op.x, shape=op.result.plain_dims)
    dims = op.x.details.plain_dims
    ones = [axis for axis, dim in enumerate(dims) if dim == 1]
    axes = {op.axis(axis, len(dims)) for axis in op.integers("axis", ones)}
    return op.make("reshape", op.x, shape=tuple(d for i, d in enumerate(dims) if i not in axes))


def _expand_dims(op: OperatorContext) -> GraphTensor:
    if op.result is not None:
        return op.make("reshape", op.x, shape=op.result.plain_dims)
    dims = list(op.x.details.plain_dims)
    axis = op.axis(op.integer("axis"), len(dims), inclusive=True)
    dims[axis:axis] = [1] * op.integer("num_newaxis", 1)
    return op.make("reshape", op.x, shape=tuple(dims))


def _broadcast_to(op: OperatorContext) -> GraphTensor:
    return op.make("broadcast", op.x, shape=op.shape("shape"))


def _transpose(op: OperatorContext) -> GraphTensor:
    dims = op.x.details.plain_dims
    if op.has("axes") or op.stored:
        axes = op.integers("axes", ()) or list(range(len(dims)))[::-1]
        return op.make("transpose", op.x, perm=tuple(axes))
    if op.result is None or len(dims) > 6:
        raise UndeterminedError("axes")
    target = op.result.plain_dims
    fits = [
        p for p in itertools.permutations(range(len(dims))) if tuple(dims[i] for i in p) == target
    ]
    if len(fits) != 1:  # axes of equal size: the file does not tell
        raise UndeterminedError("axes")
    return op.make("transpose", op.x, perm=fits[0])


def _concatenate(op: OperatorContext) -> GraphTensor:
    dims = [x.details.plain_dims for x in op.operands]
    if op.has("axis") or op.stored:
        axis = op.integer("axis", 1)
    elif op.result is None:
        raise UndeterminedError("axis")
    else:
        axes = [
            i for i, (a, b) in enumerate(zip(dims[0], op.result.plain_dims, strict=False)) if a != b
        ]
        if len(axes) != 1:
            raise UndeterminedError("axis")
        axis = axes[0]
    return op.make("concat", *op.operands, axis=axis)


def _reduce(op: OperatorContext, op_name: str) -> GraphTensor:
    if op.has("axis") or op.stored:
        axes, keep = tuple(op.integers("axis", ())) or None, op.flag("keepdims", False)
    else:
        axes, keep = _reduced_axes(op, op.x.details.plain_dims)
    return op.make(op_name, op.x, axes=axes, keep_dims=keep)


def _reduced_axes(op: OperatorContext, dims: Sequence[int]) -> tuple[tuple[int, ...], bool]:
    """The only set of axes that gives the known result."""
    if op.result is None or len(dims) > 8:
        raise UndeterminedError("axis")
    target, keep = op.result.plain_dims, op.result.rank == len(dims)
    fits = []
    for count in range(1, len(dims) + 1):
        for axes in itertools.combinations(range(len(dims)), count):
            left = tuple(1 if i in axes else d for i, d in enumerate(dims) if keep or i not in axes)
            if left == target:
                fits.append(axes)
    real = {tuple(a for a in axes if dims[a] != 1) for axes in fits}
    if len(real) != 1:
        raise UndeterminedError("axis")
    return max(fits, key=len), keep


def _arg(op: OperatorContext, op_name: str) -> GraphTensor:
    if op.has("axis") or op.stored:
        axis, keep = op.integer("axis"), op.flag("keepdims", False)
    else:
        axes, keep = _reduced_axes(op, op.x.details.plain_dims)
        if len(axes) != 1:
            raise UndeterminedError("axis")
        axis = axes[0]
    found = op.make(op_name, op.x, axis=axis, keep_dims=keep)
    return op.converted(found, op.result.dtype) if op.result else found


def _take(op: OperatorContext) -> GraphTensor:
    x, indices = op.x, op.operand(1)
    if op.has("axis") or op.stored:
        axis = op.integer("axis", 0)
    else:
        if op.result is None:
            raise UndeterminedError("axis")
        dims, picked = x.details.plain_dims, indices.details.plain_dims
        fits = [
            i
            for i in range(len(dims))
            if (*dims[:i], *picked, *dims[i + 1 :]) == op.result.plain_dims
        ]
        if len(fits) != 1:
            raise UndeterminedError("axis")
        axis = fits[0]
    if indices.details.dtype.kind not in ("int", "uint"):
        indices = op.converted(indices, S64)
    return op.make("gather", x, indices, axis=axis)


def _strided_slice(op: OperatorContext) -> GraphTensor:
    dims = op.x.details.plain_dims
    begin, end = op.integers("begin"), op.integers("end")
    strides = op.integers("strides", ()) if op.has("strides") or op.stored else [1] * len(begin)
    strides = strides or [1] * len(begin)
    if not len(begin) == len(end) == len(strides) <= len(dims):
        raise op.rule("begin, end and strides must have one length", f"{begin}, {end}, {strides}")
    if 0 in strides:
        raise op.rule("strides must not be 0", str(strides))
    taken = [
        range(*slice(b, e, s).indices(d))
        for b, e, s, d in zip(begin, end, strides, dims, strict=False)
    ]
    taken += [range(d) for d in dims[len(taken) :]]
    return op.make(
        "slice",
        op.x,
        starts=tuple(t.start if t else 0 for t in taken),
        steps=tuple(t.step for t in taken),
        sizes=tuple(len(t) for t in taken),
    )


def _copy(op: OperatorContext, _: str) -> GraphTensor:
    return op.x


PAIRS: dict[str, Pair] = {
    "copy": Pair(_copy), "prelu": Pair(_prelu), "reduce": Pair(_reduce), "arg": Pair(_arg), "softmax": Pair(_softmax),
}  # fmt: skip
"""What reads a cell that a row cannot say, by the name after `by`."""

OPERATORS: dict[str, tuple[int, Operator]] = {
    **{f"__{name}_scalar__": (1, _with_scalar(op_name, name[0] == "r")) for name, op_name in _SCALAR.items()},
    "nn_bias_add": (2, _bias_add), "bias_add": (2, _bias_add),
    "nn_dense": (2, _dense), "dense": (2, _fully_connected), "FullyConnected": (2, _fully_connected),
    "nn_contrib_dense_pack": (2, _dense_pack),
    "nn_batch_matmul": (2, _batch_matmul), "nn_matmul": (2, _batch_matmul),
    "reshape": (1, _reshape), "nn_batch_flatten": (1, _flatten), "flatten": (1, _flatten),
    "squeeze": (1, _squeeze), "expand_dims": (1, _expand_dims), "broadcast_to": (1, _broadcast_to),
    "transpose": (1, _transpose), "concatenate": (-1, _concatenate), "take": (2, _take),
    "strided_slice": (1, _strided_slice),
}  # fmt: skip
"""Operator to the number of its operands (-1: all there are) and its meaning."""
