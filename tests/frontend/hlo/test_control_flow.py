"""while and conditional whose course depends on the inputs: against NumPy, by the references and natively."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import graphc
from graphc.base.errors import UnsupportedError
from graphc.driver.compiler import compile_stages
from graphc.frontend.hlo import import_hlo, parse_hlo
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ops.control import While
from support.hlo_text import ADD, module, run
from support.tolerance import assert_close

Array = np.ndarray

GRU = """cond {
  s = (s32[], s32[], f32[3,8], f32[8,24]) parameter(0)
  ROOT p = pred[] compare(s#0, s#1), direction=LT
}
body {
  s = (s32[], s32[], f32[3,8], f32[8,24]) parameter(0)
  i = s32[] add(s#0, s32[] constant(1))
  g = f32[3,24] dot(s#2, s#3), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g0 = f32[3,8] slice(g), slice={[0:3], [0:8]}
  g1 = f32[3,8] slice(g), slice={[0:3], [8:16]}
  g2 = f32[3,8] slice(g), slice={[0:3], [16:24]}
  r = f32[3,8] logistic(g0)
  z = f32[3,8] logistic(g1)
  n = f32[3,8] tanh(multiply(r, g2))
  h = f32[3,8] add(n, f32[3,8] multiply(z, f32[3,8] subtract(s#2, n)))
  ROOT t = (s32[], s32[], f32[3,8], f32[8,24]) tuple(i, s#1, h, s#3)
}
"""
GRU_BODY = """n = s32[] parameter(0)
h = f32[3,8] parameter(1)
w = f32[8,24] parameter(2)
s = (s32[], s32[], f32[3,8], f32[8,24]) tuple(s32[] constant(0), n, h, w)
l = (s32[], s32[], f32[3,8], f32[8,24]) while(s), condition=cond, body=body
ROOT r = (f32[3,8], s32[]) tuple(l#2, l#0)"""


def graph_of(body: str, before: str) -> Graph:
    return import_hlo(parse_hlo(module(body, before)))


def check(graph: Graph, inputs: Sequence[Array], expected: Sequence[Array]) -> None:
    """References and native code on two threads give what is expected."""
    native = graphc.compile(graph, threads=2)(*inputs)
    several = native if isinstance(native, (list, tuple)) else [native]
    for results in (graph.evaluate(inputs), several):
        for got, want in zip(results, expected, strict=True):
            assert_close(np.asarray(got), np.asarray(want, np.asarray(got).dtype), 8)


def kinds(graph: Graph) -> list[str]:
    return [op.op_name for op in graph.ops if op.kind not in ("source", "sink")]


def gru(count: int, h: Array, w: Array) -> Array:
    h, w = h.astype(np.float64), w.astype(np.float64)
    for _ in range(count):
        r, z, n = np.split(h @ w, 3, axis=1)
        r, z = 1 / (1 + np.exp(-r)), 1 / (1 + np.exp(-z))
        n = np.tanh(r * n)
        h = n + z * (h - n)
    return h


def test_a_gru_runs_as_often_as_the_data_says() -> None:
    graph = graph_of(GRU_BODY, GRU)
    assert kinds(graph) == ["while"]
    rng = np.random.default_rng(0)
    h, w = rng.random((3, 8), np.float32), rng.random((8, 24), np.float32) - 0.5
    for count in (0, 1, 2, 17):
        check(graph, [np.array(count, np.int32), h, w], [gru(count, h, w), np.array(count)])


def test_a_loop_that_ends_when_the_values_have_settled() -> None:
    before = """add_f32 { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = add(a, b) }
c { x = f32[4] parameter(0) y = f32[] reduce(multiply(x, x), f32[] constant(0)), dimensions={0}, to_apply=add_f32
  ROOT p = pred[] compare(y, f32[] constant(1)), direction=GT }
b { x = f32[4] parameter(0) k = f32[] constant(0.5) h = f32[4] broadcast(k), dimensions={} ROOT r = multiply(x, h) }
"""
    graph = graph_of(
        "x = f32[4] parameter(0)\nROOT w = f32[4] while(x), condition=c, body=b", before
    )
    for size in (0.1, 1.0, 9.0, 1e6):
        x = want = np.array([1, -2, 3, 0.5], np.float32) * np.float32(size)
        while float(np.sum(want * want)) > 1:
            want = want / 2
        check(graph, [x], [want])


def test_loops_inside_each_other_and_a_state_of_several_types() -> None:
    before = """ic { s = (s32[], s32[], f64[]) parameter(0) ROOT p = pred[] compare(s#0, s#1), direction=LT }
ib { s = (s32[], s32[], f64[]) parameter(0) i = add(s#0, s32[] constant(1))
  v = add(s#2, f64[] convert(s#0)) ROOT n = (s32[], s32[], f64[]) tuple(i, s#1, v) }
oc { s = (pred[], (s32[], f64[]), s32[]) parameter(0) ROOT p = compare(s#1#0, s#2), direction=LT }
ob { s = (pred[], (s32[], f64[]), s32[]) parameter(0)
  t = (s32[], s32[], f64[]) tuple(s32[] constant(0), s#1#0, s#1#1)
  w = (s32[], s32[], f64[]) while(t), condition=ic, body=ib
  i = add(s#1#0, s32[] constant(1))
  ROOT n = (pred[], (s32[], f64[]), s32[]) tuple(not(s#0), tuple(i, w#2), s#2) }
"""
    graph = graph_of(
        """n = s32[] parameter(0)
        t = (s32[], f64[]) tuple(s32[] constant(0), f64[] constant(0.5))
        s = (pred[], (s32[], f64[]), s32[]) tuple(pred[] constant(true), t, n)
        ROOT w = (pred[], (s32[], f64[]), s32[]) while(s), condition=oc, body=ob""",
        before,
    )
    for n in range(6):
        total = 0.5 + sum(sum(range(i)) for i in range(n))
        want = [np.array(n % 2 == 0), np.array(n), np.array(total), np.array(n)]
        check(graph, [np.array(n, np.int32)], want)


LONG = """c {{ s = (s32[], f32[2]) parameter(0) ROOT p = compare(s#0, s32[] constant({count})), direction=LT }}
b {{ s = (s32[], f32[2]) parameter(0) i = add(s#0, s32[] constant(1)) k = f32[2] constant({{1, 2}})
  ROOT n = (s32[], f32[2]) tuple(i, add(s#1, k)) }}
"""


@pytest.mark.parametrize("count, kind", [(3, "add"), (100_000, "while")])
def test_only_short_loops_of_known_length_are_unrolled(count: int, kind: str) -> None:
    graph = graph_of(
        """x = f32[2] parameter(0)
        s = (s32[], f32[2]) tuple(s32[] constant(0), x)
        w = (s32[], f32[2]) while(s), condition=c, body=b
        ROOT r = f32[2] copy(w#1)""",
        LONG.format(count=count),
    )
    assert set(kinds(graph)) == {kind}
    x = np.zeros(2, np.float32)
    (got,) = np.atleast_2d(np.asarray(graphc.compile(graph, threads=1)(x)))
    np.testing.assert_array_equal(got, [count, 2 * count])


BRANCHES = """up { a = (f32[3], f32[3]) parameter(0) ROOT r = (f32[3], s32[]) tuple(add(a#0, a#1), s32[] constant(7)) }
down { a = f32[3] parameter(0) ROOT r = (f32[3], s32[]) tuple(negate(a), s32[] constant(8)) }
same { a = f32[3] parameter(0) ROOT r = (f32[3], s32[]) tuple(a, s32[] constant(9)) }
"""


def test_conditional_on_a_number() -> None:
    graph = graph_of(
        """i = s32[] parameter(0)
        x = f32[3] parameter(1)
        ROOT c = (f32[3], s32[]) conditional(i, (f32[3], f32[3]) tuple(x, x), x, x),
          branch_computations={up, down, same}""".replace("\n          ", " "),
        BRANCHES,
    )
    assert "case" in kinds(graph) and "select" not in kinds(graph)
    x = np.array([1, 2, 3], np.float32)
    for i, want, number in ((0, 2 * x, 7), (1, -x, 8), (2, x, 9), (3, x, 9), (-1, x, 9)):
        check(graph, [np.array(i, np.int32), x], [want, np.array(number)])


def test_conditional_on_a_truth_value() -> None:
    graph = graph_of(
        """p = pred[] parameter(0)
        x = f32[3] parameter(1)
        ROOT c = (f32[3], s32[]) conditional(p, x, x), true_computation=down, false_computation=same""",
        BRANCHES,
    )
    x = np.array([1, 2, 3], np.float32)
    check(graph, [np.array(True), x], [-x, np.array(8)])
    check(graph, [np.array(False), x], [x, np.array(9)])


def test_what_is_not_supported_inside_is_named() -> None:
    before = BRANCHES.replace(
        "ROOT r = (f32[3], s32[]) tuple(negate(a)",
        'g = f32[3] custom-call(a), custom_call_target="Gauss" ROOT r = (f32[3], s32[]) tuple(g',
    )
    with pytest.raises(graphc.UnsupportedError, match="target 'Gauss'"):
        graph_of(
            """p = pred[] parameter(0)
            x = f32[3] parameter(1)
            ROOT c = (f32[3], s32[]) conditional(p, x, x), true_computation=down, false_computation=same""",
            before,
        )


SCAN = """cond { s = (s32[], f32[4], f32[300,4], f32[300,4]) parameter(0)
  ROOT p = pred[] compare(s#0, s32[] constant(300)), direction=LT }
body { s = (s32[], f32[4], f32[300,4], f32[300,4]) parameter(0)
  z = s32[] constant(0)
  r = f32[1,4] dynamic-slice(s#2, s#0, z), dynamic_slice_sizes={1,4}
  c = f32[4] add(s#1, f32[4] reshape(r))
  o = f32[300,4] dynamic-update-slice(s#3, f32[1,4] reshape(c), s#0, z)
  ROOT t = (s32[], f32[4], f32[300,4], f32[300,4]) tuple(add(s#0, s32[] constant(1)), c, s#2, o) }
"""


def test_rows_a_loop_collects_are_written_in_place() -> None:
    """The loop that jax.lax.scan is lowered to."""
    graph = graph_of(
        """x = f32[300,4] parameter(0)
        k = f32[] constant(0)
        zero = f32[4] broadcast(k), dimensions={}
        rows = f32[300,4] broadcast(k), dimensions={}
        s = (s32[], f32[4], f32[300,4], f32[300,4]) tuple(s32[] constant(0), zero, x, rows)
        w = (s32[], f32[4], f32[300,4], f32[300,4]) while(s), condition=cond, body=body
        ROOT r = (f32[4], f32[300,4]) tuple(w#1, w#3)""",
        SCAN,
    )
    x = np.random.default_rng(0).integers(-3, 4, (300, 4)).astype(np.float32)
    check(graph, [x], [x.sum(0), x.cumsum(0)])
    optimized = compile_stages(graph).graph
    (loop,) = [op for op in optimized.ops if isinstance(op, While)]
    assert len(loop.in_place_state) == 1


@pytest.mark.parametrize(
    ("pairs", "expected"), [("{{0,0}}", [1, 2]), ("{{1,2}}", [0, 0]), ("{}", [0, 0])]
)
def test_a_device_without_a_sender_receives_zeros(pairs: str, expected: list[float]) -> None:
    text = module(
        f"x = f32[2] parameter(0)\nROOT r = f32[2] collective-permute(x), source_target_pairs={pairs}"
    )
    assert run(text, np.array([1, 2], np.float32))[0].tolist() == expected


def test_several_arrays_are_permuted_at_once() -> None:
    line = "ROOT r = (f32[2], f32[2]) collective-permute(x, x), source_target_pairs={pairs}"
    x = np.array([1, 2], np.float32)
    for pairs, expected in (("{{0,0}}", x), ("{{0,1}}", 0 * x)):
        text = module(f"x = f32[2] parameter(0)\n{line.format(pairs=pairs)}")
        for y in run(text, x):
            np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("sizes", ["{{1}}", "{{1},{1}}"])
def test_an_array_into_which_no_slice_is_sent_stays_as_it_is(sizes: str) -> None:
    """Written at once and as a pair of start and done."""
    given = "x, y, at, at), source_target_pairs={{0,1}}, slice_sizes=" + sizes
    for lines in (
        f"ROOT r = f32[3] collective-permute({given}",
        f"s = (f32[2], f32[3], u32[]) collective-permute-start({given}\n"
        "ROOT r = f32[3] collective-permute-done(s)",
    ):
        text = module(
            "x = f32[2] parameter(0)\ny = f32[3] parameter(1)\nz = s32[] constant(0)\n"
            f"at = (s32[]) tuple(z)\n{lines}"
        )
        y = np.array([3, 4, 5], np.float32)
        (found,) = run(text, np.array([1, 2], np.float32), y)
        np.testing.assert_array_equal(found, y)


@pytest.mark.parametrize(
    ("operation", "what"),
    [
        (
            "f32[2] collective-permute(x, x, t, t), source_target_pairs={{0,0}}, slice_sizes={{1}}",
            "slices that a device sends to itself",
        ),
        ("(f32[2], u32[], token[]) send(x, o)", "a transfer without channel_id"),
        (
            "f32[2] collective-permute(x), source_target_pairs={{0,1},{1,0}}",
            "more than one replica",
        ),
        ("f32[8] all-gather(x), dimensions={0}", "more than one replica"),
        ("f32[1] reduce-scatter(x), dimensions={0}, to_apply=add_f32", "more than one replica"),
        ("f32[1,2] dynamic-reshape(x, n, n)", "sizes that depend on the model's inputs"),
    ],
)
def test_what_one_device_cannot_know(operation: str, what: str) -> None:
    text = module(
        "x = f32[2] parameter(0)\nn = s32[] parameter(1)\nt = (s32[]) tuple(n)\n"
        f"o = token[] after-all()\nROOT r = {operation}",
        ADD,
    )
    with pytest.raises(UnsupportedError, match=f"'r': {what} is not supported"):
        run(text)


def test_copies_that_start_and_end() -> None:
    text = module(
        """x = f32[2]{0:S(1)} parameter(0)
        s = (f32[2], f32[2], u32[]) copy-start(x)
        ROOT r = f32[2] copy-done(s)"""
    )
    assert run(text, np.array([1, 2], np.float32))[0].tolist() == [1, 2]
