"""Softmax of rows block by block: equal to that of whole rows, also where blocks are masked."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.graph_ir.templates.running_softmax import RunningSoftmax
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Buffer, Module


@pytest.mark.parametrize("masked", [0, 4, 7])
def test_blocks_give_the_softmax_of_whole_rows(masked: int) -> None:
    """Weights of 3 rows of 8 columns in blocks of 4, times values of one column; the first columns are masked."""
    rows, columns, block = 3, 8, 4
    scores, values, y = Buffer("s", F32, (24,)), Buffer("v", F32, (8,)), Buffer("y", F32, (3,))
    b = t.LoopBuilder(("s", "v", "y"))
    running = RunningSoftmax.allocate(b, rows, 1, F32)
    running.start(rows)
    with b.loop("block", 0, columns // block) as number, b.loop("row", 0, rows) as row:
        begin = b.let("begin", number * block)
        at = b.let("at", row * columns + begin)
        running.add(
            row, scores, at, (0, block), lambda c, x: t.select(begin + c >= masked, x, -np.inf)
        )
        with b.loop("c", 0, block) as c:
            term = scores[at + c] * values[begin + c]
            b.store(running.result, (row,), running.result[row] + term)
    with b.loop("row", 0, rows) as row:
        b.store(y, (row,), running.result[row] / running.totals[row])
    random = np.random.default_rng(0)
    s, v, result = (random.standard_normal(n).astype(np.float32) for n in (24, 8, 3))
    wanted = np.exp(s.reshape(rows, columns)[:, masked:].astype(np.float64))
    wanted = (wanted * v[masked:]).sum(1) / wanted.sum(1)
    interpreter.run(Module((b.function("f", (scores, values, y)),)), "f", [s, v, result])
    np.testing.assert_allclose(result, wanted, rtol=1e-5)
