"""Operators whose results have as many rows as a run finds, beside ONNX Runtime, in fixed and open models."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import onnxruntime
import pytest

import graphc

Feeds = dict[str, np.ndarray]
HEAD = '<ir_version: 8, opset_import: ["": 17]>'


def check(body: str, feeds: list[Feeds]) -> graphc.runtime.executor.CompiledModel:
    model = onnx.parser.parse_model(HEAD + body)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = graphc.compile(model, threads=1)
    for feed in feeds:
        for wanted, got in zip(session.run(None, feed), compiled.run(None, feed), strict=True):
            assert got.shape == wanted.shape and got.dtype == wanted.dtype
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    return compiled


def sparse(rng: np.random.Generator, *shape: int) -> list[Feeds]:
    """None, some and all of the elements are not 0."""
    return [{"x": (rng.random(shape) < share).astype(np.float32)} for share in (0, 0.4, 1)]


def test_elements_and_rows_that_are_chosen(rng: np.random.Generator) -> None:
    compiled = check(
        """g (float[N,6] x) => (int64[2,K] at, float[K] y, float[M,6] rows, int64[1] size) {
            at = NonZero(x)
            tuples = Transpose<perm=[1,0]>(at)
            y = GatherND(x, tuples)
            means = ReduceMean<axes=[1], keepdims=0>(x)
            half = Constant<value_float=0.5>()
            mask = Greater(means, half)
            chosen = Compress<axis=0>(x, mask)
            rows = Softmax<axis=1>(chosen)
            size = Shape<end=1>(rows)
        }""",
        [*sparse(rng, 1, 6), *sparse(rng, 9, 6)],
    )
    assert str(compiled.outputs[0]) == "at: s64[2,K]"


def boxes(rng: np.random.Generator, images: int, classes: int, count: int) -> Iterator[Feeds]:
    for most, overlap, least in ((0, 0.5, 0.0), (2, 0.3, 0.5), (99, 0.6, -1.0)):
        yield {
            "boxes": rng.random((images, count, 4)).astype(np.float32),
            "scores": rng.random((images, classes, count)).astype(np.float32),
            "most": np.array([most]),
            "overlap": np.array([overlap], np.float32),
            "least": np.array([least], np.float32),
        }


@pytest.mark.parametrize("centered", [0, 1])
def test_boxes_that_do_not_overlap_better_ones(centered: int, rng: np.random.Generator) -> None:
    sizes = (1, 1, 1), (1, 2, 6), (2, 3, 20)
    check(
        f"""g (float[B,N,4] boxes, float[B,C,N] scores, int64[1] most, float[1] overlap,
               float[1] least) => (int64[K,3] y, float[L,4] chosen) {{
            y = NonMaxSuppression<center_point_box={centered}>(boxes, scores, most, overlap, least)
            two = Constant<value_ints=[0,2]>()
            at = Gather<axis=1>(y, two)
            chosen = GatherND(boxes, at)
        }}""",
        [feed for size in sizes for feed in boxes(rng, *size)],
    )


@pytest.mark.parametrize("count", ["9", "N"])
@pytest.mark.parametrize("most", [2**63 - 1, 2**31 - 1])
def test_a_number_without_limit_means_all(most: int, count: str, rng: np.random.Generator) -> None:
    """The limit of NonMaxSuppression, also in a branch, and the end of a slice."""
    nms = "NonMaxSuppression(boxes, scores, most, overlap)"
    check(
        f"""g (float[1,{count},4] boxes, float[1,2,{count}] scores, bool some)
            => (int64[K,3] y, int64[L,3] z, float[1,2,M] tail) {{
            most = Constant<value_ints=[{most}]>()
            overlap = Constant<value_floats=[0.3]>()
            y = {nms}
            z = If(some) <then_branch = t () => (int64[A,3] picked) {{ picked = {nms} }},
                else_branch = e () => (int64[B,3] none) {{
                    shape = Constant<value_ints=[0,3]>()
                    none = ConstantOfShape<value=int64[1] {{0}}>(shape) }}>
            two = Constant<value_ints=[2]>()
            tail = Slice(scores, two, most, two)
        }}""",
        [
            {
                "boxes": rng.random((1, 9, 4)).astype(np.float32),
                "scores": rng.random((1, 2, 9)).astype(np.float32),
                "some": np.array(some),
            }
            for some in (True, False)
        ],
    )


@pytest.mark.parametrize("is_sorted", [0, 1])
def test_distinct_elements(is_sorted: int, rng: np.random.Generator) -> None:
    check(
        f"""g (float[30] x) => (float[K] y, int64[K] first, int64[30] inverse, int64[K] counts) {{
            y, first, inverse, counts = Unique<sorted={is_sorted}>(x)
        }}""",
        [{"x": rng.integers(0, kinds, 30).astype(np.float32)} for kinds in (1, 5, 1000)],
    )


@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_distinct_slices(axis: int | None, is_sorted: int, rng: np.random.Generator) -> None:
    attributes = f"sorted={is_sorted}" + (f", axis={axis}" if axis is not None else "")
    dims = "9,3,2" if axis else "N,3,2"
    feeds = [rng.integers(0, 2, (9 if axis else rows, 3, 2)) for rows in (9, 1, 40)]
    check(
        f"""g (float[{dims}] x) => (y, first, inverse, counts) {{
            y, first, inverse, counts = Unique<{attributes}>(x)
        }}""",
        [{"x": x.astype(np.float32)} for x in feeds],
    )


LOOP = """g (float[4] x, float end, int64 rounds) => (float[4] last, float[K,4] rows) {
    start = Constant<value_int=1>()
    going = Cast<to=9>(start)
    most = Constant<value_int=10>()
    last, rows = Loop(most, going, x) <body = b (int64 i, bool c, float[4] s) => (bool go, float[4] t, float[4] row) {
        t = Add(s, s)
        row = Identity(t)
        greatest = ReduceMax<keepdims=0>(t)
        go = Less(greatest, end)
    }>
}"""


def test_rows_of_a_loop_that_ends_when_it_wants() -> None:
    feeds = [
        {"x": np.ones(4, np.float32), "end": np.array(end, np.float32), "rounds": np.array(3)}
        for end in (0, 5, 1e9)
    ]
    check(LOOP, feeds)
    check(LOOP.replace("Loop(most,", "Loop(rounds,"), feeds)
