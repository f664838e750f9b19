"""Libraries of array functions as peers: the operators of an ONNX model, each by the library's own function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.records import dataclass

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
"""Takes the operands of a node and, by name, its attributes."""


@dataclass(frozen=True)
class Node:
    """An operator with its function; operands and results are names of values."""

    op: str
    function: Function
    operands: tuple[str, ...]
    attributes: Mapping[str, Any]
    result: str


@dataclass(frozen=True)
class Program:
    """The nodes of a model, its constants, and the names of inputs and outputs."""

    nodes: Sequence[Node]
    constants: Mapping[str, Array]
    inputs: Sequence[str]
    outputs: Sequence[str]

    def run(self, constants: Mapping[str, Any], operands: Sequence[Any]) -> tuple[Any, ...]:
        """Call the nodes in their order, on constants and operands as the library has them."""
        values = {**constants, **dict(zip(self.inputs, operands, strict=True))}
        for node in self.nodes:
            values[node.result] = node.function(*map(values.get, node.operands), **node.attributes)
        return tuple(values[name] for name in self.outputs)


def read_program(model: bytes, functions: Mapping[str, Function]) -> Program:
    """Read an ONNX model. Raise ValueError for an operator without a function."""
    import onnx
    from onnx import helper, numpy_helper

    graph = onnx.load_from_string(model).graph
    constants = {one.name: np.array(numpy_helper.to_array(one)) for one in graph.initializer}
    nodes = []
    for node in graph.node:
        if node.op_type not in functions:
            raise ValueError(f"it has no function for {node.op_type}")
        found = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        function = functions[node.op_type]
        nodes.append(Node(node.op_type, function, (*node.input,), found, node.output[0]))
    return Program(
        nodes, constants, [one.name for one in graph.input], [one.name for one in graph.output]
    )


def _softmax(x: Array, axis: int = -1) -> Array:
    found = np.exp(x - x.max(axis=axis, keepdims=True))
    found /= found.sum(axis=axis, keepdims=True)
    return found


def _log_softmax(x: Array, axis: int = -1) -> Array:
    found = x - x.max(axis=axis, keepdims=True)
    return found - np.log(np.exp(found).sum(axis=axis, keepdims=True))


def _layer_norm(
    x: Array, scale: Array, bias: Array | None = None, axis: int = -1, epsilon: float = 1e-5
) -> Array:
    axes = tuple(range(axis % x.ndim, x.ndim))
    centered = x - x.mean(axis=axes, keepdims=True)
    found = centered / np.sqrt((centered**2).mean(axis=axes, keepdims=True) + x.dtype.type(epsilon))
    return found * scale + (0 if bias is None else bias)


def _gelu(x: Array, approximate: bytes = b"none") -> Array:
    if approximate != b"tanh":
        raise ValueError("NumPy has no erf")
    inner = x.dtype.type(math.sqrt(2 / math.pi)) * (x + x.dtype.type(0.044715) * x**3)
    return x.dtype.type(0.5) * x * (1 + np.tanh(inner))


def _reduced(function: Function) -> Function:
    def reduce(x: Array, axes: Array | None = None, keepdims: int = 1) -> Array:
        axis = None if axes is None else tuple(axes.tolist())
        return np.asarray(function(x, axis=axis, keepdims=bool(keepdims)))

    return reduce


NUMPY: dict[str, Function] = {
    "MatMul": np.matmul,
    "MatMulInteger": lambda a, b: np.matmul(a, b, dtype=np.int32),
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Pow": np.power,
    "Max": np.maximum,
    "Min": np.minimum,
    "Exp": np.exp,
    "Log": np.log,
    "Sqrt": np.sqrt,
    "Abs": np.abs,
    "Neg": np.negative,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Gelu": _gelu,
    "Softmax": _softmax,
    "LogSoftmax": _log_softmax,
    "LayerNormalization": _layer_norm,
    "Transpose": lambda x, perm: np.ascontiguousarray(np.transpose(x, perm)),
    "ReduceSum": _reduced(np.sum),
    "ReduceMean": _reduced(np.mean),
    "ReduceMax": _reduced(np.max),
    "ArgMax": lambda x, axis=0, keepdims=1: np.argmax(x, axis=axis, keepdims=bool(keepdims)),
}
"""NumPy's functions by ONNX operator; it has none for convolutions and for erf."""
