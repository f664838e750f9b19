"""A problem as an ONNX model, which graphc and the other engines read: operands, operators and the work they do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.dims import Size
from ..base.dtypes import DType
from ..bench.cases import model_bytes
from ..bench.one_op import IR_VERSION, OPSET
from ..bench.operands import Operand, random_values

Array = np.ndarray[Any, Any]


class Program:
    """Builds the model; results of operators have no shape of their own, engines infer them."""

    def __init__(self, name: str, dtype: DType) -> None:
        self.name = name
        self.dtype = dtype
        self.inputs: dict[str, Operand] = {}
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._rng = np.random.default_rng(0)

    def input(self, name: str, dims: Sequence[Size], dtype: DType | None = None) -> str:
        """Append an input."""
        self.inputs[name] = Operand(dtype or self.dtype, tuple(dims))
        return name

    def weight(self, name: str, shape: Sequence[int], dtype: DType | None = None) -> str:
        """Append a constant of random values; floats are divided so that sums over all axes but one stay near 1."""
        kind = dtype or self.dtype
        values = random_values(kind, shape, self._rng)
        if kind.is_float:
            depth = max(math.prod(shape) // max(shape), 1)
            values = (values.astype(np.float32) / np.float32(depth**0.5)).astype(kind.numpy)
        return self.constant(name, values)

    def constant(self, name: str, values: Array) -> str:
        """Append a constant of these values."""
        from onnx import helper

        kind = helper.np_dtype_to_tensor_dtype(values.dtype)
        tensor = helper.make_tensor(name, kind, values.shape, values.tobytes(), raw=True)
        self._constants.append(tensor)
        return name

    def scalar(self, name: str, value: float) -> str:
        """Append a constant scalar of the problem's type."""
        return self.constant(name, np.array(value, self.dtype.numpy))

    def call(self, op: str, *operands: str, name: str = "", domain: str = "", **attrs: Any) -> str:
        """Append an operator and return the name of its result."""
        from onnx import helper

        name = name or f"{op.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, operands, [name], name, domain=domain, **attrs))
        return name

    def model(self, result: str, dtype: DType | None = None) -> bytes:
        """Return the model with one result, of the problem's type or another."""
        from onnx import helper

        inputs = [_declared(name, operand) for name, operand in self.inputs.items()]
        outputs = [helper.make_tensor_value_info(result, _onnx_type(dtype or self.dtype), None)]
        return model_bytes(
            self.name, self._nodes, inputs, outputs, self._constants, OPSET, IR_VERSION
        )


def _declared(name: str, operand: Operand) -> Any:
    from onnx import helper

    dims = [dim if isinstance(dim, int) else str(dim) for dim in operand.dims]
    return helper.make_tensor_value_info(name, _onnx_type(operand.dtype), dims)


def _onnx_type(dtype: DType) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(dtype.numpy))
