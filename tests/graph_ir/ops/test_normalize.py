import numpy as np
import pytest

from graphc.base.errors import UserError
from support.check_op import FLOATS, check_op, make_op, random_array


def _standard(x, axes, epsilon=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("axis", "axes"), [(-1, (2,)), (1, (1, 2)), (0, (0, 1, 2))])
def test_layer_norm(axis, axes, dtype):
    x = random_array(dtype, (2, 3, 4))
    scale, bias = (
        random_array(dtype, x.shape[axes[0] :], 1),
        random_array(dtype, x.shape[axes[0] :], 2),
    )
    attrs = {"axis": axis, "epsilon": 1e-3}
    check_op("layer_norm", [x], attrs, lambda x: _standard(x, axes, 1e-3), factor=8)
    check_op("layer_norm", [x, scale], attrs, lambda x, s: _standard(x, axes, 1e-3) * s, factor=8)

    def affine(x, s, b):
        return _standard(x, axes, 1e-3) * s + b

    check_op("layer_norm", [x, scale, bias], attrs, affine, factor=8)


def test_16_bit_floats_are_normalized_in_f32():
    # A mean of 100 with deviations of 0.5 would lose them in bf16.
    x = np.tile(np.array([99.5, 100.5]), 8).astype(random_array("bf16", ()).dtype)
    check_op("layer_norm", [x], {"epsilon": 0.0}, np.tile(np.array([-1, 1]), 8))


@pytest.mark.parametrize("dtype", FLOATS)
def test_rms_norm(dtype):
    x, scale = random_array(dtype, (3, 7)), random_array(dtype, (7,), 1)

    def formula(x, s=1.0):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * s

    check_op("rms_norm", [x], {}, formula, factor=8)
    check_op("rms_norm", [x, scale], {}, formula, factor=8)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_group_norm(groups, dtype):
    x = random_array(dtype, (2, 4, 3, 2))
    scale, bias = random_array(dtype, (4,), 1), random_array(dtype, (4,), 2)

    def formula(x, s, b):
        y = _standard(x.reshape(2, groups, -1), (2,)).reshape(x.shape)
        return y * s.reshape(4, 1, 1) + b.reshape(4, 1, 1)

    check_op("group_norm", [x, scale, bias], {"groups": groups}, formula, factor=16)


@pytest.mark.parametrize("dtype", FLOATS)
def test_instance_norm(dtype):
    x = random_array(dtype, (2, 3, 5))
    check_op("instance_norm", [x], {}, lambda x: _standard(x, (2,)), factor=16)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 4), 1), ((2, 4, 3), -1), ((2, 3), 1)])
def test_batch_norm(shape, axis, dtype):
    x = random_array(dtype, shape)
    scale, bias, mean = (random_array(dtype, (3,), seed) for seed in (1, 2, 3))
    variance = np.abs(random_array(dtype, (3,), 4)) + mean.dtype.type(1)

    def formula(x, s, b, m, v):
        lined = [3 if i == axis % len(shape) else 1 for i in range(len(shape))]
        s, b, m, v = (p.reshape(lined) for p in (s, b, m, v))
        return (x - m) / np.sqrt(v + 0.5) * s + b

    attrs = {"axis": axis, "epsilon": 0.5}
    check_op("batch_norm", [x, scale, bias, mean, variance], attrs, formula, factor=8)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "group_norm", "instance_norm"])
@pytest.mark.parametrize("shape", [(2, 0), (0, 2), (1, 1)])
def test_boundary_shapes(name, shape):
    check_op(name, [random_array("f32", shape)], factor=4)


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "message"),
    [
        ("layer_norm", [(2, 3), (2,)], {}, "layer_norm 'x': scale must broadcast to x, got f32[2] and f32[2,3]"),
        ("layer_norm", [(2, 3)], {"axis": 2}, "layer_norm 'x': axis must be in [-2, 2), got 2"),
        ("rms_norm", [(2, 3)] * 3, {}, "rms_norm 'x': inputs must be x, scale?, got 3 inputs"),
        ("group_norm", [(2, 3)], {"groups": 2},
         "group_norm 'x': channels must split evenly into groups, got C=3 and 2"),
        ("instance_norm", [(3,)], {}, "instance_norm 'x': x must have a batch and a channel axis, got f32[3]"),
        ("batch_norm", [(2, 3)], {}, "batch_norm 'x': inputs must be x, scale, bias, mean, variance, got 1 inputs"),
        ("batch_norm", [(2, 3), (3,), (3,), (2,), (3,)], {}, "batch_norm 'x': mean must have shape [3], got f32[2]"),
    ],
)  # fmt: skip
def test_rejects(name, shapes, attrs, message):
    with pytest.raises(UserError) as error:
        make_op(name, [random_array("f32", shape) for shape in shapes], attrs)
    assert str(error.value) == message


def test_rejects_integers_and_mixed_dtypes():
    with pytest.raises(
        UserError,
        match=r"^layer_norm 'x': inputs must have one float dtype, got s8; insert a cast$",
    ):
        make_op("layer_norm", [random_array("s8", (2,))])
    with pytest.raises(
        UserError, match=r"must have one float dtype, got f16 and f32; insert a cast$"
    ):
        make_op("rms_norm", [random_array("f16", (2,)), random_array("f32", (2,))])
