"""Ops, control flow and what a dump leaves out."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphc.base.errors import GraphcError, UnsupportedError, UserError
from graphc.frontend import load
from support.ge_dumps import RETURN, const, node, run

DUMPS = Path(__file__).parents[3] / "examples"


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 8 - 1


@pytest.mark.parametrize(
    ("before", "op", "expected"),
    [
        (const("c", "[0.500000]"), node("RealDiv", "x1=%x, x2=%c"), X / 0.5),
        (const("c", "[2]"), node("Mul", "x1=%x, x2=%c"), X * 2),
        ("", node("Swish", "x=%x", "scale: 1.000000"), X / (1 + np.exp(-X))),
        ("", node("Exp", "x=%x", "base: 2.000000, scale: 1.000000, shift: 1.000000"), 2 ** (X + 1)),
        ("", node("Adds", "x=%x", "value: 2.500000"), X + 2.5),
        ("", node("AddN", "x_0=%x, x_2=%x", "N: 2"), X + X),
        ("", node("Relu6", "x=%x"), X.clip(0, 6)),
        ("", node("Flatten", "x=%x"), X.reshape(2, 12)),
        ("", node("Unsqueeze", "x=%x", "axes: {0, -1}"), X[None, ..., None]),
        (const("c", "[0 -1]"), node("Reshape", "x=%x, shape=%c", "axis: 0, num_axes: -1"), X.reshape(2, 12)),
        (const("c", "[6 2]"), node("Reshape", "x=%x, shape=%c", "axis: 1, num_axes: 2"), X.reshape(2, 6, 2)),
        (const("c", "[1]"), node("ReduceSum", "x=%x, axes=%c", "keep_dims: true"), X.sum(1, keepdims=True)),
        (const("c", "<empty>"), node("ReduceSum", "x=%x, axes=%c"), X),
        (const("c", "<empty>"), node("ReduceSum", "x=%x, axes=%c", "noop_with_empty_axes: false"), X.sum()),
        ("", node("ReduceMaxD", "x=%x", "axes: {0, 2}, keep_dims: false"), X.max((0, 2))),
        (const("c", "[2 1 1]"), node("Tile", "x=%x, multiples=%c"), np.tile(X, (2, 1, 1))),
        (const("a", "[0 1 1]") + const("b", "[2 -1 2]"), node("Slice", "x=%x, offsets=%a, size=%b"), X[0:2, 1:, 1:3]),
        (const("a", "[0 2]") + const("b", "[1 0]") + const("s", "[1 -1]"),
         node("StridedSlice", "x=%x, begin=%a, end=%b, strides=%s", "end_mask: 2, shrink_axis_mask: 1"), X[0, 2::-1]),
        (const("a", "[0 1]") + const("b", "[0 3]") + const("s", "[1 2]"),
         node("StridedSlice", "x=%x, begin=%a, end=%b, strides=%s", "ellipsis_mask: 1"), X[..., 1:3:2]),
        (const("c", "[1 0]"), node("GatherV2", "x=%x, indices=%c, axis=%z"), X[:, [1, 0]]),
        (const("c", "[0 0 1 1 0 2]"), node("Pad", "x=%x, paddings=%c"), np.pad(X, ((0, 0), (1, 1), (0, 2)))),
        (const("c", "[2]"), node("ReverseV2", "x=%x, axis=%c"), X[..., ::-1]),
        (const("c", "[1]"), node("Cumsum", "x=%x, axis=%c"), X.cumsum(1)),
        ("", node("Pack", "x_0=%x, x_1=%x", "axis: 1, N: 2"), np.stack([X, X], 1)),
        ("", node("Tril", "x=%x", "diagonal: 1"), np.tril(X, 1)),
        ("", node("Shape", "x=%x", "dtype: 3"), np.array([2, 3, 4], np.int32)),
        ("", node("SoftmaxV2", "x=%x", "axes: {1}"), np.exp(X) / np.exp(X).sum(1, keepdims=True)),
        (const("a", "[0.000000]") + const("b", "[1.500000]"),
         node("ClipByValue", "x=%x, clip_value_min=%a, clip_value_max=%b"), X.clip(0, 1.5)),
        ("", node("Cast", "x=%x", "dst_type: DT_INT32"), X.astype(np.int32)),
        ("", node("Relu", "%x"), X.clip(0)),
        ("", node("Sub", "%x, %x"), X - X),
    ],
)  # fmt: skip
def test_ops(before, op, expected):
    (got,) = run(const("z", "[1]") + before + op + RETURN, {"x": "f32[2,3,4]"}, X)
    assert got.dtype == np.asarray(expected).dtype or got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-6)


def test_a_chain_of_shapes_becomes_static():
    lines = (
        node("Shape", "x=%x", name="s")
        + const("i", "[1]")
        + const("zero", "[0]")
        + node("GatherV2", "x=%s, indices=%i, axis=%zero", name="n")
        + const("m", "[-1]")
        + node("ConcatV2", "x0=%m, x1=%n, concat_dim=%zero", "N: 2", name="dims")
        + node("Reshape", "x=%x, shape=%dims")
    )
    (got,) = run(lines + RETURN, {"x": "f32[2,3,4]"}, X)
    np.testing.assert_array_equal(got, X.reshape(8, 3))


def test_a_literal_takes_over_dtype_and_rank():
    lines = const("c", "[0.500000]") + node("Mul", "x1=%x, x2=%c")
    (got,) = run(lines + RETURN, {"x": "f16[]"}, np.float16(3))
    assert (got.dtype, got.shape, float(got)) == (np.float16, (), 1.5)
    with pytest.raises(
        UserError, match=r"^Mul 'r': operands must have one dtype, got f32 and s32$"
    ):
        run(lines + RETURN, {"x": "s32[]"}, np.int32(3))


def test_split_outputs_and_a_result_given_twice():
    lines = (
        node("SplitVD", "x=%x", "size_splits: {1, -1}, split_dim: 1, num_split: 2", "s", 2)
        + "  %ret : [#users=1] = get_element[node=%s](0)\n  %ret_1 : [#users=2] = get_element[node=%s](1)\n"
        + "  return (output_0=%ret_1, output_1=%ret, output_2=%ret_1)\n"
    )
    a, b, c = run(lines, {"x": "f32[2,3,4]"}, X)
    for got, wanted in ((a, X[:, 1:]), (b, X[:, :1]), (c, X[:, 1:])):
        np.testing.assert_array_equal(got, wanted)


BRANCHES = (
    """
