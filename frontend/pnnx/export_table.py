"""How each op of a graph is written as PNNX operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...dtypes import BOOL, S32, S64
from ...graph_ir.graph import GraphTensor, Op
from ...graph_ir.logical_tensor import LogicalTensor
from ...graph_ir.ops.activation import SELU_ALPHA, SELU_GAMMA, clamp_limits
from .export import Exporter, Inexpressible
from .param_value import OPEN_END
from .program import WORD_DTYPES

ExportFunction = Callable[[Exporter, Op], str]
"""Writes one op; returns the operand of its result."""

_WORDS: dict[str, str] = {}
for _word, _dtype in WORD_DTYPES.items():
    _WORDS.setdefault(_dtype.name, _word)


def absorb_parts(exporter: Exporter) -> None:
    """Mark the ops another one's operator stands for.

    nn.Linear: its constants, and the product where a bias follows. F.prelu: the reshape of its vector of slopes.
    """
    for op in exporter.graph.ops:
        if op.op_name == "reshape" and _is_slope(op):
            exporter.absorbed.add(id(op))
        if not _has_own_weight(op):
            continue
        exporter.absorbed.add(id(op.inputs[1].producer_owner))
        add = _bias_add(op)
        if add is not None:
            exporter.absorbed.update((id(op), id(add.inputs[1].producer_owner)))


def _is_slope(op: Op) -> bool:
    (y,) = op.outputs
    users = [(index, user.op_name) for index, user in y.uses]
    return users == [(1, "prelu")] and op.inputs[0].details.rank == 1


def _has_own_weight(op: Op) -> bool:
    if (
        op.op_name != "matmul_core"
        or op.attrs.get("transpose_a")
        or not op.attrs.get("transpose_b")
    ):
        return False
    return _own_constant(op.inputs[1], 2)


def _own_constant(x: GraphTensor, rank: int) -> bool:
    """A plain constant of that rank with one reader and a dtype that can be written."""
    is_constant = x.producer_owner.op_name == "constant" and x.details.format.is_plain
    known = x.details.dtype.name in _WORDS
    return is_constant and known and x.details.rank == rank and len(x.uses) == 1


def _bias_add(product: Op) -> Op | None:
    """The op that adds a bias of its own to a product nobody else reads."""
    (y,) = product.outputs
    if len(y.uses) != 1:
        return None
    index, add = y.uses[0]
    if add.op_name != "add" or index != 0 or not _own_constant(add.inputs[1], 1):
        return None
    fits = add.inputs[1].details.plain_dims == y.details.plain_dims[-1:]
    return add if fits else None


def _linear(e: Exporter, product: Op, bias: GraphTensor | None, result: LogicalTensor) -> str:
    x, weight = product.inputs
    out_features, in_features = weight.details.plain_dims
    weights = {} if bias is None else {"bias": _value(bias)}
    params = {"bias": bias is not None, "in_features": in_features, "out_features": out_features}
    weights["weight"] = _value(weight)
    return e.emit("nn.Linear", product.name, [e.operand(x)], result, params, weights=weights)


def _value(x: GraphTensor) -> Any:
    return np.asarray(x.producer_owner.attrs["value"])


def _matmul(e: Exporter, op: Op) -> str:
    result = op.outputs[0].details
    a, b = op.inputs
    if id(b.producer_owner) in e.absorbed:
        return _linear(e, op, None, result)
    left, right = e.operand(a), e.operand(b)
    if op.attrs.get("transpose_a"):
        left = _swapped(e, op, a)
    if op.attrs.get("transpose_b"):
        if b.details.rank == 2:
            return e.emit("F.linear", op.name, [left, right], result, keys=("input", "weight"))
        right = _swapped(e, op, b)
    return e.emit("torch.matmul", op.name, [left, right], result)


def _swapped(e: Exporter, op: Op, x: GraphTensor) -> str:
    *batch, rows, columns = x.details.plain_dims
    turned = LogicalTensor(x.details.dtype, (*batch, columns, rows))
    return e.emit(
        "torch.transpose", f"{op.name}.transpose", [e.operand(x)], turned, {"dim0": -2, "dim1": -1}
    )


def _add(e: Exporter, op: Op) -> str:
    product = op.inputs[0].producer_owner
    if product.op_name == "matmul_core" and id(product) in e.absorbed:
        return _linear(e, product, op.inputs[1], op.outputs[0].details)
    return e.expression(op, "or" if op.inputs[0].details.dtype == BOOL else "add")


# Sources and sinks.


def _input(e: Exporter, op: Op) -> str:
    return e.emit("pnnx.Input", op.name, [], op.outputs[0].details)


def _constant(e: Exporter, op: Op) -> str:
    value = np.asarray(op.attrs["value"])
    return e.emit("pnnx.Attribute", op.name, [], op.outputs[0].details, weights={"data": value})


def _output(e: Exporter, op: Op) -> str:
    name = str(op.attrs.get("temp.result", op.name))
    return e.emit("pnnx.Output", name, [e.operand(op.inputs[0])], None)


# Elementwise ops.


def _expression(function: str) -> ExportFunction:
    return lambda e, op: e.expression(op, function)


def _call(type_name: str, *keys: str, **attrs: str) -> ExportFunction:
    """The op's attributes as parameters: `attrs` gives the parameter for each attribute with its default."""

    def export(e: Exporter, op: Op) -> str:
        return e.call(op, type_name, *keys, **{p: op.attr(a) for p, a in attrs.items()})  # type: ignore[attr-defined]

    return export


