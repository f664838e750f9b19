"""Numbers of imported HLO against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import graphc
from graphc.base.dtypes import by_name
from graphc.frontend.hlo import import_hlo, parse_hlo
from graphc.frontend.onnx import to_onnx
from support.hlo_text import ADD, module, one_op, run

RNG = np.random.default_rng(7)
DTYPES = {
    "f32": np.float32,
    "s32": np.int32,
    "u32": np.uint32,
    "pred": np.bool_,
    "f64": np.float64,
    "s8": np.int8,
}


def value(shape: str) -> np.ndarray:
    """Random values of a shape text."""
    name, _, sizes = shape.partition("[")
    dims = [int(s) for s in sizes[:-1].split(",") if s]
    if name == "pred":
        return RNG.integers(0, 2, dims).astype(bool)
    if name[0] in "su":
        return RNG.integers(-9 if name[0] == "s" else 0, 9, dims).astype(DTYPES[name])
    return RNG.standard_normal(dims).astype(DTYPES[name])


def check(
    shapes: list[str], result: str, operation: str, expected: Callable[..., Any], before: str = ""
) -> None:
    inputs = [value(shape) for shape in shapes]
    (got,) = run(one_op(shapes, result, operation, before), *inputs)
    wanted = expected(*inputs)
    assert got.shape == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def windows(x: np.ndarray, size: int, stride: int = 1) -> np.ndarray:
    return np.lib.stride_tricks.sliding_window_view(x, size, axis=0)[::stride]


@pytest.mark.parametrize(
    ("shapes", "result", "operation", "expected"),
    [
        (["f32[4]", "f32[4]"], "f32[4]", "subtract(p0, p1)", np.subtract),
        (["pred[9]", "pred[9]"], "pred[9]", "add(p0, p1)", np.logical_or),
        (["pred[9]", "pred[9]"], "pred[9]", "multiply(p0, p1)", np.logical_and),
        (["f32[9]"], "s8[9]", "convert(p0)", lambda x: x.astype(np.int8)),
        (["f32[9]"], "f32[9]", "round-nearest-afz(p0)", lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5)),
        (["f32[]", "f32[9]", "f32[9]"], "f32[9]", "clamp(p0, p1, p2)", lambda a, x, b: np.minimum(np.maximum(x, a), b)),
        (["pred[]", "f32[3]", "f32[3]"], "f32[3]", "select(p0, p1, p2)", np.where),
        (["f32[3]"], "f32[2,3,4]", "broadcast(p0), dimensions={1}",
         lambda x: np.broadcast_to(x[:, None], (2, 3, 4))),
        (["f32[3,2]"], "f32[2,5,3]", "broadcast(p0), dimensions={2,0}",
         lambda x: np.broadcast_to(x.T[:, None], (2, 5, 3))),
        (["f32[2,3,4]"], "f32[4,2,3]", "transpose(p0), dimensions={2,0,1}", lambda x: x.transpose(2, 0, 1)),
        (["f32[2,3]"], "f32[2,3]", "reverse(p0), dimensions={1}", lambda x: x[:, ::-1]),
        (["f32[9]"], "f32[3]", "slice(p0), slice={[1:8:3]}", lambda x: x[1:8:3]),
        (["f32[3]", "f32[]"], "f32[7]", "pad(p0, p1), padding=2_-2_2",
         lambda x, v: np.array([v, v, x[0], v, v, x[1], v])),
        (["f32[3]", "f32[]"], "f32[0]", "pad(p0, p1), padding=-3_0", lambda x, v: np.zeros(0)),
        (["f32[0]", "f32[]"], "f32[2]", "pad(p0, p1), padding=1_1_3", lambda x, v: np.array([v, v])),
        ([], "s32[2,3]", "iota(), iota_dimension=1", lambda: np.broadcast_to(np.arange(3), (2, 3))),
        (["f32[2,3]"], "f32[3,2]", "bitcast(p0)", lambda x: x.reshape(3, 2)),
        (["f32[2,3]"], "f32[2,3]", "reduce-precision(p0), exponent_bits=8, mantissa_bits=23", lambda x: x),
        (["f32[2,3]", "f32[3,4]"], "f32[2,4]", "dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
         np.matmul),
        (["f32[3,2]", "f32[4,3]"], "f32[2,4]", "dot(p0, p1), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
         lambda a, b: a.T @ b.T),
        (["f32[3]", "f32[4]"], "f32[3,4]", "dot(p0, p1)", np.outer),
        (["f32[3]", "f32[3]"], "f32[]", "dot(p0, p1), lhs_contracting_dims={0}, rhs_contracting_dims={0}", np.dot),
        (["f32[2,3,4,5]", "f32[4,3,6,5]"], "f32[3,2,4,4,6]",
         "dot(p0, p1), lhs_batch_dims={1}, rhs_batch_dims={1}, lhs_contracting_dims={3}, rhs_contracting_dims={3}",
         lambda a, b: np.einsum("ahik,jhmk->haijm", a, b)),
        (["s8[2,3]", "s8[3,4]"], "s32[2,4]", "dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
         lambda a, b: a.astype(int) @ b.astype(int)),
        (["f32[3,5]", "f32[]"], "f32[5]", "reduce(p0, p1), dimensions={0}, to_apply=add_f32",
         lambda x, v: x.sum(0) + v),
        (["f32[3,5]", "f32[]"], "f32[3,5]", "reduce(p0, p1), dimensions={}, to_apply=add_f32", lambda x, v: x + v),
        (["f32[0,5]", "f32[]"], "f32[5]", "reduce(p0, p1), dimensions={0}, to_apply=add_f32",
         lambda x, v: np.full(5, v)),
        (["f32[11]", "f32[]"], "f32[3]", "reduce-window(p0, p1), window={size=5 stride=3}, to_apply=add_f32",
         lambda x, v: windows(x, 5, 3).sum(-1) + v),
        (["f32[5]"], "f32[5]", "reduce-window(p0, f32[] constant(0)), window={size=5 pad=4_0}, to_apply=add_f32",
         np.cumsum),
        (["f32[2,5]"], "f32[2,5]",
         "reduce-window(p0, f32[] constant(0)), window={size=1x5 pad=0_0x5_-1}, to_apply=add_f32",
         lambda x: np.cumsum(x, 1) - x),
        (["f32[2,5]"], "f32[2,5]",
         "reduce-window(p0, f32[] constant(0)), window={size=1x5 pad=0_0x0_4}, to_apply=add_f32",
         lambda x: np.cumsum(x[:, ::-1], 1)[:, ::-1]),
        (["f32[7,4]", "s32[2,2]"], "f32[2,2,4]",
         "gather(p0, p1), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, "
         "slice_sizes={1,4}", lambda x, i: x[np.clip(i, 0, 6)]),
        (["f32[7,4]", "s32[3,2]"], "f32[2,3,3]",
         "gather(p0, p1), offset_dims={0,2}, collapsed_slice_dims={}, start_index_map={1,0}, index_vector_dim=1, "
         "slice_sizes={2,3}",
         lambda x, i: np.stack([x[np.clip(b, 0, 5) : np.clip(b, 0, 5) + 2, np.clip(a, 0, 1) : np.clip(a, 0, 1) + 3]
                                for a, b in i], 1)),
        (["f32[5,6]", "s32[]", "s32[]"], "f32[2,6]", "dynamic-slice(p0, p1, p2), dynamic_slice_sizes={2,6}",
         lambda x, i, j: x[np.clip(i, 0, 3) : np.clip(i, 0, 3) + 2]),
        (["f32[5,6]"], "f32[2,2]", "dynamic-slice(p0, s32[2] constant({9, -1})), dynamic_slice_sizes={2,2}",
         lambda x: x[3:, :2]),
        (["f32[4,9]"], "f32[4,9]", "map(p0, p0), dimensions={0,1}, to_apply=add_f32", lambda x: x + x),
        (["f32[4]"], "f32[4]", 'custom-call(p0), custom_call_target="Sharding", sharding={replicated}', lambda x: x),
        (["f32[4]"], "f32[4]", "all-reduce(p0), replica_groups={}, to_apply=add_f32", lambda x: x),
        (["f32[4,6]"], "s32[]", "get-dimension-size(p0), dimensions={1}", lambda x: np.int32(6)),
    ],
)  # fmt: skip
def test_operations(shapes: list[str], result: str, operation: str, expected: Any) -> None:
    check(shapes, result, operation, expected, ADD)


@pytest.mark.parametrize(
    ("pads", "attrs"), [("4_0", {}), ("5_-1", {"exclusive": True}), ("-1_5", {"exclusive": True, "reverse": True})]
)  # fmt: skip
def test_a_window_as_long_as_its_axis_is_a_running_sum(pads: str, attrs: dict[str, Any]) -> None:
    """Windows written by graphc and JAX."""
    window = f"window={{size=5 pad={pads}}}, to_apply=add_f32"
    text = one_op(["f32[5]"], "f32[5]", f"reduce-window(p0, f32[] constant(0)), {window}", ADD)
    graph = import_hlo(parse_hlo(text))
    (running,) = (op for op in graph.ops if op.op_name == "cum_sum")
    assert {key: value for key, value in running.attrs.items() if key != "axis"} == attrs


def test_integer_division_is_that_of_xla() -> None:
    a = np.array([7, -7, 7, -7, 5, -(2**31)], np.int32)
    b = np.array([2, 2, -2, -2, 0, -1], np.int32)
    text = module(
        "a = s32[6] parameter(0)\nb = s32[6] parameter(1)\nq = divide(a, b)\nr = remainder(a, b)\n"
        "ROOT t = tuple(q, r)"
    )
    quotient, rest = run(text, a, b)
    assert quotient.tolist() == [3, -3, -3, 3, -1, -(2**31)]
    assert rest.tolist() == [1, -1, 1, -1, 5, 0]
    unsigned = text.replace("s32", "u32")
    quotient, rest = run(
        unsigned, np.full(6, 9, np.uint32), np.array([2, 3, 0, 4, 5, 9], np.uint32)
    )
    assert quotient.tolist() == [4, 3, 2**32 - 1, 2, 1, 1]
    assert rest.tolist() == [1, 0, 9, 1, 4, 0]


ORDERED = np.array([-np.nan, -np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan], np.float32)
"""Floats in their total order."""


def test_total_order() -> None:
    a, b = np.repeat(ORDERED, 8), np.tile(ORDERED, 8)
    order = np.arange(8)
    i, j = np.repeat(order, 8), np.tile(order, 8)
    for direction, function in (
        ("LT", np.less), ("LE", np.less_equal), ("GT", np.greater), ("GE", np.greater_equal), ("EQ", np.equal),
        ("NE", np.not_equal),
    ):  # fmt: skip
        text = one_op(
            ["f32[64]"] * 2, "pred[64]", f"compare(p0, p1), direction={direction}, type=TOTALORDER"
        )
        (got,) = run(text, a, b)
        np.testing.assert_array_equal(got, function(i, j))


def test_bitcast_follows_layouts() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (got,) = run(one_op(["f32[2,3]{0,1}"], "f32[3,2]{1,0}", "bitcast(p0)"), x)
    np.testing.assert_array_equal(got, x.T)
    (got,) = run(one_op(["f32[2,3]{0,1}"], "f32[6]{0}", "bitcast(p0)"), x)
    np.testing.assert_array_equal(got, x.T.reshape(6))


def convolved(
    x: np.ndarray, w: np.ndarray, stride: int, low: int, high: int, groups: int = 1
) -> np.ndarray:
    """1-D convolution, [batch, length, features] by [size, in, out]."""
    x = np.pad(x, ((0, 0), (low, high), (0, 0)))
    size, depth, out = w.shape
    steps = (x.shape[1] - size) // stride + 1
    result = np.zeros((x.shape[0], steps, out))
    for o in range(out):
        first = o // (out // groups) * depth
        for s in range(steps):
            part = x[:, s * stride : s * stride + size, first : first + depth]
            result[:, s, o] = np.einsum("bki,ki->b", part, w[:, :, o])
    return result


def test_convolution() -> None:
    check(
        ["f32[2,9,4]", "f32[3,4,5]"],
        "f32[2,5,5]",
        "convolution(p0, p1), window={size=3 stride=2 pad=1_1}, dim_labels=b0f_0io->b0f",
        lambda x, w: convolved(x, w, 2, 1, 1),
    )
    check(
        ["f32[2,9,4]", "f32[3,2,6]"],
        "f32[2,8,6]",
        "convolution(p0, p1), window={size=3 pad=0_1}, dim_labels=b0f_0io->b0f, feature_group_count=2",
        lambda x, w: convolved(x, w, 1, 0, 1, 2),
    )
    check(
        ["f32[2,9,4]", "f32[3,4,5]"],
        "f32[2,9,5]",
        "convolution(p0, p1), window={size=3 pad=1_1 rhs_reversal=1}, dim_labels=b0f_0io->b0f",
        lambda x, w: convolved(x, w[::-1], 1, 1, 1),
    )


MAX = "m { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(b, a) }\n"
ODD = (
    "m { a = f32[] parameter(0) b = f32[] parameter(1) s = f32[] add(a, b) p = f32[] multiply(a, b) "
    "ROOT r = f32[] add(s, p) }\n"
)


def test_reductions_with_other_bodies() -> None:
    operation = "reduce(p0, f32[] constant({})), dimensions={{1}}, to_apply=m"
    check(["f32[3,7]"], "f32[3]", operation.format("-inf"), lambda x: x.max(1), MAX)
    check(["f32[3,7]"], "f32[3]", operation.format("0"), lambda x: np.prod(1 + x, 1) - 1, ODD)
    tree = import_hlo(parse_hlo(one_op(["f32[3,7]"], "f32[3]", operation.format("-inf"), MAX)))
    assert [op.op_name for op in tree.ops] == ["input", "reduce_max", "output"]


def test_arg_max_of_jax_is_recognized() -> None:
    body = """r { a = f32[] parameter(0) x = f32[] parameter(2) g = pred[] compare(a, x), direction=GT
      n = pred[] compare(a, a), direction=NE o = pred[] or(g, n) v = f32[] select(o, a, x)
      e = pred[] compare(a, x), direction=EQ i = s32[] parameter(1) j = s32[] parameter(3)
      l = pred[] compare(i, j), direction=LT d = pred[] and(e, l) c = pred[] or(o, d)
      w = s32[] select(c, i, j) ROOT t = (f32[], s32[]) tuple(v, w) }\n"""
    text = module(
        """x = f32[4,6] parameter(0)
        i = s32[4,6] iota(), iota_dimension=1
        ROOT r = (f32[4], s32[4]) reduce(x, i, f32[] constant(-inf), s32[] constant(0)), dimensions={1}, to_apply=r""",
        body,
    )
    x = value("f32[4,6]")
    x[1] = np.nan
    largest, index = run(text, x)
    np.testing.assert_array_equal(largest, x.max(1))
    np.testing.assert_array_equal(index, np.argmax(x, 1))
    names = [op.op_name for op in import_hlo(parse_hlo(text)).ops]
    assert "arg_max" in names
    other = text.replace("constant(-inf)", "constant(-1e30)")  # the general way gives the same
    assert "arg_max" not in [op.op_name for op in import_hlo(parse_hlo(other)).ops]
    largest, index = run(other, value("f32[4,6]"))
    assert index.dtype == np.int32


def test_update_slice_is_clamped() -> None:
    x, update = value("f32[5,6]"), value("f32[2,3]")
    text = one_op(
        ["f32[5,6]", "f32[2,3]", "s32[]", "s32[]"],
        "f32[5,6]",
        "dynamic-update-slice(p0, p1, p2, p3)",
    )
    for i, j in ((0, 0), (1, 2), (9, -4), (3, 3)):
        (got,) = run(text, x, update, np.int32(i), np.int32(j))
        wanted = x.copy()
        row, column = min(max(i, 0), 3), min(max(j, 0), 3)
        wanted[row : row + 2, column : column + 3] = update
        np.testing.assert_array_equal(got, wanted)
        feeds = dict(
            zip(("p0", "p1", "p2", "p3"), (x, update, np.int32(i), np.int32(j)), strict=True)
        )
        written = to_onnx(import_hlo(parse_hlo(text)))  # whose evaluator takes no index outside
        (found,) = ReferenceEvaluator(written).run(None, feeds)
        np.testing.assert_array_equal(np.asarray(found), wanted)


def test_sort_with_payload_and_top_k() -> None:
    before = (
        "lt { a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3) "
        "ROOT r = pred[] compare(a, b), direction=LT }\n"
    )
    text = module(
        """x = f32[3,5] parameter(0)
        i = s32[3,5] iota(), iota_dimension=1
        s = (f32[3,5], s32[3,5]) sort(x, i), dimensions={1}, is_stable=true, to_apply=lt
        k = (f32[3,2], s32[3,2]) topk(x), k=2, largest=true
        ROOT t = tuple(s#0, s#1, k#0, k#1)""",
        before,
    )
    x = value("f32[3,5]").round() + 0.0
    ordered, indices, largest, at = run(text, x)
    np.testing.assert_array_equal(indices, np.argsort(x, 1, kind="stable"))
    np.testing.assert_array_equal(ordered, np.sort(x, 1))
    np.testing.assert_array_equal(at, np.argsort(-x, 1, kind="stable")[:, :2])
    np.testing.assert_array_equal(largest, np.take_along_axis(x, at, 1))


