"""Literals to arrays and back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from graphc.base.dtypes import DType, from_numpy
from graphc.base.errors import UserError
from graphc.frontend.hlo.literal_text import LARGE, write_literal
from graphc.frontend.hlo.literals import parse_literal
from graphc.frontend.hlo.shapes import HLO_NAMES, NUMPY, Shape, tuple_shape


@pytest.mark.parametrize(
    ("text", "shape", "value"),
    [
        ("1.5", Shape("f32"), 1.5),
        ("-0", Shape("f32"), -0.0),
        ("3", Shape("bf16"), 3.0),
        ("true", Shape("pred"), True),
        ("18446744073709551615", Shape("u64"), 2**64 - 1),
        ("-9223372036854775808", Shape("s64"), -(2**63)),
        ("{5}", Shape("s32", (1,)), [5]),
        ("{ { 1, 2 }, { 3, 4 } }", Shape("f64", (2, 2)), [[1, 2], [3, 4]]),
        ("{ {1 2} /*i0=1*/ {3 4} }", Shape("s8", (2, 2)), [[1, 2], [3, 4]]),
        ("f32[2,2] {{1,2},{3,4}}", Shape("f32", (2, 2)), [[1, 2], [3, 4]]),
        ("{1, 0, true}", Shape("pred", (3,)), [True, False, True]),
        ("{}", Shape("f32", (0,)), np.zeros(0)),
        ("{ { }, { } }", Shape("f32", (2, 0)), np.zeros((2, 0))),
        ("{ }", Shape("f32", (0, 3)), np.zeros((0, 3))),
        ("(1, -2)", Shape("c64"), 1 - 2j),
        ("7", Shape("c64"), 7),
        ("1", Shape("f32", (2, 3)), np.ones((2, 3))),
        ("-1", Shape("u64"), 2**64 - 1),
        (
            "{(1, inf), (-inf, -0)}",
            Shape("c128", (2,)),
            [complex(1, np.inf), complex(-np.inf, -0.0)],
        ),
        ("{ { nan(0x1) }, { inf } }", Shape("f64", (2, 1)), [[np.nan], [np.inf]]),
        ("{1, -inf, nan}", Shape("f16", (3,)), [1, -np.inf, np.nan]),
    ],
)
def test_values(text: str, shape: Shape, value: object) -> None:
    literal = parse_literal(text, shape)
    assert isinstance(literal.value, np.ndarray)
    assert literal.value.dtype == NUMPY[shape.type]
    np.testing.assert_array_equal(literal.value, np.asarray(value, NUMPY[shape.type]))
    assert np.array_equal(np.signbit(literal.value.real), np.signbit(np.asarray(value).real))


def test_payloads_tuples_and_elided() -> None:
    nan = parse_literal("-nan(0x7fc01)", Shape("f32")).value
    assert isinstance(nan, np.ndarray)
    assert nan.view(np.uint32) == 0xFF87FC01
    small = parse_literal("nan(0x1)", Shape("bf16")).value
    assert isinstance(small, np.ndarray)
    assert small.view(np.uint16) == 0x7F81
    shape = tuple_shape((Shape("s32"), tuple_shape((Shape("f32", (2,)), Shape("pred")))))
    pair: Any = parse_literal("(1, ({2, 3}, true))", shape).value
    first, second = pair
    assert first.value == 1
    np.testing.assert_array_equal(second.value[0].value, [2, 3])
    assert parse_literal("{...}", Shape("f32", (3, 4))).is_elided
    assert parse_literal("{1, 2, ...}", Shape("f32", (30,))).is_elided
    assert not parse_literal("1", Shape("f32")).is_elided


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("{5}", Shape("s32"), "a literal must have the structure of s32[], got '{' after 0 elements"),
        ("5", Shape("s32", (1 << 30,)), "a literal must not exceed 134217728 elements, got 1073741824"),
        ("{{}}", Shape("s32", (0,)), "a literal must have the structure of s32[0], got braces nested 2 deep"),
        ("{...", Shape("s32", (9,)), "a literal must have the structure of s32[9], got a '{' that is not closed"),
        ("{1, 2, 3}", Shape("s32", (2,)),
         "a literal must have the structure of s32[2], got 3 elements"),
        ("{{1}, 2}", Shape("s32", (2, 1)), "a literal must have the structure of s32[2,1], got '2' after 1 elements"),
        ("{1", Shape("s32", (1,)), "a literal must have the structure of s32[1], got a '{' that is not closed"),
        ("", Shape("f32"), "a literal must have the structure of f32[], got 0 elements"),
        ("{1}", Shape("f32", (0,)), "a literal must have the structure of f32[0], got 1 elements"),
        ("}", Shape("f32", (1,)), "an element of f32[] must be a f32 value, got '}'"),
        ("{)}", Shape("f32", (1,)), "an element of f32[1] must be a f32 value, got ')'"),
        ("(1 2)", Shape("c64"), "a literal must have the structure of c64[], got a '(' that starts no complex number"),
        ("{" * 100 + "1" + "}" * 100, Shape("f32", (1,) * 100), "a literal must not exceed 64 axes, got 100"),
        ("1 2", Shape("f32"), "a literal of f32[] must end here, got '2'"),
        ("128", Shape("s8"), "an element of s8[] must be a s8 value, got '128'"),
        ("-1", Shape("u8"), "an element of u8[] must be a u8 value, got '-1'"),
        ("1.5", Shape("s32"), "an element of s32[] must be a s32 value, got '1.5'"),
        ("1e39", Shape("f32"), "an element of f32[] must be a f32 value, got '1e39'"),
        ("70000", Shape("f16"), "an element of f16[] must be a f16 value, got '70000'"),
        ("1_0", Shape("f32"), "an element of f32[] must be a f32 value, got '1_0'"),
        ("2", Shape("pred"), "an element of pred[] must be a pred value, got '2'"),
        ("1", Shape("token"), "a constant must hold numbers, got the type token"),
        ("(1 2)", tuple_shape((Shape("s32"), Shape("s32"))), "a literal of (s32[], s32[]) must have ',' here, got '2'"),
        ("9" * 10**6, Shape("f32"),
         "an element of f32[] must be a f32 value, got '999999999999999999999999...'"),
    ],
)  # fmt: skip
def test_rejected(text: str, shape: Shape, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_literal(text, shape)
    assert str(caught.value) == message


@given(
    st.sampled_from(
        [np.float64, np.float32, np.float16, np.int8, np.uint64, np.int64, np.bool_]
    ).flatmap(
        lambda t: hnp.arrays(t, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    )
)
def test_written_and_read(array: np.ndarray) -> None:
    shape = Shape(HLO_NAMES[from_numpy(array.dtype)], array.shape)
    again = parse_literal(write_literal(array), shape).value
    assert isinstance(again, np.ndarray)
    np.testing.assert_array_equal(again, array)
    assert again.dtype == array.dtype


@pytest.mark.parametrize(
    ("array", "type_"),
    [
        (np.array([1 + 2j, complex(-np.inf, np.nan)], np.complex64), "c64"),
        (np.array(-0.5j, np.complex128), "c128"),
        (np.array([[-8, 7]], ml_dtypes.int4), "s4"),
        (np.array([0, 15], ml_dtypes.uint4), "u4"),
        (np.array([0.5, 448], ml_dtypes.float8_e4m3fn), "f8e4m3fn"),
    ],
)
def test_rarer_types_are_read_back(array: np.ndarray, type_: str) -> None:
    again = parse_literal(write_literal(array), Shape(type_, array.shape)).value
    assert isinstance(again, np.ndarray)
    np.testing.assert_array_equal(again, array)
    assert again.dtype == array.dtype


def test_every_bf16_is_read_back() -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    finite = values[np.isfinite(values.astype(np.float32))]
    again = parse_literal(write_literal(finite), Shape("bf16", finite.shape)).value
    assert isinstance(again, np.ndarray)
    assert again.view(np.uint16).tolist() == finite.view(np.uint16).tolist()


@pytest.mark.parametrize("dtype", HLO_NAMES, ids=str)
def test_large_constants_read_back_as_they_were(dtype: DType) -> None:
    """Written by one format operation, with as many digits as tell all values of the type apart."""
    count = LARGE + 3
    patterns = np.random.default_rng(0).integers(0, 256, count * dtype.size, np.uint8)
    if dtype.numpy == np.bool_:
        array = patterns > 99
    elif dtype.is_float or dtype.limits[1] > 100:
        array = patterns.view(dtype.numpy)
    else:
        array = (patterns % (dtype.limits[1] + 1)).astype(dtype.numpy)
    array = array.reshape(1, count, 1)
    text = write_literal(array)
    read = parse_literal(text, Shape(HLO_NAMES[dtype], array.shape)).value
    assert text.count("{") == 2 + count and isinstance(read, np.ndarray)
    with np.errstate(invalid="ignore"):  # signaling NaNs
        pair = [x.astype(np.float64) if dtype.is_float else x for x in (read, array)]
    np.testing.assert_array_equal(*pair)