def _div(e: Exporter, op: Op) -> str:
    if op.inputs[0].details.dtype.is_float:
        return e.expression(op, "div")
    if op.attrs.get("rounding", "floor") == "floor":
        return e.expression(op, "floor_divide")
    if id(op.inputs[0].producer_owner) in e.absorbed:
        raise Inexpressible("div of a number, truncated")
    return e.call(op, "torch.div", "input", "other", rounding_mode="trunc")


def _mod(e: Exporter, op: Op) -> str:
    return e.expression(op, "fmod" if op.attrs.get("sign") == "trunc" else "remainder")


def _not(e: Exporter, op: Op) -> str:
    is_bool = op.inputs[0].details.dtype == BOOL
    return e.call(op, "torch.logical_not" if is_bool else "torch.bitwise_not")


def _cast(e: Exporter, op: Op) -> str:
    return e.call(op, "Tensor.to", dtype=_WORDS[op.outputs[0].details.dtype.name])


def _clamp(e: Exporter, op: Op) -> str:
    limits = clamp_limits(op.inputs[0].details.dtype, op.attrs.get("min"), op.attrs.get("max"))
    if limits == (None, None):
        return e.call(op, "torch.clone")
    return e.call(op, "torch.clamp", min=limits[0], max=limits[1])


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-6)


def _hard_sigmoid(e: Exporter, op: Op) -> str:
    alpha, beta = op.attrs["alpha"], op.attrs.get("beta", 0.5)
    if not (_close(alpha, 1 / 6) and _close(beta, 0.5)):
        raise Inexpressible(f"hard_sigmoid with alpha={alpha:g}, beta={beta:g}")
    return e.call(op, "F.hardsigmoid")


def _selu(e: Exporter, op: Op) -> str:
    alpha, gamma = op.attrs.get("alpha", SELU_ALPHA), op.attrs.get("gamma", SELU_GAMMA)
    if not (_close(alpha, SELU_ALPHA) and _close(gamma, SELU_GAMMA)):
        raise Inexpressible(f"selu with alpha={alpha:g}, gamma={gamma:g}")
    return e.call(op, "F.selu")


