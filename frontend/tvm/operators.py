"""What the operators of kernels and of uncompiled graphs become. A missing attribute is taken from shapes where they
leave one reading, else it is undetermined."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from ...base.dtypes import BOOL, S64
from ...graph_ir.ir.graph import GraphTensor
from . import indexing, normalize, windows
from .document import DTYPES
from .scope import Operator, OperatorContext, UndeterminedError

_UNARY = {
    "relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "exp": "exp", "sqrt": "sqrt", "rsqrt": "rsqrt", "erf": "erf",
    "log": "log", "abs": "abs", "negative": "neg", "floor": "floor", "ceil": "ceil", "round": "round", "sign": "sign",
    "sin": "sin", "cos": "cos", "tan": "tan", "atan": "atan", "asin": "asin", "acos": "acos", "sinh": "sinh",
    "cosh": "cosh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "trunc": "trunc", "logical_not": "not",
    "isnan": "isnan", "isinf": "isinf", "fast_exp": "exp", "fast_tanh": "tanh", "fast_erf": "erf",
}  # fmt: skip
_BINARY = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "power": "pow", "maximum": "max",
    "minimum": "min", "equal": "eq", "not_equal": "ne", "greater": "gt", "greater_equal": "ge", "less": "lt",
    "less_equal": "le", "logical_and": "and", "logical_or": "or", "floor_divide": "div", "floor_mod": "mod",
    "broadcast_add": "add", "broadcast_sub": "sub", "broadcast_mul": "mul", "broadcast_div": "div",
    "elemwise_add": "add", "elemwise_sub": "sub", "elemwise_mul": "mul", "elemwise_div": "div",
}  # fmt: skip
_SCALAR = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "div",
    "rsub": "sub",
    "rdiv": "div",
    "pow": "pow",
}
_REDUCTIONS = {"sum": "reduce_sum", "mean": "reduce_mean", "max": "reduce_max", "min": "reduce_min",
               "prod": "reduce_prod"}  # fmt: skip
ELEMENTWISE = {*_UNARY, *(f"nn_{name}" for name in ("relu", "leaky_relu")), "clip", "copy", "cast"}
"""Operators whose result has the shape of their only operand."""

BROADCASTING = {*_BINARY, "nn_bias_add", "nn_prelu"}
"""Operators that work element by element on operands which may be broadcast."""


def _unary(op_name: str) -> Operator:
    return lambda op: op.make(op_name, op.x)


def _binary(op_name: str) -> Operator:
    def build(op: OperatorContext) -> GraphTensor:
        a, b = op.operand(0), op.operand(1)
        is_int = op_name == "div" and not a.details.dtype.is_float and op.type == "divide"
        return op.make(op_name, a, b, **({"rounding": "trunc"} if is_int else {}))

    return build


def _with_scalar(op_name: str, swapped: bool) -> Operator:
    def build(op: OperatorContext) -> GraphTensor:
        scalar = op.constant(op.number("scalar"), op.x.details.dtype)
        return op.make(op_name, *((scalar, op.x) if swapped else (op.x, scalar)))

    return build


def _copy(op: OperatorContext) -> GraphTensor:
    return op.x


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


def _softmax(op_name: str) -> Operator:
    def build(op: OperatorContext) -> GraphTensor:
        rank = op.x.details.rank
        if op.has("axis") or op.stored:
            axis = op.integer("axis", -1)
        elif rank <= 3:  # Relay's default; images of rank 4 are usually normalised over channels
            axis = -1
        else:
            raise UndeterminedError("axis")
        return op.make(op_name, op.x, axis=axis)

    return build


def _clip(op: OperatorContext) -> GraphTensor:
    return op.make("clamp", op.x, min=op.number("a_min"), max=op.number("a_max"))


def _leaky_relu(op: OperatorContext) -> GraphTensor:
    return op.make("leaky_relu", op.x, alpha=op.number("alpha", 0.25))


def _prelu(op: OperatorContext) -> GraphTensor:
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


def _filled(value: int) -> Operator:
    def build(op: OperatorContext) -> GraphTensor:
        details = op.x.details
        return op.make("broadcast", op.constant(value, details.dtype), shape=details.plain_dims)

    return build


def _cast(op: OperatorContext) -> GraphTensor:
    if op.has("dtype"):
        name = str(op.attr("dtype"))
        if name not in DTYPES:
            raise op.unsupported(f"dtype '{name}'")
        return op.make("cast", op.x, dtype=DTYPES[name].name)
    if op.result is None:
        raise UndeterminedError("dtype")
    return op.make("cast", op.x, dtype=op.result.dtype.name)


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


def _reduce(op_name: str) -> Operator:
    def build(op: OperatorContext) -> GraphTensor:
        dims = op.x.details.plain_dims
        if op.has("axis") or op.stored:
            given = op.integers("axis", ())
            return op.make(
                op_name, op.x, axes=tuple(given) or None, keep_dims=op.flag("keepdims", False)
            )
        axes, keep = _reduced_axes(op, dims)
        return op.make(op_name, op.x, axes=axes, keep_dims=keep)

    return build


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


def _arg(op_name: str) -> Operator:
    def build(op: OperatorContext) -> GraphTensor:
        if op.has("axis") or op.stored:
            axis, keep = op.integer("axis"), op.flag("keepdims", False)
        else:
            axes, keep = _reduced_axes(op, op.x.details.plain_dims)
            if len(axes) != 1:
                raise UndeterminedError("axis")
            axis = axes[0]
        found = op.make(op_name, op.x, axis=axis, keep_dims=keep)
        return op.converted(found, op.result.dtype) if op.result else found

    return build


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


def _where(op: OperatorContext) -> GraphTensor:
    return op.make("select", op.converted(op.x, BOOL), op.operand(1), op.operand(2))


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


OPERATORS: dict[str, tuple[int, Operator]] = {
    **windows.OPERATORS,
    **normalize.OPERATORS,
    **indexing.OPERATORS,
    **{name: (1, _unary(op_name)) for name, op_name in _UNARY.items()},
    **{name: (2, _binary(op_name)) for name, op_name in _BINARY.items()},
    **{f"__{name}_scalar__": (1, _with_scalar(op_name, name[0] == "r")) for name, op_name in _SCALAR.items()},
    **{name: (1, _reduce(op_name)) for name, op_name in _REDUCTIONS.items()},
    "nn_relu": (1, _unary("relu")),
    "nn_prelu": (2, _prelu),
    "nn_leaky_relu": (1, _leaky_relu), "leaky_relu": (1, _leaky_relu),
    "copy": (1, _copy), "identity": (1, _copy), "dropout": (1, _copy), "nn_dropout": (1, _copy),
    "nn_bias_add": (2, _bias_add), "bias_add": (2, _bias_add),
    "nn_dense": (2, _dense), "dense": (2, _fully_connected), "FullyConnected": (2, _fully_connected),
    "nn_contrib_dense_pack": (2, _dense_pack),
    "nn_batch_matmul": (2, _batch_matmul), "nn_matmul": (2, _batch_matmul),
    "nn_softmax": (1, _softmax("softmax")), "softmax": (1, _softmax("softmax")),
    "nn_fast_softmax": (1, _softmax("softmax")),
    "nn_log_softmax": (1, _softmax("log_softmax")), "log_softmax": (1, _softmax("log_softmax")),
    "clip": (1, _clip), "reshape": (1, _reshape), "nn_batch_flatten": (1, _flatten), "flatten": (1, _flatten),
    "squeeze": (1, _squeeze), "expand_dims": (1, _expand_dims), "broadcast_to": (1, _broadcast_to),
    "zeros_like": (1, _filled(0)), "ones_like": (1, _filled(1)), "cast": (1, _cast), "transpose": (1, _transpose),
    "concatenate": (-1, _concatenate), "argmax": (1, _arg("arg_max")), "argmin": (1, _arg("arg_min")),
    "take": (2, _take), "where": (3, _where), "strided_slice": (1, _strided_slice),
}  # fmt: skip
"""Operator to the number of its operands (-1: all there are) and its meaning."""
