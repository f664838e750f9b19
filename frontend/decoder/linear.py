"""Linear layers: weights in blocks stay packed until they are multiplied, others are floats."""

from __future__ import annotations

from ...base.block_types import BlockType
from ...base.dtypes import F32
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.ops.matmul_nbits import PARTS
from ..op_builder import OpBuilder
from .packed import packed_operands
from .weights import Weight


def linear(build: OpBuilder, x: GraphTensor, weight: Weight) -> GraphTensor:
    """Return x f32 [T, k] times the transposed weight [n, k], f32 [T, n]."""
    kind = weight.kind
    if not isinstance(kind, BlockType):
        constant = build.constant(weight.values(), F32)
        return build.helper("matmul_core", x, constant, transpose_b=True)
    found = packed_operands(kind, weight.raw)
    parts = [name for name in PARTS if name in found]
    constants = [
        build.graph.make_constant(found[name], f"{weight.name}.{name}")
        for name in ("w", "scale", "zero_point", *parts)
    ]
    attrs = {"bits": kind.bits, "group": kind.group, "parts": ",".join(parts)}
    return build.helper("matmul_nbits", x, *constants, **attrs)
