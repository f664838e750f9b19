"""Sources and results as GE nodes."""

from __future__ import annotations

from ...graph_ir.ir.graph import Op
from .dump_builder import DumpBuilder, Emit


def _input(builder: DumpBuilder, op: Op) -> None:
    if op.outputs[0] in builder.references:  # known in the graph of a loop
        return
    builder.whole(op, "Data", {}, index=builder.inputs)
    builder.inputs += 1


def _constant(builder: DumpBuilder, op: Op) -> None:
    value = op.attr("value")
    builder.references[op.outputs[0]] = builder.constant(value, op.name)


def _output(builder: DumpBuilder, op: Op) -> None:
    builder.results.append(builder.references[op.inputs[0]])


EXPORTERS: dict[str, Emit] = {"input": _input, "constant": _constant, "output": _output}
"""Ops of this file to how they are written."""
