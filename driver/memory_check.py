"""Estimates the memory a model needs and compares it with the limit before anything large is allocated."""

from __future__ import annotations

from ..base.dims import Size, bounds
from ..base.errors import UserError
from ..base.memory_limit import MemoryLimit, memory_limit, shown_bytes
from ..graph_ir.ir.graph import Graph, Op

_ALWAYS_THERE = 16 << 20
"""Bytes that any process has which got as far as compiling: below, the system is not queried."""


def check_memory(
    source: Graph, arena_bytes: Size = 0, requested: MemoryLimit | None = None
) -> None:
    """Raise UserError if inputs, results, constants and intermediate values exceed `requested`, else what the process
    may use.

    `source` is the graph as read; its intermediate values are known once they are planned. Dynamic dimensions count
    with the smallest size that they may have.
    """
    parts = {
        "inputs": _total(source.inputs),
        "results": sum(_least(op.inputs[0].details.size_bytes) for op in source.outputs),
        "constants": _total([op for op in source.ops if op.is_constant]),
        "intermediate values": _least(arena_bytes),
    }
    needed = sum(parts.values())
    if requested is None and needed <= _ALWAYS_THERE:
        return
    limit = requested or memory_limit()
    if limit is None or needed <= limit.size_bytes:
        return
    listed = ", ".join(f"{what} {shown_bytes(size)}" for what, size in parts.items() if size)
    raise UserError(
        f"model '{source.name}' needs {shown_bytes(needed)} of memory to run ({listed}), "
        f"{limit.source} allows {shown_bytes(limit.size_bytes)}; "
        "compile for a larger machine with --max-memory"
    )


def _total(ops: list[Op]) -> int:
    return sum(_least(op.outputs[0].details.size_bytes) for op in ops)


def _least(size: Size) -> int:
    return bounds(size)[0]
