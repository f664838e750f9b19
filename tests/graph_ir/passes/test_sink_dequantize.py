"""sink_dequantize: bytes move instead of floats, pairs that undo each other go, and what must stay stays."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.graph_ir.passes.sink_dequantize import sink_dequantize
from support.graphs import check_pass, graph_of, run_pass

PARAMETERS = """
    %s = Node[type=constant] (attrs = {value: [0.5]}) -> f32[]
    %z = Node[type=constant] (attrs = {value: [3]}) -> u8[]
"""


def graph(*lines: str, source: str = "u8[2,3]") -> str:
    """An input x, its dequantization d, further lines."""
    floats = source.replace("u8", "f32")
    head = [
        f"%x = Node[type=input] () -> {source}",
        *PARAMETERS.strip().splitlines(),
        f"%d = Node[type=dequantize] (inputs = (x=%x, scale=%s, zero_point=%z)) -> {floats}",
    ]
    return "\n".join(line.strip() for line in (*head, *lines))


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        ("reshape] (inputs = (x={}), attrs = {{shape: {{6}}}})", "[6]"),
        ("transpose] (inputs = (x={}), attrs = {{perm: {{1, 0}}}})", "[3,2]"),
        ("slice] (inputs = (x={}), attrs = {{starts: {{0, 1}}, sizes: {{2, 2}}}})", "[2,2]"),
    ],
)  # fmt: skip
def test_movement_is_of_bytes(op: str, shape: str) -> None:
    name = op.split("]")[0]
    before = graph(f"%y = Node[type={op.format('%d')} -> f32{shape}", "return (output=%y)")
    after = graph(
        f"%y.{name} = Node[type={op.format('%x')} -> u8{shape}",
        f"%y.dequantize = Node[type=dequantize] (inputs = (x=%y.{name}, scale=%s, zero_point=%z)) -> f32{shape}",
        "return (output=%y.dequantize)",
    )
    lines = [line for line in after.splitlines() if not line.startswith("%d")]
    check_pass(sink_dequantize, before, "\n".join([lines[0], *lines[1:]]))


def test_a_transpose_takes_scales_along() -> None:
    result = graph_of("""
        %x = Node[type=input] () -> s8[2,3]
        %s = Node[type=constant] (attrs = {value: [0.5 2.0]}) -> f32[2,1]
        %d = Node[type=dequantize] (inputs = (x=%x, scale=%s)) -> f32[2,3]
        %t = Node[type=transpose] (inputs = (x=%d), attrs = {perm: {1, 0}}) -> f32[3,2]
        %r = Node[type=reshape] (inputs = (x=%t), attrs = {shape: {3, 1, 2}}) -> f32[3,1,2]
        return (output=%r)
        """)
    assert run_pass(sink_dequantize, result)
    last = result.outputs[0].inputs[0].producer_owner
    assert last.op_name == "dequantize" and last.inputs[1].details.plain_dims == (1, 1, 2)


def test_a_pair_goes_even_across_movement() -> None:
    result = graph_of(graph(
        "%t = Node[type=transpose] (inputs = (x=%d), attrs = {perm: {1, 0}}) -> f32[3,2]",
        "%q = Node[type=quantize] (inputs = (x=%t, scale=%s, zero_point=%z), attrs = {dtype: u8}) -> u8[3,2]",
        "return (output=%q)",
    ))  # fmt: skip
    assert run_pass(sink_dequantize, result)
    assert [op.op_name for op in result.ops if op.kind not in ("source", "sink")] == ["transpose"]


@pytest.mark.parametrize("value", ["0.0", "2.5", "0.25", "500.0", "-inf"])
def test_padding_must_be_one_of_the_numbers(value: str) -> None:
    attrs = f"{{before: {{0, 1}}, after: {{0, 0}}, value: {value}}}"
    result = graph_of(graph(
        f"%p = Node[type=pad] (inputs = (x=%d), attrs = {attrs}) -> f32[2,4]", "return (output=%p)"
    ))  # fmt: skip
    assert run_pass(sink_dequantize, result) == (value in ("0.0", "2.5"))


def test_concats_of_one_scale_join_bytes_and_others_are_quantized_before() -> None:
    lines = [
        "%e = Node[type=dequantize] (inputs = (x=%x, scale=%{})) -> f32[2,3]",
        "%c = Node[type=concat] (inputs = (x_0=%d, x_1=%e), attrs = {{axis: 0}}) -> f32[4,3]",
        "%q = Node[type=quantize] (inputs = (x=%c, scale=%s, zero_point=%z), attrs = {{dtype: u8}}) -> u8[4,3]",
        "return (output=%q)",
    ]
    result = graph_of(graph(*(line.format("s") for line in lines)))
    assert run_pass(sink_dequantize, result)
    kinds = [op.op_name for op in result.ops if op.kind not in ("source", "sink")]
    assert kinds == ["dequantize", "quantize", "concat"]  # the first half is as it was


def test_a_pair_of_other_scales_stays() -> None:
    result = graph_of(graph(
        "%w = Node[type=constant] (attrs = {value: [0.25]}) -> f32[]",
        "%q = Node[type=quantize] (inputs = (x=%d, scale=%w, zero_point=%z), attrs = {dtype: u8}) -> u8[2,3]",
        "return (output=%q)",
    ))  # fmt: skip
    assert not run_pass(sink_dequantize, result)


POOL = """
    %x = Node[type=input] () -> u8[1,2,5,5]
    %s = Node[type=constant] (attrs = {{value: [{scale}]}}) -> f32[]
    %d = Node[type=dequantize] (inputs = (x=%x, scale=%s)) -> f32[1,2,5,5]
    %y = Node[type={op}] (inputs = (x=%d), attrs = {{kernel: {{3, 3}}, strides: {{2, 2}}, before: {{{pad}}}, after: {{{pad}}}}}) -> {shape}
    return (output=%y)
"""  # noqa: E501 - one op is one line


@pytest.mark.parametrize("op", ["max_pool", "min_pool"])
@pytest.mark.parametrize(
    ("scale", "pad", "moves"),
    [(0.5, 1, True), (-0.5, 1, False), (0.5, 3, False)],
    ids=["positive", "negative", "windows of nothing"],
)
def test_extremes_are_found_among_bytes(op: str, scale: float, pad: int, moves: bool) -> None:
    shape = f"f32[1,2,{3 + 2 * (pad == 3)},{3 + 2 * (pad == 3)}]"
    graph = graph_of(POOL.format(op=op, scale=scale, pad=f"{pad}, {pad}", shape=shape))
    x = np.random.default_rng(0).integers(0, 256, (1, 2, 5, 5)).astype(np.uint8)
    (before,) = graph.evaluate([x])
    assert run_pass(sink_dequantize, graph) is moves
    np.testing.assert_array_equal(graph.evaluate([x])[0], before)
    pool = next(o for o in graph.ops if o.op_name == op)
    assert str(pool.inputs[0].details.dtype) == ("u8" if moves else "f32")