def _prelu(e: Exporter, op: Op) -> str:
    """F.prelu takes a vector of slopes, one for all or one per channel of axis 1."""
    x, slope = op.inputs
    dims, shape = x.details.plain_dims, slope.details.plain_dims
    count = math.prod(shape)
    channels = dims[1] if len(dims) > 1 else 1
    # A vector lines up with axis 1 only of a matrix; else there must be an axis of size 1 for each later one.
    aligned = count == 1 or (
        len(shape) == len(dims) - 1 and shape[0] == channels and math.prod(shape[1:]) == 1
    )
    if len(shape) > max(len(dims) - 1, 1) or not aligned or not x.details.dtype.is_float:
        raise Inexpressible(f"prelu of {x.details} with slope {slope.details}")
    vector = LogicalTensor(slope.details.dtype, (count,))
    if id(slope.producer_owner) in e.absorbed:
        (slope,) = slope.producer_owner.inputs
        shape = slope.details.plain_dims
    operand = e.operand(slope)
    if shape != (count,):
        operand = e.emit(
            "Tensor.reshape", f"{op.name}.slope", [operand], vector, {"shape": (count,)}
        )
    keys = ("input", "weight")
    return e.emit("F.prelu", op.name, [e.operand(x), operand], op.outputs[0].details, keys=keys)


# Reductions, softmax, normalisations.


def _reduce(type_name: str, **extra: Any) -> ExportFunction:
    def export(e: Exporter, op: Op) -> str:
        axes, keep = op.axes, bool(op.attrs.get("keep_dims"))  # type: ignore[attr-defined]
        params = {**extra, "dim": axes, "keepdim": keep}
        dtype = op.inputs[0].details.dtype
        if type_name in ("torch.sum", "torch.prod") and not dtype.is_float and dtype != S64:
            params["dtype"] = _WORDS[dtype.name]
        if not axes and op.inputs[0].details.rank:
            raise Inexpressible(f"{op.op_name} over no axes")
        if type_name == "torch.prod" and len(axes) > 1:
            return _product_axis_by_axis(e, op, axes, keep, params)
        if type_name == "torch.prod":
            params["dim"] = axes[0] if axes else None
        return e.call(op, type_name, **params)

    return export


def _product_axis_by_axis(
    e: Exporter, op: Op, axes: Sequence[int], keep: bool, params: dict[str, Any]
) -> str:
    """torch.prod takes one dim; the last first, so that the others keep their numbers."""
    x = op.inputs[0].details
    operand, dims = e.operand(op.inputs[0]), list(x.plain_dims)
    for axis in reversed(axes):
        dims[axis : axis + 1] = [1] if keep else []
        result = LogicalTensor(x.dtype, tuple(dims))
        operand = e.emit("torch.prod", op.name, [operand], result, {**params, "dim": axis})
    return operand


def _arg(type_name: str) -> ExportFunction:
    def export(e: Exporter, op: Op) -> str:
        if op.attrs.get("last"):
            raise Inexpressible(f"{op.op_name} of the last of equal elements")
        return e.call(op, type_name, dim=op.axis, keepdim=bool(op.attrs.get("keep_dims")))  # type: ignore[attr-defined]

    return export


def _softmax(type_name: str) -> ExportFunction:
    return lambda e, op: e.call(op, type_name, dim=op.axis)  # type: ignore[attr-defined]


def _over_last_axes(type_name: str) -> ExportFunction:
    def export(e: Exporter, op: Op) -> str:
        dims = op.inputs[0].details.plain_dims[op.axes[0] :]  # type: ignore[attr-defined]
        params = {"normalized_shape": dims, "eps": op.epsilon}  # type: ignore[attr-defined]
        operands = [e.operand(op.inputs[0]), *(_expanded(e, op, x, dims) for x in op.inputs[1:])]
        keys = ("input", "weight", "bias")
        return e.emit(type_name, op.name, operands, op.outputs[0].details, params, keys)

    return export


def _expanded(e: Exporter, op: Op, x: GraphTensor, dims: tuple[int, ...]) -> str:
    if x.details.plain_dims == dims:
        return e.operand(x)
    whole = LogicalTensor(x.details.dtype, dims)
    if x.details.rank > len(dims):
        raise Inexpressible(f"{op.op_name} with parameters of {x.details}")
    return e.emit("Tensor.expand", f"{op.name}.expand", [e.operand(x)], whole, {"sizes": dims})


