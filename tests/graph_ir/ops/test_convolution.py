from __future__ import annotations

import numpy as np
import pytest

from graphc.base.errors import UserError
from support.check_op import ALL, check_op, make_op, random_array
from support.compiled import check_native


def integers(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def slow_convolution(x, w, strides=None, dilations=None, before=None, after=None, groups=1):
    """The definition, one result at a time, on any number of spatial axes."""
    rank = x.ndim - 2
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    before, after = before or (0,) * rank, after or (0,) * rank
    padded = np.pad(x, [(0, 0), (0, 0), *zip(before, after, strict=True)])
    extents = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    room = [n - e for n, e in zip(padded.shape[2:], extents, strict=True)]
    sizes_out = [r // s + 1 for r, s in zip(room, strides, strict=True)]
    inner, per_group = w.shape[1], w.shape[0] // groups
    y = np.zeros((x.shape[0], w.shape[0], *sizes_out), x.dtype)
    for o, *pixel in np.ndindex(*y.shape[1:]):
        at = [p * s for p, s in zip(pixel, strides, strict=True)]
        window = tuple(slice(a, a + e, d) for a, e, d in zip(at, extents, dilations, strict=True))
        first = o // per_group * inner
        seen = padded[(slice(None), slice(first, first + inner), *window)]
        y[(slice(None), o, *pixel)] = (seen * w[o]).sum(tuple(range(1, x.ndim)))
    return y


def cases(count: int, seed: int):
    """Random points of the boundary grid: image 1..9, channels 1, 3, 8, 9, kernels 1..5, steps, pads, groups."""
    rng = np.random.default_rng(seed)
    while count:
        groups = int(rng.choice([1, 1, 2, 3]))
        inner, outer = (int(v) for v in rng.choice([1, 3, 8, 9], 2))
        size, kernel = rng.integers(1, 10, 2), rng.integers(1, 6, 2)
        strides, dilations = rng.integers(1, 4, 2), rng.integers(1, 3, 2)
        before, after = rng.integers(0, 3, 2), rng.integers(0, 3, 2)
        if ((kernel - 1) * dilations + 1 > size + before + after).any():
            continue
        count -= 1
        attrs = {"strides": strides, "dilations": dilations, "before": before, "after": after}
        geometry = {name: tuple(int(v) for v in value) for name, value in attrs.items()}
        x = integers((int(rng.integers(1, 3)), groups * inner, *size), seed=count)
        w = integers((groups * outer, inner, *kernel), seed=count + 1)
        yield x, w, {**geometry, "groups": groups}


@pytest.mark.parametrize("seed", range(8))
def test_reference_is_the_definition(seed):
    for x, w, attrs in cases(12, seed):
        (result,) = make_op("convolution", [x, w], attrs).reference([x, w])
        np.testing.assert_array_equal(result, slow_convolution(x, w, **attrs))


def test_native_is_the_reference():
    for x, w, attrs in cases(30, 100):
        check_native("convolution", [x, w], attrs)


@pytest.mark.parametrize("dtype", ALL)
def test_dtypes(dtype):
    x = random_array(dtype, (1, 2, 4))
    w = random_array(dtype, (2, 2, 2), 1)
    check_op("convolution", [x, w], {"before": (1,), "strides": (2,)}, factor=8)


@pytest.mark.parametrize("dtype", ["s32", "u8", "bf16", "f64", "bool"])
def test_native_dtypes(dtype):
    arrays = [integers((2, 4, 5, 6)).clip(0), integers((6, 2, 3, 2), seed=1).clip(0)]
    arrays = [a.astype(random_array(dtype, ()).dtype) for a in arrays]
    check_native("convolution", arrays, {"before": (1, 0), "after": (0, 2), "groups": 2})


@pytest.mark.exhaustive
@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize("rank", [1, 3])
def test_ranks_and_depthwise(rank, groups):
    x, w = (
        integers((2, 8, *(4, 5, 6)[:rank])),
        integers((8, 8 // groups, *(2, 3, 1)[:rank]), seed=1),
    )
    attrs = {"groups": groups, "before": (1,) * rank, "strides": (2, 1, 3)[:rank]}
    expected = slow_convolution(x, w, **attrs)
    np.testing.assert_array_equal(check_native("convolution", [x, w], attrs), expected)


def test_padding_is_zeros_that_infinite_weights_turn_to_nan():
    x, w = np.ones((1, 1, 1), np.float32), np.full((1, 1, 3), np.inf, np.float32)
    result = check_op("convolution", [x, w], {"before": (1,), "after": (1,)})
    assert np.isnan(result).all()


@pytest.mark.parametrize(
    "shapes", [((0, 2, 3), (4, 2, 2)), ((2, 0, 3), (4, 0, 2)), ((2, 2, 3), (0, 2, 2))]
)
def test_nothing_in_or_out(shapes):
    arrays = [np.ones(s, np.float32) for s in shapes]
    np.testing.assert_array_equal(
        check_native("convolution", arrays, {}), slow_convolution(*arrays)
    )


def test_work():
    op = make_op("convolution", [integers((1, 4, 9, 9)), integers((8, 2, 3, 3))], {"groups": 2})
    assert op.get_gflop() == 2 * 8 * 7 * 7 * 2 * 9 / 1e9


@pytest.mark.parametrize(
    ("x", "w", "attrs", "message"),
    [
        ((1, 4, 5), (6, 1, 3), {"groups": 3},
         "groups must divide the channels of x and of the result, got 3 groups of 4 and 6 channels"),
        ((1, 4, 5), (6, 3, 3), {},
         "w must have the channels of one group of x on axis 1, got f32[6,3,3] for 4 channels in 1 groups"),
        ((1, 4, 5), (6, 4, 3), {"dilations": (3,), "before": (1,)},
         "the window must fit into the padded input on axis 0 of 1, got 7 elements in 1 + 5 + 0"),
        ((1, 4, 0), (6, 4, 3), {"before": (3,)}, "the axes a window slides over must have elements, got [0]"),
        ((1, 4, 5), (6, 4, 3), {"strides": (0,)}, "strides must be 1 or more, got [0]"),
        ((1, 4, 5), (6, 4, 3), {"after": (-1,)}, "after must be 0 or more, got [-1]"),
        ((1, 4, 5), (6, 4, 3), {"after": (1, 1)},
         "after must have one entry for each of the 1 window axes, got [1, 1]"),
        ((1, 4, 5), (6, 4, 0), {}, "kernel must be 1 or more, got [0]"),
        ((4, 5), (6, 4), {}, "x and w must have a common rank: two axes and at least one spatial axis, "
         "got f32[4,5] and f32[6,4]"),
    ],
)  # fmt: skip
def test_rejects(x, w, attrs, message):
    with pytest.raises(UserError) as error:
        make_op("convolution", [integers(x), integers(w)], attrs)
    assert str(error.value) == f"convolution 'x': {message}"


# --- im2col --------------------------------------------------------------------------------------------------------


def test_im2col():
    x = integers((1, 2, 5), np.int32)
    attrs = {"kernel": (3,), "strides": (2,), "before": (1,)}
    padded = np.pad(x, [(0, 0), (0, 0), (1, 0)])
    expected = np.stack([padded[..., k : k + 4 : 2] for k in range(3)], 2)
    check_op("im2col", [x], attrs, expected)
    check_native("im2col", [x], attrs)


def test_im2col_takes_a_window_of_every_axis_and_of_no_more():
    x = integers((5,))
    check_op("im2col", [x], {"kernel": (2,)}, np.stack([x[:-1], x[1:]]))
    check_native("im2col", [x], {"kernel": (2,)})
    with pytest.raises(
        UserError, match="kernel must have one entry or more, and no more than x has axes"
    ):
        make_op("im2col", [x], {"kernel": (2, 1)})
