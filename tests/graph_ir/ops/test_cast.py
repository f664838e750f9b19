import math

import numpy as np
import pytest

from graphc.base.dtypes import F16, by_name
from graphc.base.errors import UserError
from support.check_op import ALL, FLOATS, INTEGERS, check_op, make_op, random_array, special_values


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("source", ALL)
def test_every_pair(source, target):
    result = check_op("cast", [special_values(source)], {"dtype": target})
    assert result.dtype == by_name(target).numpy


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_float_to_integer_truncates_and_saturates(source, target):
    x = special_values(source)
    limits = np.iinfo(by_name(target).numpy)

    def exact(value):
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return limits.max if value > 0 else limits.min
        return min(max(math.trunc(value), limits.min), limits.max)

    expected = [exact(float(v)) for v in x]
    check_op("cast", [x], {"dtype": target}, np.array(expected, by_name(target).numpy))


@pytest.mark.parametrize("target", INTEGERS)
def test_saturation_at_the_bounds(target):
    limits = np.iinfo(by_name(target).numpy)
    x = np.array(
        [float(limits.max) * 2, float(limits.min) * 2 - 2, float(limits.max), 2.0**63, 2.0**64]
    )
    clipped = [min(max(int(v), limits.min), limits.max) for v in x]
    check_op("cast", [x], {"dtype": target}, np.array(clipped, by_name(target).numpy))


@pytest.mark.parametrize("source", ALL)
def test_to_bool_is_a_test_for_non_zero(source):
    x = special_values(source)
    check_op("cast", [x], {"dtype": "bool"}, np.array([bool(v != 0) for v in x]))


def test_integers_wrap():
    x = np.array([-1, 255, 256, 384, -129], np.int32)
    check_op("cast", [x], {"dtype": "u8"}, np.array([255, 255, 0, 128, 127], np.uint8))
    check_op("cast", [x], {"dtype": "s8"}, np.array([-1, -1, 0, -128, 127], np.int8))


def test_f64_to_f16_rounds_once():
    # Through f32 the half would be hit exactly and go to even.
    x = np.array([1 + 2.0**-11 + 2.0**-40])
    check_op("cast", [x], {"dtype": "f16"}, np.array([1 + 2.0**-10], np.float16))


def test_takes_a_dtype_object():
    op = make_op("cast", [random_array("f32", (2,))], {"dtype": F16})
    assert op.outputs[0].details.dtype == F16


def test_rejects():
    x = random_array("f32", (2,))
    with pytest.raises(
        UserError, match=r"^cast 'x': attribute 'dtype' must be given, got no attributes$"
    ):
        make_op("cast", [x])
    with pytest.raises(UserError, match=r"^dtype 'f8' is not known; known are f64, "):
        make_op("cast", [x], {"dtype": "f8"})
