"""quantize and dequantize as ONNX nodes."""

from __future__ import annotations

from ...base.dtypes import F32, S32, U8
from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.rewriting.values import constant_value
from ...graph_ir.rewriting.written_out import QUANTIZATION
from .export import Exporter


def has_node(op: Op) -> bool:
    """Return whether ONNX's node is equal: f32, a scale or a constant one per slice, a zero point of 8 or 16 bits."""
    x, scale, *zero = (tensor.details for tensor in op.inputs)
    integer = x if op.op_name == "dequantize" else op.outputs[0].details
    if not all(map(_is_plain, op.inputs[1:])) or len({_axis(y, op) for y in op.inputs[1:]}) > 1:
        return False
    if op.op_name == "quantize" and (x.dtype != F32 or op.attr("bits") < integer.dtype.bits):
        return False
    # Without a zero point QuantizeLinear gives u8.
    may_lack_zero = op.op_name == "dequantize" or integer.dtype == U8
    has_zero = integer.dtype.bits in (8, 16) and (bool(zero) or may_lack_zero)
    return scale.dtype == F32 and (has_zero or (integer.dtype == S32 and not zero))


def _is_plain(tensor: GraphTensor) -> bool:
    """Return whether a parameter is one for all, or a constant that varies along one axis."""
    varying = sum(size != 1 for size in tensor.details.plain_dims)
    return not tensor.details.rank or (varying <= 1 and constant_value(tensor) is not None)


def _axis(tensor: GraphTensor, op: Op) -> int | None:
    """The axis of x along which a parameter varies; None where it is one for all."""
    dims, rank = tensor.details.plain_dims, op.inputs[0].details.rank
    return next((rank - len(dims) + i for i, size in enumerate(dims) if size != 1), None)


def _write(e: Exporter, op: Op) -> None:
    values = e.values(op)
    for index, tensor in enumerate(op.inputs[1:], start=1):
        value = constant_value(tensor)
        if value is not None and value.ndim != (_axis(tensor, op) is not None):
            flat = value.reshape(() if value.size == 1 else -1)
            values[index] = e.constant(op, op.input_name(index), flat)
    name = "QuantizeLinear" if op.op_name == "quantize" else "DequantizeLinear"
    axis = _axis(op.inputs[1], op)
    e.node(op, name, values, axis=1 if axis is None else axis)


EXPORTERS = dict.fromkeys(QUANTIZATION, _write)
