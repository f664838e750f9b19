"""The name of the problem that a tuned op solves, sizes and dtype: in profiles, tuning files, `graphc dev kernel`."""

from __future__ import annotations

import math

from ..ops.convolution_direct import DirectConvolution
from ..ops.matmul import MatmulCore
from .convolution_sizes import geometry_of


def problem_of(op: MatmulCore | DirectConvolution) -> str:
    """`matmul m128n768k768 f32` (or u8xs8), `conv c64i56x56o64r56x56k3x3p1x1 f32`: equal names take equally long."""
    if isinstance(op, DirectConvolution):
        return f"conv {geometry_of(op)} {op.inputs[0].details.dtype}"
    m, n, k = op.sizes
    batch = math.prod(op.outputs[0].details.plain_dims[:-2])
    types = op.contraction
    operands = str(types.a) if types.a == types.b == types.result else f"{types.a}x{types.b}"
    return f"matmul {f'b{batch}' if batch != 1 else ''}m{m}n{n}k{k} {operands}"
