"""Square tiles transposed by shuffles, interpreted: every lane count and element size."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32, F64, S64, U8, U16, DType
from graphc.graph_ir.nest.register_transpose import interleaved, transposed
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Buffer, Load, Module, Shuffle, Store
from graphc.tensor_ir.visitor import walk


@pytest.mark.parametrize(
    ("dtype", "lanes"),
    [(F32, 4), (F32, 8), (F32, 16), (F64, 2), (F64, 4), (S64, 8), (U16, 8), (U16, 16), (U8, 16)],
    ids=str,
)
def test_rows_become_columns(dtype: DType, lanes: int) -> None:
    x, y = Buffer("x", dtype, (lanes * lanes,)), Buffer("y", dtype, (lanes * lanes,))
    b = t.LoopBuilder(("x", "y"))
    rows = [b.let("row", Load(x, (t.as_expr(i * lanes),), lanes)) for i in range(lanes)]
    for i, column in enumerate(transposed(rows, dtype, lambda value: b.let("v", value))):
        b.emit(Store(y, (t.as_expr(i * lanes),), column))
    module = Module((b.function("turn", (x, y)),))
    value = np.arange(lanes * lanes).astype(dtype.numpy)
    result = np.zeros_like(value)
    interpreter.run(module, "turn", [value, result])
    np.testing.assert_array_equal(result.reshape(lanes, lanes), value.reshape(lanes, lanes).T)
    shuffles = sum(isinstance(node, Shuffle) for node in walk(module))
    assert shuffles == lanes * (lanes.bit_length() - 1), "log2(lanes) for each vector"


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8])
def test_columns_of_few_rows_follow_each_other(count: int) -> None:
    lanes = 8
    x, y = Buffer("x", F32, (count * lanes,)), Buffer("y", F32, (count * lanes,))
    b = t.LoopBuilder(("x", "y"))
    rows = [b.let("row", Load(x, (t.as_expr(i * lanes),), lanes)) for i in range(count)]
    for i, vector in enumerate(interleaved(rows, lambda value: b.let("v", value))):
        b.emit(Store(y, (t.as_expr(i * lanes),), vector))
    module = Module((b.function("weave", (x, y)),))
    value = np.arange(count * lanes).astype(np.float32)
    result = np.zeros_like(value)
    interpreter.run(module, "weave", [value, result])
    np.testing.assert_array_equal(result, value.reshape(count, lanes).T.reshape(-1))
