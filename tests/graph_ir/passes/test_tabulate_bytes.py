"""tabulate_bytes: functions of one tensor of bytes become tables of the definition's values; others stay."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.graph_ir.passes.tabulate_bytes import tabulate_bytes
from support.compiled import run_native
from support.graphs import graph_of, run_pass

HEAD = """
    %x = Node[type=input] () -> u8[3,100]
    %w = Node[type=input] () -> u8[3,100]
    %s = Node[type=constant] (attrs = {value: [0.05]}) -> f32[]
    %z = Node[type=constant] (attrs = {value: [131]}) -> u8[]
    %v = Node[type=constant] (attrs = {value: [0.031]}) -> f32[]
    %d = Node[type=dequantize] (inputs = (x=%x, scale=%s, zero_point=%z)) -> f32[3,100]
    %o = Node[type=dequantize] (inputs = (x=%w, scale=%s, zero_point=%z)) -> f32[3,100]
"""
GELU = """
    %e = Node[type=erf] (inputs = (x=%d)) -> f32[3,100]
    %q = Node[type=quantize] (inputs = (x=%e, scale=%v, zero_point=%z), attrs = {dtype: u8}) -> u8[3,100]
    %f = Node[type=dequantize] (inputs = (x=%q, scale=%v, zero_point=%z)) -> f32[3,100]
    %t = Node[type=mul] (inputs = (a=%f, b=%d)) -> f32[3,100]
    %b = Node[type=constant] (attrs = {value: [200]}) -> u8[]
    %h = Node[type=dequantize] (inputs = (x=%b, scale=%s, zero_point=%z)) -> f32[]
    %m = Node[type=mul] (inputs = (a=%t, b=%h)) -> f32[3,100]
"""
END = """
    %y = Node[type=quantize] (inputs = (x=%m, scale=%v), attrs = {dtype: s8}) -> s8[3,100]
    return (output=%y)
"""


def bytes_of(seed: int) -> np.ndarray:
    """All bytes, in no order."""
    found = np.random.default_rng(seed).integers(0, 256, (3, 100), dtype=np.uint8)
    found.reshape(-1)[:256] = np.arange(256)
    return found


@pytest.mark.parametrize("with_intermediate", [False, True])
def test_a_function_with_rounding_inside_is_one_table(with_intermediate: bool) -> None:
    """The argument is read twice, and an intermediate quantized value may be a result as well."""
    end = END.replace("output=%y", "output=%y, output_1=%q") if with_intermediate else END
    graph = graph_of(HEAD + GELU + end)
    arrays = [bytes_of(0), bytes_of(1)]
    wanted = graph.evaluate(arrays)
    assert run_pass(tabulate_bytes, graph, inputs=arrays)
    names = [op.op_name for op in graph.ops if op.kind not in ("source", "sink")]
    tables = ["byte_table"] * (1 + with_intermediate)
    assert [name for name in names if name == "byte_table"] == tables
    assert "erf" not in names
    for result, expected in zip(run_native(graph, arrays), wanted, strict=True):
        np.testing.assert_array_equal(result, expected)


def test_a_function_of_a_constant_function_is_one_table() -> None:
    """Tables of one value are not numbers: erf never exceeds half of the scale of 2."""
    coarse = GELU.replace("scale=%v", "scale=%two")
    two = "    %two = Node[type=constant] (attrs = {value: [2.0]}) -> f32[]"
    graph = graph_of(HEAD + two + coarse + END)
    arrays = [bytes_of(0), bytes_of(1)]
    wanted = graph.evaluate(arrays)
    assert run_pass(tabulate_bytes, graph, inputs=arrays)
    np.testing.assert_array_equal(run_native(graph, arrays)[0], wanted[0])


@pytest.mark.parametrize(
    "body",
    [
        "%m = Node[type=relu] (inputs = (x=%d)) -> f32[3,100]",  # an epilogue does it as well
        """%e = Node[type=erf] (inputs = (x=%d)) -> f32[3,100]
        %m = Node[type=add] (inputs = (a=%e, b=%o)) -> f32[3,100]""",  # of two tensors
        "%m = Node[type=softmax] (inputs = (x=%d), attrs = {axis: 1}) -> f32[3,100]",  # of rows
    ],
    ids=["simple", "two tensors", "rows"],
)
def test_what_stays(body: str) -> None:
    assert not run_pass(tabulate_bytes, graph_of(HEAD + body + END))