graph("twice"):
  %a : [#users=1] = Node[type=Data] (attrs = {index: 0})
  %b : [#users=1] = Node[type=Add] (inputs = (x1=%a, x2=%a))
  return (%b)
graph("less"):
  %a : [#users=1] = Node[type=Data] (inputs = (x=%a0), attrs = {index: 0})
""".replace("(inputs = (x=%a0), attrs", "(attrs")
    + """  %one : [#users=1] = Node[type=Const] (attrs = {value: [1]})
  %b : [#users=1] = Node[type=Sub] (inputs = (x1=%a, x2=%one))
  return (%b)
graph("positive"):
  %a : [#users=1] = Node[type=Data] (attrs = {index: 0})
  %zero : [#users=1] = Node[type=Const] (attrs = {value: [0]})
  %b : [#users=1] = Node[type=Greater] (inputs = (x1=%a, x2=%zero))
  return (%b)
"""
)


def test_case_takes_the_last_branch_where_the_index_is_outside():
    lines = node(
        "Case",
        "branch_index=%i, input_0=%x",
        "branches0: %twice, branches1: %less, branches2: %twice",
    )
    for index, wanted in ((0, 10), (1, 4), (2, 10), (-1, 10), (7, 10)):
        (got,) = run(
            lines + RETURN,
            {"i": "s32[]", "x": "s32[]"},
            np.int32(index),
            np.int32(5),
            graphs=BRANCHES,
        )
        assert got == wanted
        (got,) = run(const("k", f"[{index}]") + lines.replace("%i,", "%k,") + RETURN, {"x": "s32[]"}, np.int32(5),
                     graphs=BRANCHES)  # fmt: skip
        assert got == wanted


def test_calls_and_loops():
    lines = node("PartitionedCall", "args_0=%x", "f: %twice")
    assert run(lines + RETURN, {"x": "s32[]"}, np.int32(5), graphs=BRANCHES) == [10]
    lines = const("n", "[5]") + node("While", "input_0=%n", "cond: %positive, body: %less", "w")
    lines += node("Add", "x1=%w, x2=%x")
    assert run(lines + RETURN, {"x": "s32[]"}, np.int32(7), graphs=BRANCHES) == [7]
    lines = node("While", "input_0=%x", "cond: %positive, body: %less")
    assert run(lines + RETURN, {"x": "s32[]"}, np.int32(5), graphs=BRANCHES) == [0]


@pytest.mark.parametrize(
    ("start", "limit", "delta", "trips"), [(0, 0, 1, 0), (0, 5, 2, 3), (3, -1, -2, 2), (0, 4, 1, 4)]
)
def test_the_trips_of_a_loop(start, limit, delta, trips):
    body = """
graph("body"):
  %i : [#users=1] = Node[type=Data] (attrs = {index: 0})
  %a : [#users=1] = Node[type=Data] (attrs = {index: 1})
  %b : [#users=1] = Node[type=Add] (inputs = (x1=%a, x2=%i))
  return (%b)
"""
    lines = const("s", f"[{start}]") + const("l", f"[{limit}]") + const("d", f"[{delta}]")
    lines += node("For", "start=%s, limit=%l, delta=%d, input_1=%x", "body: %body")
    (got,) = run(lines + RETURN, {"x": "s32[]"}, np.int32(100), graphs=body)
    assert got == 100 + sum(start + i * delta for i in range(trips))


def test_a_loop_without_an_end_is_stopped():
    forever = 'graph("yes"):\n  %a : [#users=1] = Node[type=Const] (attrs = {value: [1]})\n  return (%a)\n'
    lines = const("n", "[5]") + node("While", "input_0=%n", "cond: %yes, body: %yes")
    with pytest.raises(
        UnsupportedError, match="a loop whose condition always holds is not supported"
    ):
        run(lines + RETURN, {}, graphs=forever)
    own = 'graph("own"):\n  %a : [#users=1] = Node[type=PartitionedCall] (attrs = {f: %own})\n  return (%a)\n'
    lines = "  %r : [#users=1] = Node[type=PartitionedCall] (attrs = {f: %own})\n"
    with pytest.raises(UnsupportedError, match="graph 'own' is nested more than 32 deep"):
        run(lines + RETURN, {}, graphs=own)


MISSING = (
    const("w", "[1 2 3 ... 98 99 100]")
    + const("u", "<not_supported>")
    + "  %v : [#users=1] = Node[type=Variable] ()\n"
    + node("AddN", "x0=%w, x1=%x, x2=%u, x3=%v", "N: 4")
)


def test_what_is_missing_is_requested_by_name_and_can_be_given():
    with pytest.raises(UserError) as error:
        run(MISSING + RETURN, {})
    assert str(error.value) == "ge dump line 5: '%x' must be defined above"
    text = f'graph("g"):\n  %x : [#users=1] = Node[type=Data] ()\n{MISSING}{RETURN}'.encode()
    with pytest.raises(UserError) as error:
        load(text)
    assert str(error.value) == (
        "ge dump: a readable dump does not hold dtype and shape of 'x' and the values of 'w' ([1 2 3 ... 98 99 100]), "
        "'u' (<not_supported>), 'v' (a Variable without value); say --input 'x=f32[...]' --constant 'w=@file.npy' "
        "--constant 'u=@file.npy' --constant 'v=@file.npy'"
    )
    one = np.ones(4, np.float32)
    graph = load(text, {"x": "f32[4]", "v": "f32[4]"}, {"w": one, "u": 2 * one})
    assert [op.name for op in graph.inputs] == ["x", "v"]
    np.testing.assert_array_equal(graph.evaluate([one, one])[0], 5 * one)
    with pytest.raises(
        UserError, match="^ge dump: there is no constant 'z'; its constants are 'w', 'u', 'v'$"
    ):
        load(text, {"x": "f32[4]"}, {"z": one})
    with pytest.raises(UserError, match="^ge dump: there is no input 'z'; its inputs are 'x'$"):
        load(text, {"z": "f32[4]"})


def test_all_unsupported_ops_are_named_at_once():
    lines = (
        node("Conv9D", "x=%x", name="a")
        + node("DynamicRNN", "x=%a", name="b")
        + node("Conv9D", "x=%b")
    )
    with pytest.raises(UnsupportedError) as error:
        run(lines + RETURN, {"x": "f32[4]"}, X)
    assert str(error.value) == (
        "ge dump: these ops are not supported: Conv9D (2x), DynamicRNN (1x); "
        "use others (docs/reference/operators.md lists those that are read) or define them (`graphc.ops.define`)"
    )


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (node("Reshape", "x=%x"), "Reshape 'r': input 'shape' must be given, got only ['x']"),
        (node("Cast", "x=%x"), "Cast 'r': attribute 'dst_type' must be given, got only []"),
        (node("Cast", "x=%x", "dst_type: 13"), "Cast 'r': dst_type 13 is not supported; export the model without it"),
        (node("MatMul", "x1=%x, x2=%x"), "MatMul 'r': operands must be matrices, got f32[2,3,4] and f32[2,3,4]"),
        (node("Transpose", "x=%x, perm=%x"),
         "Transpose 'r': perm ('x') that depends on the model's inputs is not supported; "
         "fix the inputs that decide it (`--constant`)"),
        (node("Add", "x1=%x, x1=%x"), "Add 'r': inputs must have different names, got 'x1' twice"),
        (node("Unpack", "x=%x", "num: 2, axis: 1"),
         "Unpack 'r': the number of parts must be the size 3 of axis 1, got 2"),
    ],
)  # fmt: skip
def test_messages(op, message):
    with pytest.raises(GraphcError) as error:
        run(op + RETURN, {"x": "f32[2,3,4]"}, X)
    assert str(error.value) == message


SAMPLE = (DUMPS / "branch_and_loop.txt").read_bytes()
SPECS = {"input_0": "f32[3]", "pred_1": "bool[]"}


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(SAMPLE) - 1), st.integers(32, 126)), min_size=1, max_size=2
    )
)
def test_flipped_bytes(flips):
    data = bytearray(SAMPLE)
    for offset, value in flips:
        data[offset] = value
    with contextlib.suppress(GraphcError):
        load(bytes(data), SPECS)
