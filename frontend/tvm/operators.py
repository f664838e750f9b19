"""Operators that a row of the table cannot express."""

from __future__ import annotations

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.indexing import gather_nd, one_hot
from ..correspondence.compositions.movement import slice_axes, split, split_evenly
from ..correspondence.compositions.windows import per_channel
from ..correspondence.reading import Pair
from .document import DTYPES
from .scope import Operator, OperatorContext, UndeterminedError

_SCALAR = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "rsub": "sub", "rdiv": "div",
           "pow": "pow"}  # fmt: skip


def _with_scalar(op_name: str, swapped: bool) -> Operator:
    def build(op: OperatorContext) -> GraphTensor:
        scalar = op.constant(op.attr_float("scalar"), op.x.details.dtype)
        return op.make(op_name, *((scalar, op.x) if swapped else (op.x, scalar)))

    return build


def _bias_add(op: OperatorContext) -> GraphTensor:
    x, bias = op.x, op.operand(1)
    dims, size = x.details.plain_dims, bias.details.elements
    if bias.details.rank != 1:
        return op.make("add", x, bias)
    fits = [axis for axis, dim in enumerate(dims) if dim == size]
    if op.knows("axis"):
        axis = op.axis(op.attr_int("axis", 1), len(dims))
    elif len(dims) == 2 or len(fits) == 1:
        axis = fits[-1] if fits else len(dims) - 1
    else:
        raise UndeterminedError("axis")
    return op.make("add", x, op.reshaped(bias, (size,) + (1,) * (len(dims) - 1 - axis)))


