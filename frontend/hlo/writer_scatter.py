"""Writes scatter as HLO: flat arrays, one index per run, with the reduction or the body as a computation."""

from __future__ import annotations

from ...base.dtypes import S64
from ...graph_ir.ir.graph import Op
from ...graph_ir.ops.scatter import Scatter
from .instruction_writer import Value, Writer, tuple_text


def write_scatter(writer: Writer, op: Op) -> Value:
    """HLO drops a window that is not entirely inside the array, as the op does with runs."""
    assert isinstance(op, Scatter)
    count, run, details = op.count, op.run, op.outputs[0].details
    size, runs = details.elements, op.inputs[0].details.elements
    if not size or not runs or not run:
        return _unchanged(writer, op)
    places = writer.reshape(writer.cast(writer.value(op.inputs[0]), S64), (runs, 1))
    data = [writer.reshape(writer.value(x), (size,)) for x in op.inputs[1 : 1 + count]]
    updates = [writer.reshape(writer.value(x), (runs, run)) for x in op.inputs[1 + count :]]
    attributes = (
        "update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, "
        f"index_vector_dim=1, to_apply=%{_body(writer, op)}"
    )
    operands = [*data, places, *updates]
    if count == 1:
        flat = [writer.emit("scatter", operands, details.dtype, (size,), attributes)]
    else:
        flat = _several(writer, operands, data, attributes)
    for tensor, value in zip(op.outputs, flat, strict=True):
        writer.values[tensor] = writer.reshape(value, tensor.details.plain_dims, op.name)
    return writer.values[op.outputs[0]]


def _unchanged(writer: Writer, op: Scatter) -> Value:
    for tensor, x in zip(op.outputs, op.inputs[1:], strict=False):
        writer.values[tensor] = writer.value(x)
    return writer.values[op.outputs[0]]


def _body(writer: Writer, op: Scatter) -> str:
    dtype = op.outputs[0].details.dtype
    if op.body is not None:
        return writer.scalar_body(op.body)
    return writer.body(op.reduction, dtype)


def _several(
    writer: Writer, operands: list[Value], data: list[Value], attributes: str
) -> list[Value]:
    """The elements of the tuple that a scatter of several arrays gives."""
    inside = ", ".join(f"{v.shape} %{v.name}" for v in operands)
    name = writer.name("scatter")
    writer.lines.append(f"  %{name} = {tuple_text(data)} scatter({inside}), {attributes}")
    return writer.elements(name, data)
