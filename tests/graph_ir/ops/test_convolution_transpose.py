from __future__ import annotations

import itertools

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ops.convolution_transpose import Phase, phases_of
from support.check_op import check_op, make_op, random_array
from support.compiled import check_native
from support.expressions import graph_from
from support.work import lines_run


def integers(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def slow_transpose(x, w, strides, dilations, before, after, extra, groups):
    """Every element of x adds the scaled weights to the result."""
    rank, sizes = x.ndim - 2, x.shape[2:]
    inner, outputs = w.shape[0] // groups, w.shape[1]
    full = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, s, k, d, e in zip(sizes, strides, w.shape[2:], dilations, extra, strict=True)
    ]
    y = np.zeros((x.shape[0], outputs * groups, *full), x.dtype)
    for n, c, *i in np.ndindex(*x.shape):
        for o, *k in np.ndindex(*w.shape[1:]):
            at = tuple(i[a] * strides[a] + k[a] * dilations[a] for a in range(rank))
            y[(n, c // inner * outputs + o, *at)] += x[(n, c, *i)] * w[(c, o, *k)]
    crop = tuple(slice(b, f - a) for b, f, a in zip(before, full, after, strict=True))
    return y[(slice(None), slice(None), *crop)]


def transposed_cases():
    for strides, dilations, groups, extra in itertools.product(
        [(1, 1), (2, 3)], [(1, 1), (2, 1)], [1, 2], [(0, 0), (1, 0)]
    ):
        if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)):
            continue
        yield {
            "strides": strides, "dilations": dilations, "before": (1, 0), "after": (0, 1),
            "output_padding": extra, "groups": groups,
        }  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("attrs", list(transposed_cases()))
def test_transpose(attrs):
    x, w = integers((2, 4, 3, 4)), integers((4, 3, 3, 2), seed=1)
    geometry = {name: value for name, value in attrs.items() if name != "output_padding"}
    expected = slow_transpose(x, w, extra=attrs["output_padding"], **geometry)
    np.testing.assert_array_equal(check_native("convolution_transpose", [x, w], attrs), expected)


@pytest.mark.parametrize("dtype", ["s32", "f16", "f64"])
def test_transpose_dtypes(dtype):
    x, w = random_array(dtype, (1, 2, 3)), random_array(dtype, (2, 1, 3), 1)
    check_op("convolution_transpose", [x, w], {"strides": (2,), "before": (2,)}, factor=8)


def test_transpose_of_no_channels_is_zero():
    arrays = [np.ones(s, np.float32) for s in ((1, 0, 3), (0, 2, 2))]
    assert not check_native("convolution_transpose", arrays, {}).any()


@pytest.mark.parametrize(
    ("w", "attrs", "message"),
    [
        ((3, 2, 3), {}, "w must have the channels of x on axis 0, got f32[3,2,3] for 4"),
        ((4, 2, 3), {"groups": 3}, "groups must divide the channels, got 3 groups of 4"),
        ((4, 2, 3), {"before": (7,)}, "the result must have elements, got [0]"),
        ((4, 2, 3), {"output_padding": (1,)},
         "output_padding must be below the stride or the dilation on each spatial axis, got [1] with strides [1]"),
    ],
)  # fmt: skip
def test_transpose_rejects(w, attrs, message):
    with pytest.raises(UserError) as error:
        make_op("convolution_transpose", [integers((1, 4, 5)), integers(w)], attrs)
    assert str(error.value) == f"convolution_transpose 'x': {message}"


def test_phases_of_an_axis():
    assert phases_of(range(4), 2, 1, 1) == [[Phase((3, 1), -1)], [Phase((2, 0), 0)]]
    assert phases_of(range(2), 2, 1, 0) == [[Phase((0,), 0), Phase((1,), 0)]]
    assert phases_of(range(1), 3, 1, 0) == [[Phase((0,))], [Phase(()), Phase(())]]
    assert phases_of(range(3), 2, 2, 0) == [[Phase((2, 1, 0), -2)], [Phase(())]]
    assert phases_of(range(3), 1, 4, 0) == [[Phase((2, 1, 0), -8, 4)]]
    assert [len(run) for run in phases_of(range(64), 32, 1, 16)] == [16, 16], "two windows of x"