def _dense(op: OperatorContext, op_name: str) -> GraphTensor:
    x, dims = op.x, op.x.details.plain_dims
    if not op.type.startswith("nn_") and len(dims) > 2:
        x = op.reshaped(x, (dims[0], op.x.details.elements // max(dims[0], 1)))
    matmul = op.make(op_name, x, op.operand(1), transpose_b=True)
    return op.helper("add", matmul, op.operand(2)) if len(op.operands) > 2 else matmul


def _dense_pack(op: OperatorContext, op_name: str) -> GraphTensor:
    weight = op.operand(1)
    if weight.details.rank != 3:
        raise op.rule("the packed weight must have 3 axes", str(weight.details))
    outer, depth, block = weight.details.plain_dims
    plain = op.reshaped(op.transposed(weight, (1, 0, 2)), (depth, outer * block))
    return op.make(op_name, op.x, plain)


def _softmax(op: OperatorContext, op_name: str) -> GraphTensor:
    # Relay's default; images of rank 4 are usually normalized over channels.
    is_usual = not op.knows("axis") and op.x.details.rank <= 3
    return op.make(op_name, op.x, axis=-1 if is_usual else op.attr_int("axis", -1))


def _prelu(op: OperatorContext, op_name: str) -> GraphTensor:
    return op.make(op_name, op.x, per_channel(op, op.x, op.operand(1)))


def _reduce(op: OperatorContext, op_name: str) -> GraphTensor:
    axes = op.attr_ints("axis", ()) or None
    return op.make(op_name, op.x, axes=axes, keep_dims=op.attr_bool("keepdims", False))


def _arg(op: OperatorContext, op_name: str) -> GraphTensor:
    keep = op.attr_bool("keepdims", False)
    found = op.make(op_name, op.x, axis=op.attr_int("axis"), keep_dims=keep)
    return op.converted(found, op.result.dtype) if op.result else found


def _take(op: OperatorContext, op_name: str) -> GraphTensor:
    indices = op.operand(1)
    if indices.details.dtype.kind not in ("int", "uint"):
        indices = op.converted(indices, S64)
    return op.make(op_name, op.x, indices, axis=op.attr_int("axis", 0))


def _slice(op: OperatorContext, _: str) -> GraphTensor:
    begin, end = op.attr_ints("begin"), op.attr_ints("end")
    strides = op.attr_ints("strides", ()) or (1,) * len(begin)
    return slice_axes(op, op.x, begin, end, range(len(begin)), strides)


def _split(op: OperatorContext, _: str) -> list[GraphTensor]:
    """Into equal parts for a number, else between the positions of a list."""
    value = op.attr("indices_or_sections")
    axis = op.axis(op.attr_int("axis", 0), op.x.details.rank)
    if isinstance(value, int):
        return split_evenly(op, op.x, axis, value)
    bounds = [0, *op.attr_ints("indices_or_sections"), op.x.details.plain_dims[axis]]
    return split(op, op.x, axis, [b - a for a, b in zip(bounds, bounds[1:], strict=False)])


def _pad(op: OperatorContext, op_name: str) -> GraphTensor:
    """pad_width has a pair per axis; Relay's second operand is the value."""
    rank, width = op.x.details.rank, op.attr_ints("pad_width")
    if len(width) != 2 * rank:
        raise op.rule(f"pad_width must have a pair for each of {rank} axes", str(width)[:60])
    mode = op.attr_text("pad_mode", "constant")
    if mode not in ("constant", "edge", "reflect"):
        raise op.unsupported(f"pad_mode '{mode}'")
    value = op.attr_float("pad_value", 0.0)
    return op.make(op_name, op.x, before=width[::2], after=width[1::2], mode=mode, value=value)


def _gather_nd(op: OperatorContext, _: str) -> GraphTensor:
    """The first axis of the indices holds the coordinates."""
    indices = op.converted(op.operand(1), S64)
    if op.attr_int("batch_dims", 0):
        raise op.unsupported("batch_dims other than 0")
    rank = indices.details.rank
    return gather_nd(op, op.x, op.transposed(indices, [*range(1, rank), 0][:rank]))


def _top_k(op: OperatorContext, op_name: str) -> list[GraphTensor]:
    """Values and indices; `ret_type` (or the number of results) says which of them are given."""
    axis, k = op.attr_int("axis", -1), op.attr_int("k", 1)
    values, indices = op.outputs(
        op_name, op.x, k=k, axis=axis, largest=not op.attr_bool("is_ascend", False)
    )
    if op.call.results:
        indices = op.converted(indices, op.call.results[-1].dtype)
    kind = op.attr_text("ret_type", "both")
    if kind not in ("both", "values", "indices"):
        raise op.rule("ret_type must be both, values or indices", f"'{kind}'")
    return {"both": [values, indices], "values": [values], "indices": [indices]}[kind]


def _one_hot(op: OperatorContext, _: str) -> GraphTensor:
    axis, depth = op.attr_int("axis", -1), op.attr_int("depth")
    if depth < 0:
        raise op.rule("depth must not be negative", str(depth))
    y = one_hot(op, op.x, op.operand(1), op.operand(2), depth, axis)
    name = op.attr_text("dtype") if op.has("dtype") else ""
    return op.converted(y, DTYPES[name]) if name in DTYPES else y


def _batch_norm(op: OperatorContext, op_name: str) -> list[GraphTensor]:
    """The result, and the statistics as they came."""
    parameters = [op.operand(i) for i in range(1, 5)]
    attrs = {"axis": op.attr_int("axis", 1), "epsilon": op.attr_float("epsilon", 1e-5)}
    for key, neutral, index in (("scale", 1, 0), ("center", 0, 1)):
        if not op.attr_bool(key, True):
            like = parameters[index].details
            filled = op.constant(neutral, like.dtype)
            parameters[index] = op.helper("broadcast", filled, shape=like.plain_dims)
    return [op.make(op_name, op.x, *parameters, **attrs), *parameters[2:]]


PAIRS: dict[str, Pair] = {
    "copy": Pair(lambda op, _: op.x), "prelu": Pair(_prelu), "reduce": Pair(_reduce), "arg": Pair(_arg),
    "softmax": Pair(_softmax), "dense": Pair(_dense), "dense_pack": Pair(_dense_pack), "take": Pair(_take),
    "slice": Pair(_slice), "split": Pair(_split), "pad": Pair(_pad), "gather_nd": Pair(_gather_nd),
    "top_k": Pair(_top_k), "one_hot": Pair(_one_hot), "batch_norm": Pair(_batch_norm),
}  # fmt: skip

HANDLERS: dict[str, Operator] = {
    **{f"__{name}_scalar__": _with_scalar(op_name, name[0] == "r") for name, op_name in _SCALAR.items()},
    "nn_bias_add": _bias_add, "bias_add": _bias_add,
}  # fmt: skip
"""Operators that are in no row."""