LOOP = """c { s = (s32[], f32[2]) parameter(0) ROOT p = pred[] compare(s#0, s32[] constant(5)), direction=LT }
b { s = (s32[], f32[2]) parameter(0) i = add(s#0, s32[] constant(1)) v = add(s#1, s#1)
  ROOT n = (s32[], f32[2]) tuple(i, v) }
"""


def test_while_of_known_trip_count_conditional_and_nested_tuples() -> None:
    text = module(
        """x = ((f32[2], pred[]), ()) parameter(0)
        s = (s32[], f32[2]) tuple(s32[] constant(2), x#0#0)
        w = while(s), condition=c, body=b
        q = f32[2] conditional(x#0#1, w#1, w#1), true_computation=yes, false_computation=no
        ROOT r = ((f32[2]), s32[]) tuple(tuple(q), w#0)""",
        LOOP
        + "yes { v = f32[2] parameter(0) ROOT r = negate(v) }\nno { v = f32[2] parameter(0) ROOT r = copy(v) }\n",
    )
    x = value("f32[2]")
    graph = import_hlo(parse_hlo(text))
    assert [op.name for op in graph.inputs] == ["x.0.0", "x.0.1"]
    assert [op.attrs["temp.result"] for op in graph.outputs] == ["r.0.0", "r.1"]
    for flag, factor in ((True, -8), (False, 8)):
        result, count = graph.evaluate([x, np.array(flag)])
        np.testing.assert_array_equal(result, factor * x)
        assert count == 5