def _per_channel(type_name: str, **attrs: str) -> ExportFunction:
    def export(e: Exporter, op: Op) -> str:
        params = {name: op.attrs.get(attr, 1) for name, attr in attrs.items()}
        return e.call(op, type_name, "input", "weight", "bias", eps=op.epsilon, **params)  # type: ignore[attr-defined]

    return export


def _batch_norm(e: Exporter, op: Op) -> str:
    if op.axis != 1:  # type: ignore[attr-defined]
        raise Inexpressible("batch_norm of another axis than 1")
    x, scale, bias, mean, variance = map(e.operand, op.inputs)
    keys = ("input", "running_mean", "running_var", "weight", "bias")
    params = {"eps": op.epsilon, "training": False}  # type: ignore[attr-defined]
    return e.emit(
        "F.batch_norm",
        op.name,
        [x, mean, variance, scale, bias],
        op.outputs[0].details,
        params,
        keys,
    )


# Movement.


def _moved(type_name: str, param: str, attr: str) -> ExportFunction:
    """The attribute as a list; without axes there is nothing to move."""

    def export(e: Exporter, op: Op) -> str:
        value = op.attrs[attr]
        if not len(value) and type_name != "Tensor.reshape":
            return e.call(op, "torch.clone")
        return e.call(op, type_name, **{param: tuple(value)})

    return export


def _concat(e: Exporter, op: Op) -> str:
    return e.call(op, "torch.cat", dim=op.axis)  # type: ignore[attr-defined]


def _slice(e: Exporter, op: Op) -> str:
    """PNNX steps are positive: axes read backwards are flipped first."""
    x = op.inputs[0].details
    dims, rank = x.plain_dims, x.rank
    steps = op.attrs.get("steps", (1,) * rank)
    cuts = list(zip(op.attrs["starts"], steps, op.attrs["sizes"], strict=True))
    operand = e.operand(op.inputs[0])
    back = [axis for axis, (_, step, size) in enumerate(cuts) if step < 0 and size]
    if back:
        operand = e.emit("torch.flip", op.name, [operand], x, {"dims": back})
        cuts = [
            (dims[i] - 1 - a, -s, n) if i in back else (a, s, n) for i, (a, s, n) in enumerate(cuts)
        ]
    parts = [i for i, cut in enumerate(cuts) if cut != (0, 1, dims[i])]
    if not parts and back:
        return operand
    if not rank:
        return e.call(op, "torch.clone")
    params = _slice_params(cuts, parts or [0])
    return e.emit("Tensor.slice", op.name, [operand], op.outputs[0].details, params)


def _slice_params(cuts: list[tuple[int, int, int]], axes: list[int]) -> dict[str, Any]:
    starts, steps, ends = [], [], []
    for start, step, size in (cuts[axis] for axis in axes):
        starts.append(start)
        steps.append(max(step, 1))
        ends.append(start + step * (size - 1) + 1 if size else start)
    if len(axes) == 1:
        return {"dim": axes[0], "start": starts[0], "end": ends[0], "step": steps[0]}
    selects = [OPEN_END] * len(axes)
    return {"dims": axes, "starts": starts, "ends": ends, "steps": steps, "selects": selects}


def _pad(e: Exporter, op: Op) -> str:
    pairs = list(zip(op.attrs["before"], op.attrs["after"], strict=True))
    while len(pairs) > 1 and pairs[0] == (0, 0):
        pairs.pop(0)
    mode = op.attrs.get("mode", "constant")
    params: dict[str, Any] = {"pad": [n for pair in reversed(pairs) for n in pair]}
    if not pairs:
        return e.call(op, "torch.clone")
    params["mode"] = "replicate" if mode == "edge" else mode
    if mode == "constant":
        params["value"] = float(op.attrs.get("value") or 0)
    return e.call(op, "F.pad", **params)


