"""Sizes that the data decide without a limit, of ONNX beside ONNX Runtime."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest

import graphc
from graphc.base.errors import UnsupportedError, UserError
from graphc.runtime.executor import CompiledModel

HEAD = '<ir_version: 8, opset_import: ["": 17]>'
NUMBERS = (3, 1, 0, 90, 200, 7)
"""Small ones, none, and more than the room of the first call."""

CONSTANTS = """
    minus = Constant<value_ints=[-1]>()
    zero = Constant<value_int=0>()
    one = Constant<value_int=1>()
    first = Constant<value_ints=[0]>()
    two = Constant<value_ints=[2]>()
    four = Constant<value_int=4>()
    one1 = Constant<value_ints=[1]>()
    first01 = Constant<value_ints=[0,1]>()
    n1 = Reshape(n, minus)
"""

BODIES = {
    "classes": """
        many = Add(n, one)
        v = Constant<value_floats=[0.5,1.0]>()
        i = Constant<value_ints=[0,1,-1]>()
        y = OneHot(i, many, v)""",
    "the largest": """
        some = Min(n, four)
        k = Reshape(some, minus)
        y, i = TopK<axis=1>(x, k)""",
    "a part": """
        some = Min(n, four)
        end = Reshape(some, minus)
        y = Slice(x, first, end, one1)""",
    "a border": """
        widths = Concat<axis=0>(two, first, two, n1)
        y = Pad(x, widths)""",
    "an image": """
        sides = Add(n1, one1)
        sizes = Concat<axis=0>(one1, one1, two, sides)
        image = Unsqueeze(x, first01)
        y = Resize<mode="linear">(image, , , sizes)""",
    "range": "y = Range(zero, n, one)",
    "range of floats": """
        a = Constant<value_float=1.5>()
        b = Cast<to=1>(n)
        c = Constant<value_float=0.25>()
        y = Range(a, b, c)""",
    "range of sizes as floats": """
        a = Constant<value_float=0.0>()
        r = Range(zero, n, one)
        s = Shape(r)
        last = Gather(s, zero)
        b = Cast<to=1>(last)
        c = Constant<value_float=1.0>()
        f = Range(a, b, c)
        g = Cast<to=1>(r)
        y = Sub(f, g)""",
    "backwards": """
        back = Constant<value_int=-2>()
        y = Range(n, zero, back)""",
    "filled": """
        shape = Concat<axis=0>(two, n1)
        y = ConstantOfShape<value=float[1]{2.5}>(shape)""",
    "expanded and joined": """
        wanted = Concat<axis=0>(n1, one1)
        e = Expand(x, wanted)
        row = ReduceSum<keepdims=0>(e, one1)
        r = Range(zero, n, one)
        f = Cast<to=1>(r)
        s = Add(row, f)
        y = Softmax<axis=0>(s)""",
    "tiled": """
        reps = Concat<axis=0>(n1, two)
        y = Tile(x, reps)""",
    "arithmetic": """
        twice = Add(n, n)
        more = Add(twice, one)
        r = Range(one, more, one)
        w = Concat<axis=0>(n1, two)
        y = Reshape(r, w)""",
    "a mask of lengths": """
        lengths = Concat<axis=0>(n1, two, two)
        longest = ReduceMax<keepdims=0>(lengths)
        r = Range(zero, longest, one)
        rows = Unsqueeze(lengths, one1)
        y = Less(r, rows)""",
}


def compiled_from(body: str) -> tuple[CompiledModel, onnxruntime.InferenceSession]:
    text = f"g (int64 n, float[1,4] x) => (y) {{{CONSTANTS} {body}}}"
    proto = onnx.parser.parse_model(HEAD + text)
    return graphc.compile(proto, threads=1), onnxruntime.InferenceSession(proto.SerializeToString())


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", BODIES)
def test_shapes_of_a_number_of_the_run(name: str, rng: np.random.Generator) -> None:
    model, session = compiled_from(BODIES[name])
    x = rng.standard_normal((1, 4)).astype(np.float32)
    for number in NUMBERS:
        feed = {"n": np.array(number), "x": x}
        (wanted,), (got,) = session.run(None, feed), model.run(None, feed)
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_numbers_that_are_no_size_are_refused() -> None:
    model, _ = compiled_from(BODIES["filled"])
    x = np.zeros((1, 4), np.float32)
    for number in (-1, 1 << 40):
        with pytest.raises(UserError, match=rf"the data decide, must be in 0\.\., got {number}"):
            model(np.array(number), x)


def test_ranges_to_a_negative_number_are_empty() -> None:
    both = """
        r = Range(zero, n, one)
        y = ConstantOfShape<value=int64[1]{5}>(n1)"""
    for body, is_right in ((BODIES["range"], True), (BODIES["arithmetic"], False), (both, False)):
        model, _ = compiled_from(body)
        feed = np.array(-3), np.zeros((1, 4), np.float32)
        if is_right:
            assert model(*feed).shape == (0,)
        else:  # another op takes the number itself for a size
            with pytest.raises(UserError, match=r"must be in 0\.\., got -3"):
                model(*feed)


ENDS = [(0, 3), (2, 2), (3, 1), (-3, -1), (-100, 100), (4, 10), (5, -9), (0, -1), (9, 12)]


@pytest.mark.parametrize("ends", ["s, e", "s, max1", "s1, e", "s2, e2"])
@pytest.mark.parametrize("step", [1, 2])
def test_ends_of_slices_that_the_data_decide(ends: str, step: int) -> None:
    text = f"""g (int64[1] s, int64[1] e, float[R,7] x) => (y) {{
        s1 = Constant<value_ints=[-3]>()
        max1 = Constant<value_ints=[{2**63 - 1}]>()
        six = Constant<value_ints=[6]>()
        s2 = Concat<axis=0>(s, s1)
        e2 = Concat<axis=0>(six, e)
        axes = Constant<value_ints={[0, 1] if "2" in ends else [1]}>()
        steps = Constant<value_ints={[step, step] if "2" in ends else [step]}>()
        y = Slice(x, {ends}, axes, steps) }}"""
    proto = onnx.parser.parse_model(HEAD + text)
    model = graphc.compile(proto, threads=1)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for rows, (start, end) in itertools.product((2, 5), ENDS):
        x = np.arange(7 * rows, dtype=np.float32).reshape(rows, 7)
        feed = {"s": np.array([start]), "e": np.array([end]), "x": x}
        (wanted,), (got,) = session.run(None, feed), model.run(None, feed)
        np.testing.assert_array_equal(got, wanted)


def test_an_op_that_needs_elements_is_checked_by_each_run() -> None:
    model, _ = compiled_from("""
        r = Range(zero, n, one)
        last = Constant<value_int=-1>()
        y = Gather(r, last)""")
    x = np.zeros((1, 4), np.float32)
    assert model(np.array(100), x) == 99
    with pytest.raises(UserError, match=r"must be in 1\.\., got 0"):
        model(np.array(0), x)


def test_branches_count_within_limits_only() -> None:
    with pytest.raises(UnsupportedError, match="depends on the model's inputs"):
        compiled_from("""
            b = Cast<to=9>(n)
            y = If(b) <
                then_branch = t () => (a) { a = Range(zero, n, one) },
                else_branch = e () => (c) { c = Range(zero, one, one) }
            >""")
