"""Writes branches and loops as HLO: conditional and while, with subgraphs as computations of one tuple."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dtypes import S32, S64
from ...graph_ir.ir.graph import Graph, Op
from ...graph_ir.ops.control import Case, While
from .instruction_writer import Value, Writer, tuple_text


def write_case(writer: Writer, op: Op) -> Value:
    """The index is clamped before it is narrowed, so that one outside stays outside."""
    assert isinstance(op, Case)
    index = writer.value(op.inputs[0])
    low, high = (writer.constant(number, S64) for number in (-1, len(op.branches)))
    clamped = writer.emit("clamp", [low, index, high], S64, ())
    number = writer.cast(clamped, S32)
    inputs = [writer.value(x) for x in op.inputs[1:]]
    names = [_computation(writer, branch) for branch in op.branches]
    operand = writer.tuple(inputs)
    results = [Value("", y.details.dtype, y.details.plain_dims) for y in op.outputs]
    operands = ", ".join([f"{number.shape} %{number.name}", *[operand] * len(names)])
    branches = ", ".join(f"%{name}" for name in names)
    return _finish(
        writer, op, results, f"conditional({operands}), branch_computations={{{branches}}}"
    )


def write_while(writer: Writer, op: Op) -> Value:
    """Loop-invariant values are carried with the state."""
    assert isinstance(op, While)
    inputs = [writer.value(x) for x in op.inputs]
    condition = _computation(writer, op.condition, is_condition=True)
    body = _computation(writer, op.body, passed_on=op.carried)
    operand = writer.tuple(inputs)
    return _finish(writer, op, inputs, f"while({operand}), condition=%{condition}, body=%{body}")


def _finish(writer: Writer, op: Op, like: Sequence[Value], operation: str) -> Value:
    """The instruction, and an element of its result for each output of the op."""
    name = writer.name(op.name)
    writer.lines.append(f"  %{name} = {tuple_text(like)} {operation}")
    for tensor, value in zip(op.outputs, writer.elements(name, like), strict=False):
        writer.values[tensor] = value
    return writer.values[op.outputs[0]]


def _computation(
    writer: Writer, graph: Graph, is_condition: bool = False, passed_on: int | None = None
) -> str:
    """The name of a subgraph's computation; `passed_on`: inputs from that one on follow its results."""
    inner = Writer(graph, writer.write_op)
    inner.bodies = writer.bodies
    details = [op.outputs[0].details for op in graph.inputs]
    like = [Value("", x.dtype, x.plain_dims) for x in details]
    shape = tuple_text(like)
    state = inner.name("state")
    inner.lines.append(f"  %{state} = {shape} parameter(0)")
    given = inner.elements(state, like)
    results = inner.results_of([*given])
    if passed_on is not None:
        results += given[passed_on:]
    if is_condition:
        result = results[0].shape
        operand = f"{result} %{results[0].name}"
        inner.lines.append(f"  ROOT %{inner.name('result')} = {result} copy({operand})")
    else:
        result = tuple_text(results)
        operand = ", ".join(f"{v.shape} %{v.name}" for v in results)
        inner.lines.append(f"  ROOT %{inner.name('result')} = {result} tuple({operand})")
    name = f"body.{len(writer.bodies)}"
    head = f"%{name} ({state}: {shape}) -> {result} {{"
    writer.bodies[name] = "\n".join([head, *inner.lines, "}"])
    return name