def _gather(e: Exporter, op: Op) -> str:
    x, index = op.inputs
    ids = e.operand(index)
    if index.details.dtype not in (S32, S64):
        wide = LogicalTensor(S64, index.details.plain_dims)
        ids = e.emit("Tensor.to", f"{op.name}.to", [ids], wide, {"dtype": "torch.long"})
    axis, result = op.axis, op.outputs[0].details  # type: ignore[attr-defined]
    if index.details.rank == 1:
        keys = ("input", "index")
        return e.emit(
            "torch.index_select", op.name, [e.operand(x), ids], result, {"dim": axis}, keys
        )
    if x.details.rank == 2 and axis == 0:
        return e.emit("F.embedding", op.name, [ids, e.operand(x)], result, keys=("input", "weight"))
    items = ["None"] * axis + ["@0"]
    params = {"expr": f"[{','.join(items)}]"}
    return e.emit("Tensor.index", op.name, [e.operand(x), ids], result, params)


_FUNCTIONS = (
    *(
        "abs",
        "neg",
        "square",
        "sign",
        "ceil",
        "floor",
        "trunc",
        "round",
        "sqrt",
        "rsqrt",
        "reciprocal",
    ),
    *("exp", "expm1", "log", "log1p", "erf", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "asinh", "acosh", "atanh", "sub", "mul", "pow", "atan2"),
)  # spelled alike in expressions

EXPORTERS: dict[str, ExportFunction] = {
    "input": _input,
    "constant": _constant,
    "output": _output,
    "matmul_core": _matmul,
    "add": _add,
    **{name: _expression(name) for name in (*_FUNCTIONS, "and", "or", "xor")},
    "max": _expression("maximum"),
    "min": _expression("minimum"),
    "shl": _expression("lshift"),
    "shr": _expression("rshift"),
    "div": _div,
    "mod": _mod,
    "not": _not,
    "isnan": _call("torch.isnan"),
    "isinf": _call("torch.isinf"),
    **{
        name: _call(f"torch.{name}", "input", "other")
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
    },
    "select": _call("torch.where", "condition", "input", "other"),
    "cast": _cast,
    "clamp": _clamp,
    **{
        name: _call(f"F.{name}") for name in ("relu", "sigmoid", "tanh", "silu", "mish", "softsign")
    },
    "hard_swish": _call("F.hardswish"),
    "hard_sigmoid": _hard_sigmoid,
    "leaky_relu": _call("F.leaky_relu", negative_slope="alpha"),
    "elu": _call("F.elu", alpha="alpha"),
    "selu": _selu,
    "gelu": _call("F.gelu", approximate="approximate"),
    "softplus": _call("F.softplus"),
    "prelu": _prelu,
    "reduce_sum": _reduce("torch.sum"),
    "reduce_mean": _reduce("torch.mean"),
    "reduce_max": _reduce("torch.amax"),
    "reduce_min": _reduce("torch.amin"),
    "reduce_prod": _reduce("torch.prod"),
    "reduce_any": _reduce("torch.any"),
    "reduce_all": _reduce("torch.all"),
    "reduce_l1": _reduce("torch.norm", p=1),
    "reduce_l2": _reduce("torch.norm", p=2),
    "reduce_log_sum_exp": _reduce("torch.logsumexp"),
    "arg_max": _arg("torch.argmax"),
    "arg_min": _arg("torch.argmin"),
    "softmax": _softmax("F.softmax"),
    "log_softmax": _softmax("F.log_softmax"),
    "layer_norm": _over_last_axes("F.layer_norm"),
    "rms_norm": _over_last_axes("F.rms_norm"),
    "group_norm": _per_channel("F.group_norm", num_groups="groups"),
    "instance_norm": _per_channel("F.instance_norm"),
    "batch_norm": _batch_norm,
    "transpose": _moved("Tensor.permute", "dims", "perm"),
    "reshape": _moved("Tensor.reshape", "shape", "shape"),
    "broadcast": _moved("Tensor.expand", "sizes", "shape"),
    "concat": _concat,
    "slice": _slice,
    "pad": _pad,
    "gather": _gather,
    "copy": _call("torch.clone"),
}
"""Graph op to its writer; what is not here has no form in PNNX."""
