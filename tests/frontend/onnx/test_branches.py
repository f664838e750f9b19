"""Branches whose results differ in element type or number of axes, beside ONNX Runtime, at several sizes."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest

import graphc
from graphc.base.errors import UserError
from graphc.frontend import load

HEAD = '<ir_version: 8, opset_import: ["": 18]>'
CONSTANTS = """<int64[1] flat = {-1}, int64[1] first = {0}, int64[1] second = {1}, int64[2] rows = {-1, 4},
    float[4] w = {1, 2, 3, 4}, float[4,2] m = {1, 2, 3, 4, 5, 6, 7, 8}>"""
ONE_OR_TWO_AXES = """z = If(c) <
    then_branch = t () => (float[P,4] a) { a = ReduceMax<keepdims=0>(x, first) },
    else_branch = e () => (float[P,Q,4] b) { b = Exp(x) }>"""
CHAIN = "\n".join(f"u{i + 1} = Sin(u{i})" for i in range(17))


def model(
    text: str, outputs: str = "float[N] y", branches: str = ONE_OR_TWO_AXES
) -> onnx.ModelProto:
    inputs = "float[A,B,4] x, bool c, bool d"
    return onnx.parser.parse_model(
        f"{HEAD} g ({inputs}) => ({outputs}) {CONSTANTS} {{ {branches} {text} }}"
    )


NESTED = """z = If(c) <
    then_branch = t () => (float[...] a) {
        a = If(d) <
            then_branch = tt () => (float[P,4] a1) { a1 = ReduceMax<keepdims=0>(x, first) },
            else_branch = te () => (float[P,Q,4] a2) { a2 = Neg(x) }>
    },
    else_branch = e () => (float[P,Q,4] b) { b = Exp(x) }>""".replace("float[...]", "float[P,4]")
INSIDE = """z = If(c) <
    then_branch = t () => (float[N] a) {
        q = If(d) <
            then_branch = tt () => (float[P,4] a1) { a1 = ReduceMax<keepdims=0>(x, first) },
            else_branch = te () => (float[P,Q,4] a2) { a2 = Exp(x) }>
        p = Softmax<axis=LAST>(q)
        a = Reshape(p, flat)
    },
    else_branch = e () => (float[N] b) { r = Cos(x) b = Reshape(r, flat) }>"""

SETTLED = {
    "reshaped": model("u = Relu(z) y = Reshape(u, flat)"),
    "summed": model("y = ReduceSum<keepdims=0>(z)", "float y"),
    "long": model(f"u0 = Relu(z) {CHAIN} y = Reshape(u17, flat)"),
    "two results": model(
        "u = MatMul(z, m) v = Add(z, w) y = Reshape(u, flat) y2 = ReduceMax<keepdims=0>(v)",
        "float[N] y, float y2",
    ),
    "read again by what a settled result decides": model(
        "s = Reshape(z, flat) t = Mul(s, s) q = ReduceSum<keepdims=0>(t) u = Div(z, q) y = Reshape(u, flat)"
    ),
    "read beside a value that no branch decides": model(
        "r = Tanh(x) q = ReduceSum<keepdims=0>(r) u = Div(z, q) v = Reshape(u, rows) y = Softmax(v)",
        "float[N,4] y",
    ),
    "unsqueezed": model("u = Unsqueeze(z, second) y = Reshape(u, rows)", "float[N,4] y"),
    "a branch in a branch": model("u = Relu(z) y = Reshape(u, flat)", branches=NESTED),
    "inside of a branch": model("y = Abs(z)", branches=INSIDE.replace("LAST", "-1")),
    "two of them": model(
        "u = Reshape(z, rows) zz = If(d) <"
        "then_branch = t2 () => (float[4] a2) { a2 = ReduceMax<keepdims=0>(u, first) },"
        "else_branch = e2 () => (float[P,4] b2) { b2 = Exp(u) }> k = Add(zz, w) y = Reshape(k, flat)"
    ),
    "read as a larger shape": model(
        "s = Shape(x) y = Expand(z, s)",
        "float[A,B,4] y",
        ONE_OR_TWO_AXES.replace("ReduceMax", "ReduceMin"),
    ),
}


@pytest.mark.parametrize("name", SETTLED)
def test_what_reads_the_result_settles_its_axes(name: str) -> None:
    proto = SETTLED[name]
    compiled, session = graphc.compile(proto), runtime(proto)
    for dims in ((2, 1, 4), (2, 3, 4), (1, 1, 4), (5, 2, 4)):
        x = np.random.default_rng(1).standard_normal(dims).astype(np.float32)
        for flags in itertools.product((False, True), repeat=len(proto.graph.input) - 1):
            given = [x, *map(np.array, flags)]
            names = [one.name for one in proto.graph.input]
            wanted = session.run(None, dict(zip(names, given, strict=True)))
            found = compiled(*given)
            found = found if isinstance(found, tuple) else (found,)
            for one, other in zip(found, wanted, strict=True):
                assert one.shape == other.shape
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_branch_that_its_readers_do_not_take_is_an_error_of_the_run(is_inside: bool) -> None:
    """skl2onnx's KNNImputer has such a branch, inside of another."""
    text = "y = Abs(z)" if is_inside else "u = Softmax<axis=2>(z) y = Reshape(u, flat)"
    proto = model(text, branches=INSIDE.replace("LAST", "2") if is_inside else ONE_OR_TWO_AXES)
    compiled, session = graphc.compile(proto), runtime(proto)
    x = np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)
    names = [one.name for one in proto.graph.input]
    for flags in itertools.product((False, True), repeat=2):
        given = [x, *map(np.array, flags)]
        if all(flags) or (flags[0] and not is_inside):
            with pytest.raises(UserError, match=r"a branch must not be taken.*Softmax.*axis"):
                compiled(*given)
            with pytest.raises(Exception, match="axis"):
                session.run(None, dict(zip(names, given, strict=True)))
        else:
            wanted = session.run(None, dict(zip(names, given, strict=True)))[0]
            np.testing.assert_allclose(compiled(*given), wanted, rtol=1e-5)


def test_results_that_nothing_settles_are_refused() -> None:
    for text, branches in (("y = Relu(z)", ONE_OR_TWO_AXES), ("y = Relu(z)", NESTED)):
        with pytest.raises(graphc.UnsupportedError, match="choice between results of different"):
            load(model(text, "float[N,4] y", branches))


def test_a_loop_whose_branches_nothing_settles_is_refused() -> None:
    loop = """y = Loop(three, on, x) < body = l (int64 i, bool go, float[A,B,4] v) => (bool more, float[P,4] r) {
        more = Identity(go)
        q = Add(v, w)
        r = If(c) <then_branch = t () => (float[P,4] a) { a = ReduceMax<keepdims=0>(q, first) },
            else_branch = e () => (float[P,Q,4] b) { b = Exp(q) }> }>"""
    constants = CONSTANTS.replace("<", "<int64 three = {300}, bool on = {1}, ", 1)
    text = f"{HEAD} g (float[A,B,4] x, bool c) => (float[N,4] y) {constants} {{ {loop} }}"
    with pytest.raises(graphc.UnsupportedError, match="choice between results of different"):
        load(onnx.parser.parse_model(text))


def runtime(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(proto.SerializeToString(), options)
