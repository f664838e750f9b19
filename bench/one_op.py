"""A workload of one ONNX operator from one line of text: `Transpose(f32[128, 12, 64], perm=[1, 0, 2])`.

The line is a call in Python's syntax; operands come first, attributes by name. An operand is

    f32[8, 128]                an input: normal values for floats, small ones for integers
    weight(f32[64, 64, 3, 3])  a constant, normal values divided so that accumulators stay near 1
    constant(f32[64])          a constant, normal values
    below(50, s64[512])        an input of indices: random integers in 0..49
    positive(f32[8, 128])      an input of values above 0; positive_constant likewise
    distinct(f32[8, 128])      an input without equal values
    [1, 2] or 0.5              a constant: s64 vector, f32 scalar
    u8(0)                      a constant scalar of that type
    None                       left out

`results` is the number of results requested (1).
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import field
from typing import Any

import numpy as np

from ..base.dtypes import DType, by_name
from ..base.errors import InternalError
from ..base.records import dataclass
from .cases import Array, Case, model_bytes

OPSET, IR_VERSION = 20, 10
CONVOLUTIONS = ("Conv", "ConvInteger", "ConvTranspose")
RECURRENT = ("LSTM", "GRU", "RNN")
MATMULS = ("MatMul", "MatMulInteger", "Gemm")
SELECTING = ("Slice", "Gather", "GatherElements", "GatherND")


@dataclass
class OneOp:
    """The operands of a call, in order, as names of inputs and initializers."""

    names: list[str] = field(default_factory=list)
    inputs: dict[str, Array] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)

    def add(self, value: Array, constant: bool) -> None:
        """Append an operand."""
        name = f"x{len(self.names)}"
        self.names.append(name)
        (self.constants if constant else self.inputs)[name] = value


def one_op_case(name: str, text: str) -> Case:
    """The case that a line describes. Raise InternalError if it has no such form."""
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise InternalError(f"case '{name}' must be a call of an operator, got '{text}'")
    rng = np.random.default_rng(1)
    operands = OneOp()
    for node in call.args:
        _add_operand(operands, node, rng)
    attrs = {word.arg or "": ast.literal_eval(word.value) for word in call.keywords}
    model = _model(name, call.func.id, operands, attrs)
    shapes = {key: value.shape for key, value in operands.inputs.items()}
    op = call.func.id
    work, selects = _gflop(op, model), op in SELECTING
    return Case(name, model, shapes, operands.inputs, op_gflop=work, selects=selects)


def _add_operand(operands: OneOp, node: ast.expr, rng: np.random.Generator) -> None:
    if isinstance(node, ast.Subscript):
        operands.add(_normal(*_tensor(node), rng), constant=False)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        value, constant = _made(node.func.id, node.args, rng)
        operands.add(value, constant)
    else:
        value = ast.literal_eval(node)
        if value is None:
            operands.names.append("")
        else:
            floats = isinstance(value, float) or (isinstance(value, list) and _has_float(value))
            operands.add(np.array(value, np.float32 if floats else np.int64), constant=True)


def _has_float(values: list[object]) -> bool:
    return any(isinstance(value, float) for value in values)


def _made(function: str, args: list[ast.expr], rng: np.random.Generator) -> tuple[Array, bool]:
    """(values, whether they are constant) of `weight(...)`, `constant(...)`, `below(...)`, `positive(...)`, `u8(0)`."""
    if function == "below":
        dtype, shape = _tensor(args[1])
        return rng.integers(0, ast.literal_eval(args[0]), shape).astype(dtype.numpy), False
    if function in MAKERS:
        value, constant = MAKERS[function](_normal(*_tensor(args[0]), rng))
        return value, constant
    return np.array(ast.literal_eval(args[0]), by_name(function).numpy), True


MAKERS: dict[str, Callable[[Array], tuple[Array, bool]]] = {
    "weight": lambda x: ((x / (x.size / max(x.shape)) ** 0.5).astype(x.dtype), True),
    "constant": lambda x: (x, True),
    "positive_constant": lambda x: (np.abs(x) + x.dtype.type(0.01), True),
    "distinct": lambda x: (np.argsort(x.reshape(-1)).reshape(x.shape).astype(x.dtype), False),
    "positive": lambda x: (np.abs(x) + x.dtype.type(0.01), False),
}


def _tensor(node: ast.expr) -> tuple[DType, tuple[int, ...]]:
    """The type and shape of `f32[8, 128]`."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        raise InternalError(f"an operand must be like f32[8, 128], got '{ast.unparse(node)}'")
    dims = ast.literal_eval(node.slice)
    return by_name(node.value.id), dims if isinstance(dims, tuple) else (dims,)


def _normal(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Normal values; integers are 16 times as large (unsigned: without sign), bools true for half of them."""
    values = rng.standard_normal(shape, dtype=np.float32)
    if dtype.kind == "bool":
        return values > 0
    if dtype.kind == "uint":
        return np.abs(values * 16).astype(dtype.numpy)
    return (values if dtype.is_float else values * 16).astype(dtype.numpy)


def _model(name: str, op: str, operands: OneOp, attrs: dict[str, Any]) -> bytes:
    from onnx import helper, numpy_helper, shape_inference

    results = [f"y{i}" for i in range(attrs.pop("results", 1))]
    node = helper.make_node(op, operands.names, results, "op", **attrs)
    inputs = [
        helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for key, x in operands.inputs.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(result) for result in results]
    constants = [numpy_helper.from_array(x, key) for key, x in operands.constants.items()]
    model = model_bytes(name, [node], inputs, outputs, constants, OPSET, IR_VERSION)
    return bytes(shape_inference.infer_shapes(model, True, True, True).SerializeToString())


def _gflop(op: str, model: bytes) -> float:
    """Return 1e9 multiplications and additions of a matmul, convolution or recurrent layer; 0 for other operators."""
    from onnx import load_from_string

    graph = load_from_string(model).graph
    shapes = {x.name: tuple(x.dims) for x in graph.initializer}
    for value in (*graph.input, *graph.output):
        shapes[value.name] = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
    operands = [shapes[name] for name in graph.node[0].input if name]
    result = shapes[graph.output[0].name]
    if op in CONVOLUTIONS:
        pixels = operands[0] if op == "ConvTranspose" else result
        return 2e-9 * math.prod(pixels) * math.prod(operands[1][1:])
    if op in RECURRENT:
        steps = math.prod(operands[0][:2])
        return 2e-9 * steps * (math.prod(operands[1]) + math.prod(operands[2]))
    return 2e-9 * math.prod(result) * operands[0][-1] if op in MATMULS else 0.0