def test_empty_tuple_root() -> None:
    assert (
        import_hlo(parse_hlo(module("x = f32[2] parameter(0)\nROOT t = () tuple()"))).outputs == []
    )


def test_fusion_in_a_column_major_dump_runs_natively(tmp_path: Any) -> None:
    text = module(
        "x = f32[33,17]{0,1} parameter(0)\nw = f32[17,9] parameter(1)\n"
        "d = f32[33,9] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "ROOT f = f32[33,9] fusion(d), kind=kLoop, calls=fused",
        "fused { p = f32[33,9] parameter(0) z = f32[] constant(0) b = f32[33,9] broadcast(z), dimensions={} "
        "ROOT m = f32[33,9] maximum(p, b) }\n",
    )
    path = tmp_path / "m.hlo"
    path.write_text(text)
    x, w = value("f32[33,17]"), value("f32[17,9]")
    compiled = graphc.compile(path, threads=1)
    got = compiled(x, w)
    result = got[0] if isinstance(got, (list, tuple)) else got
    np.testing.assert_allclose(result, np.maximum(x @ w, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_sort_and_top_k_in_total_order(dtype: str) -> None:
    order = np.array([3, 7, 0, 5, 1, 4, 6, 2])
    x = ORDERED.astype(by_name(dtype).numpy)[order]
    text = module(
        f"""x = {dtype}[8] parameter(0)
        i = s32[8] iota(), iota_dimension=0
        s = ({dtype}[8], s32[8]) sort(x, i), dimensions={{0}}, is_stable=true, to_apply=gt
        k = ({dtype}[7], s32[7]) topk(x), k=7, largest=true
        ROOT t = tuple(s#0, s#1, k#0, k#1)""",
        f"gt {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3)"
        " ROOT r = pred[] compare(b, a), direction=LT, type=TOTALORDER }\n",
    )
    ordered, indices, largest, at = run(text, x)
    wanted = np.argsort(-order)
    assert indices.tolist() == wanted.tolist() and at.tolist() == wanted[:7].tolist()
    assert ordered.tobytes() == x[wanted].tobytes() and largest.tobytes() == x[wanted[:7]].tobytes()


@pytest.mark.parametrize(
    "compared",
    [
        "c = abs(a) d = abs(b) ROOT r = pred[] compare(c, d), direction=GT",
        "e = abs(a) f = abs(b) g = pred[] compare(e, f), direction=GT h = pred[] compare(e, f), direction=EQ "
        "k = pred[] compare(i, j), direction=LT l = pred[] and(h, k) ROOT r = pred[] or(g, l)",
    ],
    ids=["by a key", "by two keys"],
)
def test_sort_by_another_comparator(compared: str) -> None:
    before = (
        "by_size { a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3) "
        f"{compared} }}\n"
    )
    text = module(
        """x = f32[3,5,2] parameter(0)
        i = s32[3,5,2] iota(), iota_dimension=1
        ROOT s = (f32[3,5,2], s32[3,5,2]) sort(x, i), dimensions={1}, is_stable=true, to_apply=by_size""",
        before,
    )
    x = value("f32[3,5,2]").round()
    ordered, indices = run(text, x)
    wanted = np.argsort(-np.abs(x), 1, kind="stable")
    np.testing.assert_array_equal(indices, wanted)
    np.testing.assert_array_equal(ordered, np.take_along_axis(x, wanted, 1))
