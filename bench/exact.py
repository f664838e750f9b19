"""Reference results of quantized models by ONNX Runtime: one node at a time, integers multiplied without saturation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .peers import Arrays, unoptimized_results

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

WEIGHTS = {
    "MatMulInteger": (1, 3),
    "ConvInteger": (1, 3),
    "QLinearMatMul": (3, 5),
    "QLinearConv": (3, 5),
    "QGemm": (3, 5),
}
"""Operand numbers of the weights and of their zero point, by integer op."""

MIDDLE = 128


def exact_results(model: bytes, inputs: Arrays) -> list[np.ndarray[Any, Any]]:
    """Return exact results of a quantized model: one node at a time, integers multiplied without saturation on
    any CPU."""
    return unoptimized_results(with_unsigned_weights(model), inputs)


def with_unsigned_weights(model: bytes) -> bytes:
    """Return the model with 128 added to the constant s8 weights of integer matmuls and to their zero points.

    Without VNNI, ONNX Runtime multiplies u8 by s8 with saturating sums of two, and u8 by u8 with exact ones. The option
    that avoids it, `session.x64quantprecision`, is one of the optimizations that are off here.
    """
    import onnx

    proto = onnx.load_from_string(model)
    for node in proto.graph.node:
        if node.op_type in WEIGHTS:
            _shift(proto.graph, node)
    return proto.SerializeToString()


def _shift(graph: GraphProto, node: NodeProto) -> None:
    from onnx import numpy_helper

    constants = {x.name: x for x in graph.initializer}
    weights, zero = WEIGHTS[node.op_type]
    node.input.extend([""] * (zero + 1 - len(node.input)))
    if node.input[weights] not in constants or node.input[zero] not in ("", *constants):
        return
    values = numpy_helper.to_array(constants[node.input[weights]])
    if values.dtype != np.int8:
        return
    name = node.input[zero]
    zeros = numpy_helper.to_array(constants[name]) if name else np.zeros((), np.int8)
    for slot, array in ((weights, values), (zero, zeros)):
        name = f"{node.output[0]}:{slot}"
        shifted = (array.astype(np.int16) + MIDDLE).astype(np.uint8)
        graph.initializer.append(numpy_helper.from_array(shifted, name))
        node.input[slot] = name
