"""Linear layers, of experts too: weights in blocks and of 16 bits stay so until they are multiplied, others are f32."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.block_types import BlockType
from ...base.dtypes import BF16, F16, F32
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.ops.matmul_nbits import FLOAT_BITS, PARTS, known_zero
from ..correspondence.compositions.experts import ExpertLayer, PackedLayer, Routes
from ..op_builder import OpBuilder
from .packed import packed_operands
from .weights import BF16 as BF16_KIND
from .weights import Weight

HALVES = {"<f2": F16, BF16_KIND: BF16}
"""Kinds of weights that stay floats of 16 bits."""


def linear(
    build: OpBuilder, x: GraphTensor, weight: Weight, routes: Routes | None = None
) -> GraphTensor:
    """Return x f32 [T, k] times the transposed weight [n, k], f32 [T, n].

    `routes`: those of the rows to experts, each of which has one of the weights [experts, n, k].
    """
    kind, (*lead, k) = weight.kind, weight.dims
    if kind in HALVES and k % 2 == 0 and k > 2:
        found = {
            "w": np.ascontiguousarray(weight.raw).view(HALVES[kind].numpy),
            "scale": np.ones((len(weight.raw), 1), np.float32),
            "zero_point": np.zeros((1, 1), np.float32),
        }
        bits, group = FLOAT_BITS, k
    elif isinstance(kind, BlockType):
        found, bits, group = packed_operands(kind, weight.raw), kind.bits, kind.group
    else:
        constant = build.constant(weight.values(), F32)
        if routes is not None:
            return routes.through(build, x, ExpertLayer(constant, None))
        return build.helper("matmul_core", x, constant, transpose_b=True)
    parts = [name for name in PARTS if name in found]
    zero = known_zero(found["zero_point"])
    constants = []
    for name in ("w", "scale", "zero_point", *parts):
        of_all = name in ("zero_point", "book")
        values = found[name] if of_all else found[name].reshape(*lead, -1)
        constants.append(build.graph.make_constant(values, f"{weight.name}.{name}"))
    attrs: dict[str, Any] = {"bits": bits, "group": group, "zero": zero}
    if routes is not None:
        attrs["parts"] = ",".join([*parts, "expert"])
        return routes.through(build, x, PackedLayer(tuple(constants), attrs, None))
    return build.helper("matmul_nbits", x, *constants, parts=",".join(parts), **attrs)
