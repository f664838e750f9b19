import math

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.graph_ir.ir.computation import Pointwise
from graphc.graph_ir.ir.op_kinds import FusibleOp
from graphc.graph_ir.ops.reduce import ROWS
from support.check_op import ALL, FLOATS, INTEGERS, check_op, make_op, random_array

# Each as a function of the list of the reduced elements.
FLOAT_MEANINGS = {
    "reduce_sum": math.fsum,
    "reduce_mean": lambda v: math.fsum(v) / len(v),
    "reduce_max": max,
    "reduce_min": min,
    "reduce_prod": math.prod,
    "reduce_l1": lambda v: math.fsum(map(abs, v)),
    "reduce_l2": lambda v: math.sqrt(math.fsum(x * x for x in v)),
    "reduce_sum_square": lambda v: math.fsum(x * x for x in v),
}
INTEGER_MEANINGS = {
    "reduce_sum": sum,
    "reduce_mean": lambda v: int(sum(v) / len(v)),
    "reduce_max": max,
    "reduce_min": min,
    "reduce_prod": math.prod,
    "reduce_l1": lambda v: sum(map(abs, v)),
    "reduce_sum_square": lambda v: sum(x * x for x in v),
}
BOOL_MEANINGS = {"reduce_any": any, "reduce_all": all, "reduce_max": any, "reduce_min": all}


def reduced(meaning, x, axes, keep_dims):
    """`meaning` of every list of elements that differ in `axes` only, wrapped to the dtype."""
    others = [axis for axis in range(x.ndim) if axis not in axes]
    rows = x.transpose(*others, *axes).reshape(*(x.shape[a] for a in others), -1)
    wide = rows.astype(np.float64) if x.dtype.kind not in "iub" else rows
    result = np.empty(rows.shape[:-1], object)
    for index in np.ndindex(*result.shape):
        result[index] = meaning(wide[index].tolist())
        if x.dtype.kind in "iu":
            bits = x.dtype.itemsize * 8
            result[index] %= 1 << bits
            if x.dtype.kind == "i" and result[index] >= 1 << (bits - 1):
                result[index] -= 1 << bits
    shape = [1 if a in axes else size for a, size in enumerate(x.shape)]
    return (result.reshape(shape) if keep_dims else result).astype(x.dtype)


def test_every_op_of_the_family_is_checked():
    assert {*FLOAT_MEANINGS, *BOOL_MEANINGS, "reduce_log_sum"} == {row.name for row in ROWS}


@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("name", FLOAT_MEANINGS)
def test_axes(name, axes, keep_dims):
    x = random_array("f32", (2, 3, 5))
    expected = reduced(FLOAT_MEANINGS[name], x, axes, keep_dims)
    attrs = {"axes": axes, "keep_dims": keep_dims}
    check_op(name, [x], attrs, expected, factor=30)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FLOAT_MEANINGS)
def test_float(name, dtype):
    x = random_array(dtype, (3, 7))
    expected = reduced(FLOAT_MEANINGS[name], x, (1,), False)
    check_op(name, [x], {"axes": (1,)}, expected, factor=30)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", INTEGER_MEANINGS)
def test_integer(name, dtype):
    x = random_array(dtype, (3, 7)) * 11
    check_op(name, [x], {"axes": (1,)}, reduced(INTEGER_MEANINGS[name], x, (1,), False))


@pytest.mark.parametrize("name", BOOL_MEANINGS)
def test_bool(name):
    x = np.array([[0, 0], [0, 1], [1, 1]], bool)
    expected = [BOOL_MEANINGS[name](row) for row in x.tolist()]
    check_op(name, [x], {"axes": (1,)}, np.array(expected))


def test_log_sum():
    x = np.abs(random_array("f32", (4, 6)))
    check_op("reduce_log_sum", [x], {"axes": (1,)}, lambda x: np.log(x.sum(axis=1)), factor=4)