def test_the_work_of_phases_does_not_grow_with_the_stride():
    found: list[list[Phase]] = []
    lines = lines_run(lambda: found.extend(phases_of(range(3), 10**6, 5, 1)))
    assert sum(lines.values()) < 100
    runs = [(len(run), run[0].taps) for run in found]
    assert runs == [(4, ()), (1, (1,)), (4, ()), (1, (2,)), (999_989, ()), (1, (0,))]


def large_cases():
    """(image, weights, attributes): steps above the window, more than a phase per convolution, three axes, cropping."""
    yield (1, 2, 3, 2), (2, 3, 1, 2), {"strides": (3, 4)}
    yield (2, 4, 5), (4, 2, 8), {"strides": (4,), "before": (2,), "after": (2,), "groups": 2}
    yield (1, 3, 2, 3, 2), (3, 2, 2, 3, 4), {"strides": (2, 2, 3), "before": (1, 0, 2)}
    yield (1, 2, 4, 4), (2, 2, 4, 4), {"strides": (2, 2), "before": (3, 3), "after": (3, 2)}
    yield (1, 2, 3), (2, 2, 3), {"strides": (4,), "dilations": (2,), "output_padding": (3,)}
    yield (1, 6, 1, 1), (6, 3, 4, 4), {"groups": 2}
    yield (
        (2, 4, 1, 3),
        (4, 3, 5, 2),
        {"strides": (2, 1), "dilations": (2, 1), "before": (3, 0), "after": (2, 1)},
    )
    yield (
        (1, 2, 1),
        (2, 3, 3),
        {"strides": (2,), "dilations": (2,), "output_padding": (1,), "after": (1,)},
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize(("x", "w", "attrs"), list(large_cases()))
def test_phases(x, w, attrs):
    rank = len(x) - 2
    full = {"strides": (1,) * rank, "dilations": (1,) * rank, "before": (0,) * rank,
            "after": (0,) * rank, "extra": (0,) * rank, "groups": 1}  # fmt: skip
    arrays = integers(x), integers(w, seed=1)
    given = {("extra" if name == "output_padding" else name): v for name, v in attrs.items()}
    wanted = slow_transpose(*arrays, **full | given)
    np.testing.assert_array_equal(
        check_native("convolution_transpose", list(arrays), attrs), wanted
    )


def test_phases_with_one_window_are_one_convolution():
    shapes = {"x": (1, 8, 6, 6), "w": (8, 4, 2, 2)}
    graph = graph_from("convolution_transpose(x, w, strides=(2, 2))", **shapes)
    kernels = [call.kernel for call in compile_stages(graph, "avx2").lowered.calls]
    assert sum("conv" in name or "gemm" in name for name in kernels) == 1


def test_one_element_is_a_matmul_with_the_elements_of_the_window_that_are_kept():
    """Padding it for a window of stride 1 would multiply 16 elements for each one of the result."""
    shapes = {"x": (1, 24, 1, 1), "w": (24, 8, 4, 4)}
    graph = graph_from("convolution_transpose(x, w, before=(1, 0))", **shapes)
    kernels = [call.kernel for call in compile_stages(graph, "avx2").lowered.calls]
    multiplied = [name for name in kernels if "conv" in name or "gemm" in name]
    assert multiplied == kernels[-1:] and "c24i1x1o96r1x1k1x1" in kernels[-1]
    # Before it, the rows that are kept and their order; a core family may prefer weights that are packed, too.
    assert len(kernels) == (4 if "image" in kernels[-1] else 3)
