"""byte_table: every byte of both types on every target, in vectors, with lanes left over, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import DType, by_name
from graphc.base.errors import UserError
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.check_op import check_op

TABLE = np.random.default_rng(0).permutation(256).astype(np.uint8)


def one(dtype: DType, shape: tuple[int, ...], table: np.ndarray) -> Graph:
    """A graph of one lookup."""
    graph = Graph("lookup")
    x = graph.make_input(LogicalTensor(dtype, shape), "x")
    y = graph.make("byte_table", [x, graph.make_constant(table)], {}, "t").outputs[0]
    graph.make_output(y)
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["native", "avx512", "avx2", "generic"])
@pytest.mark.parametrize("result", ["u8", "s8"])
@pytest.mark.parametrize("dtype", ["u8", "s8"])
def test_every_byte(dtype: str, result: str, target: str) -> None:
    x = np.concatenate([np.arange(256), np.arange(47) * 5 % 256]).astype(np.uint8)
    expected = TABLE[x].view(by_name(result).numpy)
    x, table = x.view(by_name(dtype).numpy), TABLE.view(by_name(result).numpy)
    np.testing.assert_array_equal(check_op("byte_table", [x, table], {}), expected)
    for shape in ((303,), (3, 101), (101, 3)):  # 101 = 64 + 32 + 4 + 1
        model = compile_model(one(by_name(dtype), shape, table), target, 1)
        np.testing.assert_array_equal(np.asarray(model(x.reshape(shape))), expected.reshape(shape))


@pytest.mark.parametrize(
    ("dtype", "table", "message"),
    [
        ("f32", TABLE, "x must be u8 or s8, got f32; insert a cast"),
        ("u8", TABLE.astype(np.int32), "table must be u8 or s8, got s32; insert a cast"),
        ("u8", TABLE[:255], "table must have 256 entries, got u8[255]"),
    ],
)
def test_refused(dtype: str, table: np.ndarray, message: str) -> None:
    with pytest.raises(UserError) as error:
        one(by_name(dtype), (3,), table)
    assert str(error.value) == f"byte_table 't': {message}"