def test_axes_default_to_all_and_may_be_negative():
    x = random_array("s32", (2, 3))
    check_op("reduce_sum", [x], {}, np.int32(x.sum()))
    check_op("reduce_sum", [x], {"axes": None, "keep_dims": True}, np.array([[x.sum()]], np.int32))
    check_op("reduce_sum", [x], {"axes": (-1,)}, x.sum(axis=1, dtype=np.int32))
    check_op("reduce_sum", [np.array(3.0)], {"axes": None}, np.array(3.0))


@pytest.mark.parametrize("name", [row.name for row in ROWS])
def test_no_axes_is_pointwise(name):
    kind = "bool" if name in ("reduce_any", "reduce_all") else "f32"
    x = random_array(kind, (2, 3))
    x = np.abs(x) if name == "reduce_log_sum" else x
    op = make_op(name, [x], {"axes": ()})
    assert isinstance(op, FusibleOp) and isinstance(op.computation(), Pointwise)
    assert check_op(name, [x], {"axes": ()}, factor=4).shape == (2, 3)


@pytest.mark.parametrize(
    ("name", "dtype", "value"),
    [
        ("reduce_sum", "f32", 0), ("reduce_prod", "s8", 1), ("reduce_max", "f32", -np.inf), ("reduce_min", "s8", 127),
        ("reduce_max", "u8", 0), ("reduce_max", "s64", -(2**63)), ("reduce_mean", "f32", np.nan),
        ("reduce_mean", "s32", 0), ("reduce_any", "bool", False), ("reduce_all", "bool", True),
        ("reduce_min", "bool", True), ("reduce_min", "bf16", np.inf),
    ],
)  # fmt: skip
def test_over_nothing_gives_the_identity(name, dtype, value):
    x = random_array(dtype, (2, 0))
    check_op(name, [x], {"axes": (1,)}, np.full((2,), value).astype(x.dtype))


@pytest.mark.parametrize("name", ["reduce_max", "reduce_min"])
def test_nan_wins(name):
    x = np.array([[1, np.nan, 2], [np.nan, np.inf, -np.inf], [1, 2, 3]], np.float32)
    result = check_op(name, [x], {"axes": (1,)})
    assert np.isnan(result).tolist() == [True, True, False]


def test_16_bit_floats_accumulate_in_f32():
    x = np.full((4096,), 1, random_array("bf16", ()).dtype)
    assert float(check_op("reduce_sum", [x])) == 4096


def test_integer_mean_does_not_overflow_and_truncates():
    x = np.array([[127, 127, 126], [-127, -127, -126]], np.int8)
    check_op("reduce_mean", [x], {"axes": (1,)}, np.array([126, -126], np.int8))


@pytest.mark.parametrize("dtype", ALL)
def test_every_dtype_has_max(dtype):
    x = random_array(dtype, (3, 4))
    check_op("reduce_max", [x], {"axes": (0,)}, x.max(axis=0))


@pytest.mark.parametrize(
    ("name", "dtype", "axes", "message"),
    [
        ("reduce_sum", "f32", (2,), "reduce_sum 'x': axis must be in [-2, 2), got 2"),
        ("reduce_sum", "f32", (0, -2), "reduce_sum 'x': axes must be distinct, got (0, 0)"),
        ("reduce_sum", "bool", (0,),
         "reduce_sum 'x': input dtype must be a float or an integer, got bool; insert a cast"),
        ("reduce_any", "f32", (0,), "reduce_any 'x': input dtype must be bool, got f32; insert a cast"),
        ("reduce_l2", "s8", (0,), "reduce_l2 'x': input dtype must be a float, got s8; insert a cast"),
    ],
)  # fmt: skip
def test_rejects(name, dtype, axes, message):
    with pytest.raises(UserError) as error:
        make_op(name, [random_array(dtype, (2, 3))], {"axes": axes})
    assert str(error.value) == message


def test_integer_means_of_a_sum_at_the_end_of_the_range():
    x = np.array([[-(2**62), -(2**62), 0]], np.int64)
    check_op("reduce_mean", [x], {"axes": (1,)}, np.array([-3074457345618258602]))
