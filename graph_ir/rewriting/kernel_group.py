"""The ops that one kernel computes."""

from __future__ import annotations

from ...base.records import dataclass
from ..ir.graph import GraphTensor, Op
from ..ops.fused import Fused


@dataclass(frozen=True)
class KernelGroup:
    """Ops in topological order, the tensors they read and those they make for others."""

    ops: tuple[Op, ...]
    inputs: tuple[GraphTensor, ...]
    outputs: tuple[GraphTensor, ...]


def group_of(op: Op) -> KernelGroup:
    """Return the ops that the kernel of `op` computes: the body of a fused op, or the op alone."""
    if not isinstance(op, Fused):
        return KernelGroup((op,), tuple(op.inputs), tuple(op.outputs))
    body = tuple(inner for inner in op.graph.ops if inner.kind not in ("source", "sink"))
    inputs = tuple(source.outputs[0] for source in op.graph.inputs)
    return KernelGroup(body, inputs, tuple(sink.inputs[0] for sink in op.graph.outputs))
