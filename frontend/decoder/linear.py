"""Linear layers: weights in blocks stay packed until they are multiplied, others are floats."""

from __future__ import annotations

import numpy as np

from ...base.block_types import BlockType
from ...base.dtypes import F32
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.ops.matmul_nbits import packed_words
from ..op_builder import OpBuilder
from .weights import Weight


def linear(build: OpBuilder, x: GraphTensor, weight: Weight) -> GraphTensor:
    """Return x f32 [T, k] times the transposed weight [n, k], f32 [T, n]."""
    if not isinstance(weight.kind, BlockType):
        return build.helper(
            "matmul_core", x, build.constant(weight.values(), F32), transpose_b=True
        )
    kind = weight.kind
    levels, scale, minimum = kind.split(weight.raw)
    lowest, bits = kind.min_level, 4 if kind.level_count <= 16 else 8
    words = packed_words((levels.view(np.uint8) - np.uint8(lowest % 256)), bits)
    if kind.scale.is_half:
        scale = scale.astype(np.float16)  # as in the file, so that a step reads no more
    parts = (words, scale, np.full((1, 1), -lowest, np.float32))
    constants = [
        build.graph.make_constant(one, f"{weight.name}.{i}") for i, one in enumerate(parts)
    ]
    y = build.helper("matmul_nbits", x, *constants, bits=bits, group=kind.group)
    if minimum is None:
        return y
    rows, k = x.details.plain_dims
    apart = build.reshaped(x, (rows, k // kind.group, kind.group))
    sums = build.helper("reduce_sum", apart, axes=(2,), keep_dims=False)
    added = build.helper("matmul_core", sums, build.constant(minimum, F32), transpose_b=True)
    return build.helper("add", y, added)
