"""Sizes that are counted inside branches and loops, and state that grows, beside ONNX Runtime, fixed and open."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import graphc
from graphc.base.options import CompileOptions
from graphc.frontend import load
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.text.parser import parse_graph
from graphc.graph_ir.text.printer import print_graph
from graphc.tools.compare import compare_with_references
from graphc.tools.variants import model_variants
from support.isa import host_target

HEAD = '<ir_version: 8, opset_import: ["": 17]>'
ROUNDS = "<int64 rounds = {300}, bool on = {1}>"  # more than are unrolled

BRANCHES = """g (bool go, float[N,4] x) => (int64[K,2] at, float[R,4] rows, float inside) {
    at, rows, inside = If(go) <
        then_branch = a () => (int64[A,2] at1, float[B,4] rows1, float sum1) {
            both = NonZero(x)
            at1 = Transpose(both)
            rows1 = Concat<axis=0>(x, x)
            chosen = GatherND(x, at1)
            sum1 = ReduceSum<keepdims=0>(chosen)
        },
        else_branch = b () => (int64[C,2] at2, float[D,4] rows2, float sum2) {
            at2 = Constant<value = int64[1,2] {7, 8}>()
            rows2 = Neg(x)
            sum2 = ReduceMax<keepdims=0>(x)
        }>
}"""
GROWS = f"""g (bool go, float[N,4] x) => (float[K,4] list, float last) {ROUNDS} {{
    start = ReduceMean<keepdims=0>(x)
    list, last = Loop(rounds, on, x, start) <
        body = b (int64 i, bool c, float[A,4] v, float s) => (bool more, float[B,4] w, float t) {{
            more = Identity(c)
            new = ReduceMean<axes=[0], keepdims=1>(v)
            row = Sin(new)
            w = Concat<axis=0>(v, row)
            t = ReduceMax<keepdims=0>(v)
        }}>
}}"""
GROW_UNTIL = f"""g (bool go, float[4,N] x) => (float[4,K] list, float[4,K] other) {ROUNDS} {{
    list, other = Loop(rounds, on, x, x) <
        body = b (int64 i, bool c, float[4,A] v, float[4,B] s) => (bool more, float[4,C] w, float[4,D] t) {{
            one = Constant<value_float=1.0>()
            both = Mul(v, s)
            top = ReduceMax<axes=[1], keepdims=1>(both)
            new = Add(top, one)
            w = Concat<axis=1>(v, new)
            t = Concat<axis=1>(s, new)
            most = ReduceMax<keepdims=0>(new)
            limit = Constant<value_float=1000.0>()
            more = Less(most, limit)
        }}>
}}"""
SHRINKS = f"""g (bool go, float[N,4] x) => (float[K,4] left, float[300] means) {ROUNDS} {{
    start = Constant<value_float=-1.0>()
    left, last, means = Loop(rounds, on, x, start) <
        body = b (int64 i, bool c, float[A,4] v, float s) => (bool more, float[B,4] w, float t, float mean) {{
            more = Identity(c)
            step = Constant<value_float=0.005>()
            t = Add(s, step)
            means = ReduceMean<axes=[1], keepdims=0>(v)
            mask = Greater(means, t)
            w = Compress<axis=0>(v, mask)
            mean = ReduceSum<keepdims=0>(w)
        }}>
}}"""
NESTED = f"""g (bool go, float[N,4] x) => (float[M] sums) {ROUNDS} {{
    none = Constant<value = float[0] {{}}>()
    y, sums = Loop(rounds, on, x, none) <
        body = b (int64 i, bool c, float[N,4] v, float[A] s) => (bool more, float[N,4] w, float[B] t) {{
            more = Identity(c)
            at = NonZero(v)
            count = Shape<start=1>(at)
            trips = Squeeze(count)
            yes = Constant<value = bool {{1}}>()
            half = Constant<value_float=0.5>()
            zero = Constant<value_float=0.0>()
            total = Loop(trips, yes, zero) <
                body = d (int64 j, bool e, float p) => (bool still, float q) {{
                    still = Identity(e)
                    found = NonZero(v)
                    one = Shape<start=1>(found)
                    number = Cast<to=1>(one)
                    n = ReduceSum<keepdims=0>(number)
                    q = Add(p, n)
                }}>
            shape = Constant<value_ints=[1]>()
            row = Reshape(total, shape)
            t = Concat<axis=0>(s, row)
            less = Sub(v, half)
            w = Relu(less)
        }}>
}}"""
MODELS = {
    "branches": BRANCHES,
    "grows": GROWS,
    "grow-until": GROW_UNTIL,
    "shrinks": SHRINKS,
    "nested": NESTED,
}


def parsed(name: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD + MODELS[name])


def feeds(name: str, rows: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shape = (4, rows) if name == "grow-until" else (rows, 4)
    x = rng.standard_normal(shape).astype(np.float32)
    return {"go": np.array(seed % 2 == 0), "x": np.where(rng.random(shape) < 0.6, x, 0)}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", MODELS)
def test_any_number_of_rows(name: str) -> None:
    proto = parsed(name)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    text = print_graph(load(proto), full=True)
    assert print_graph(parse_graph(text), full=True) == text
    compiled = graphc.compile(proto, threads=1)
    alone = graphc.compile(proto, inputs={"x": str(compiled.inputs[-1]).replace("N", "7")[3:]})
    for seed, rows in enumerate((1, 2, 7, 7, 17)):
        given = feeds(name, rows, seed)
        given = {x.name: given[x.name] for x in compiled.inputs}
        wanted = session.run(
            None, {x.name: feeds(name, rows, seed)[x.name] for x in session.get_inputs()}
        )
        models = (compiled, alone) if rows == 7 else (compiled,)
        for one in models:
            for got, want in zip(one.run(None, given), wanted, strict=True):
                assert got.shape == want.shape and got.dtype == want.dtype
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_tools_run_them_kernel_by_kernel() -> None:
    source = load(parsed("branches"))
    ctx = LowerContext(host_target("avx2"), CompileOptions(1))
    outcome = compare_with_references(source, ctx, feeds("branches", 5, 2))
    assert outcome.finding is None and outcome.checked > 4
    assert model_variants(source, ctx, {"N": 5})
    assert model_variants(load(parsed("grow-until")), ctx, {"N": 5})


ON = "c = Constant<value = bool {1}>()"
ROWS = f"""g (int64 n, float[3] x) => (y, z) {{
    {ON}
    y, z = Loop(n, c, x) <
        body = b (int64 i, bool ci, float[3] s) => (co, so, r) {{
            co = Identity(ci)
            so = Mul(s, s)
            r = Add(so, x)
        }}>
}}"""
ROWS_WHILE = f"""g (int64 n, float[3] x) => (y, z) {{
    {ON}
    h = Constant<value_int=2>()
    y, z = Loop("", c, n) <
        body = b (int64 i, bool ci, int64 s) => (co, so, r) {{
            so = Sub(s, h)
            none = Constant<value_int=0>()
            co = Greater(so, none)
            f = Cast<to=1>(so)
            r = Add(f, x)
        }}>
}}"""
LIST = f"""g (int64 n, float[3] x) => (y, z, size, last) {{
    {ON}
    e = SequenceEmpty()
    h, q = Loop(n, c, x, e) <
        body = b (int64 i, bool ci, float[3] s, seq(float) before) => (co, so, after) {{
            co = Identity(ci)
            f = Cast<to=1>(i)
            so = Add(s, f)
            after = SequenceInsert(before, so)
        }}>
    y = ConcatFromSequence<axis=1, new_axis=1>(q)
    z = ConcatFromSequence<axis=0>(q)
    size = SequenceLength(q)
    none = Constant<value_int=0>()
    last = SequenceAt(q, none)
}}"""


@pytest.mark.parametrize("body", [ROWS, ROWS_WHILE, LIST])
def test_rows_of_rounds_whose_number_only_a_run_knows(body: str, rng: np.random.Generator) -> None:
    model = onnx.parser.parse_model(HEAD + body)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = graphc.compile(model, threads=1)
    for rounds in (3, 1, 200, 5):
        feed = {"n": np.array(rounds), "x": rng.random(3).astype(np.float32)}
        for wanted, got in zip(session.run(None, feed), compiled.run(None, feed), strict=True):
            assert got.shape == wanted.shape and got.dtype == wanted.dtype
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_dynamic_lists_are_as_long_as_an_axis(rng: np.random.Generator) -> None:
    steps = LIST.replace("int64 n, float[3] x", "float[T,3] rows, float[3] x")
    shape = "z0 = Constant<value_ints=[0]>() s = Shape<start=0,end=1>(rows) n = Squeeze(s, z0)"
    model = onnx.parser.parse_model(HEAD + steps.replace(ON, f"{ON} {shape}"))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = graphc.compile(model, threads=1)
    for rows in (1, 4, 90):
        feed = {"rows": np.zeros((rows, 3), np.float32), "x": rng.random(3).astype(np.float32)}
        for wanted, got in zip(session.run(None, feed), compiled.run(None, feed), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_tables_of_two_lengths_are_never_empty() -> None:
    """Decoders with two ranges of positions choose their table of angles by the number of tokens."""
    text = """g (float[T] x) => (y) {
        n = Shape(x)
        limit = Constant<value_ints=[3]>()
        c = Greater(n, limit)
        one = Squeeze(c)
        table = If(one) <then_branch = long () => (a) { a = Constant<value_floats=[1.,2.,3.,4.,5.,6.]>() },
                         else_branch = short () => (b) { b = Constant<value_floats=[7.,8.,9.]>() }>
        last = Constant<value_int=-1>()
        size = Squeeze(n)
        zero = Constant<value_int=0>()
        step = Constant<value_int=1>()
        at = Range(zero, size, step)
        rows = Gather(table, at)
        end = Gather(table, last)
        y = Add(rows, end)
    }"""
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]>' + text)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = graphc.compile(model, threads=1)
    for length in (1, 3, 4, 6):
        x = np.zeros(length, np.float32)
        np.testing.assert_array_equal(compiled(x), session.run(None, {"x": x})[0])
