"""Elements that pass a test, in order, for sizes around a block."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import S32, S64
from graphc.graph_ir.templates.radix_sort import BLOCK, collect
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Buffer, Module


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 3])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_elements_in_order(size: int, share: float) -> None:
    x, y, count = Buffer("x", S32, (size,)), Buffer("y", S64, (size + 1,)), Buffer("n", S64, (1,))
    b = t.LoopBuilder(("x", "y", "n"))
    found = collect(
        b,
        size,
        lambda i: t.equal(x[i], t.const(0, S32)),
        lambda at, i: b.store(y, (at,), i),
    )
    b.store(count, (0,), found)
    values = (np.random.default_rng(size).random(size) < share).astype(np.int32)
    indices, number = np.zeros(size + 1, np.int64), np.zeros(1, np.int64)
    function = b.function("kernel", (x, y, count))
    interpreter.run(Module((function,)), "kernel", [values, indices, number])
    np.testing.assert_array_equal(indices[: number[0]], np.flatnonzero(values))
