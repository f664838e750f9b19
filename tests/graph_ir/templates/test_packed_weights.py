"""Panels of packed weights as floats: words in the layout that the op asks for, unpacked by the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32, U8
from graphc.base.packed_words import packed_words
from graphc.graph_ir.templates.packed_weights import PackedWeights, WeightPanel
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Buffer, Function, Module

COLUMNS, LANES = 16, 8


@pytest.mark.parametrize("known_zero", [None, -1, 0, 4, 7])
@pytest.mark.parametrize(
    ("bits", "group", "k0", "k"), [(4, 16, 0, 64), (4, 32, 32, 32), (8, 64, 16, 16)]
)
def test_unpacked(bits: int, group: int, k0: int, k: int, known_zero: int | None) -> None:
    """Zero points of groups, or one for all, whose value is known or -1; bits are those of weights rounded once."""
    random, all_k, panels = np.random.default_rng(0), 64, 2
    one_zero = known_zero is not None
    n, groups = COLUMNS * panels, all_k // group
    numbers = random.integers(0, 1 << bits, (n, all_k))
    scale = random.random((n, groups)).astype(np.float32)
    zero = random.integers(0, 9, (1, 1) if one_zero else (n, groups)).astype(np.float32)
    if known_zero is not None and known_zero >= 0:
        zero[:] = known_zero

    def in_panels(values: np.ndarray, block: int) -> np.ndarray:
        inner = values.reshape(panels, COLUMNS, -1, block)
        return np.ascontiguousarray(inner.transpose(0, 2, 1, 3)).reshape(-1)

    arrays = [in_panels(packed_words(numbers, bits), 4), in_panels(scale, 1)]
    arrays.append(zero.reshape(-1) if one_zero else in_panels(zero, 1))
    made = [
        Buffer(name, U8 if name == "w" else F32, x.shape)
        for name, x in zip("wsz", arrays, strict=True)
    ]
    out = Buffer("out", F32, (k * COLUMNS,))
    known = -1 if known_zero is None else known_zero
    b = t.LoopBuilder()
    packed = PackedWeights(made[0], made[1], made[2], bits, group, known_zero=known, is_fused=True)
    panel = WeightPanel(b, packed, t.ONE, COLUMNS, all_k, LANES)
    panel.unpack(k0, k, out, COLUMNS // LANES)
    body = b.body()
    result = np.zeros(out.elements, np.float32)
    interpreter.run(Module((Function("f", (*made, out), body),)), "f", [*arrays, result])
    spread = [np.repeat(np.broadcast_to(v, scale.shape), group, 1) for v in (zero, scale)]
    real = ((numbers - spread[0]) * spread[1]).astype(np.float32)
    wanted = real[COLUMNS:, k0 : k0 + k].T
    np.testing.assert_array_equal(result.reshape(k, COLUMNS), wanted)
