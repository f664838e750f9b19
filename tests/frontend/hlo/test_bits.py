"""bitcast-convert between any widths, reduce-precision, counts of bits."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import by_name
from graphc.frontend.hlo import import_hlo, parse_hlo
from support.hlo_text import one_op, run

RNG = np.random.default_rng(17)
NUMPY = {
    "s8": np.int8,
    "u16": np.uint16,
    "f32": np.float32,
    "u32": np.uint32,
    "f64": np.float64,
    "s64": np.int64,
}


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("f32[3]", "u32[3]"), ("f32[3]", "u16[3,2]"), ("f64[2,3]", "s8[2,3,8]"), ("u16[3,2]", "f32[3]"),
        ("s8[4,8]", "s64[4]"), ("u32[2]", "f64[]"), ("s8[]", "s8[]"), ("f64[]", "u32[2]"),
    ],
)  # fmt: skip
def test_bitcast_convert(source: str, target: str) -> None:
    (old, dims), (new, new_dims) = (text[:-1].split("[") for text in (source, target))
    shape, result = ([int(d) for d in text.split(",") if d] for text in (dims, new_dims))
    bits = RNG.integers(0, 100, int(np.prod(shape)) * np.dtype(NUMPY[old]).itemsize, np.uint8)
    x = bits.view(NUMPY[old]).reshape(shape)
    (got,) = run(one_op([source], target, "bitcast-convert(p0)"), x)
    np.testing.assert_array_equal(got, bits.view(NUMPY[new]).reshape(result))


def test_a_bitcast_may_change_the_type_as_well() -> None:
    (got,) = run(one_op(["f32[2,3]"], "s32[6]", "bitcast(p0)"), np.ones((2, 3), np.float32))
    assert (got.shape, got.dtype, got[0]) == ((6,), np.int32, 0x3F800000)


def test_other_widths_are_refused() -> None:
    with pytest.raises(graphc.UserError, match=r"f32\[3\] and u16\[3\] must have as many bits"):
        import_hlo(parse_hlo(one_op(["f32[3]"], "u16[3]", "bitcast-convert(p0)")))
    with pytest.raises(graphc.UnsupportedError, match="reading bool as u8 is not supported"):
        import_hlo(parse_hlo(one_op(["pred[3]"], "u8[3]", "bitcast-convert(p0)")))


@pytest.mark.parametrize(
    ("exponent", "mantissa", "x", "wanted"),
    [
        (8, 23, [1.1, np.nan, np.inf], [np.float32(1.1), np.nan, np.inf]),
        (8, 7, [1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-8 + 2**-20)], [1, 1 + 2**-6, -(1 + 2**-7)]),
        (5, 10, [65519, 65520, -65520, 6.2e-5, 6.0e-5, -6.0e-5], [65504, np.inf, -np.inf, np.float16(6.2e-5), 0, -0.0]),
        (2, 1, [1, 1.25, 1.75, 3.4, 3.6, 0.5], [1, 1, 2, 3, np.inf, 0]),
    ],
)  # fmt: skip
def test_reduce_precision(
    exponent: int, mantissa: int, x: list[float], wanted: list[float]
) -> None:
    attributes = f"exponent_bits={exponent}, mantissa_bits={mantissa}"
    shape = f"f32[{len(x)}]"
    (got,) = run(one_op([shape], shape, f"reduce-precision(p0), {attributes}"), np.array(x, np.float32))  # fmt: skip
    np.testing.assert_allclose(got, np.array(wanted, np.float32), rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(np.array(wanted)))


def test_reduce_precision_needs_an_exponent() -> None:
    source = one_op(["f32[2]"], "f32[2]", "reduce-precision(p0), exponent_bits=0, mantissa_bits=3")
    flags = one_op(["pred[3]"], "pred[3]", "reduce-precision(p0), exponent_bits=5, mantissa_bits=3")
    with pytest.raises(graphc.UserError, match=r"'r': its operand must be a float, got pred\[3\]"):
        import_hlo(parse_hlo(flags))
    with pytest.raises(graphc.UserError, match="must keep an exponent and .* got 0 and 3 bits"):
        import_hlo(parse_hlo(source))


def test_bits_are_counted() -> None:
    x = np.array([0, 1, -1, 6], np.int32)
    assert run(one_op(["s32[4]"], "s32[4]", "popcnt(p0)"), x)[0].tolist() == [0, 1, 32, 2]
    (zeros,) = run(one_op(["s32[4]"], "s32[4]", "count-leading-zeros(p0)"), x)
    assert zeros.tolist() == [32, 31, 0, 29]


@pytest.mark.parametrize("name", ["s2", "u2", "s4", "u4", "s8", "u8"])
def test_bits_of_every_value_are_counted_in_the_bits_of_the_type(name: str) -> None:
    bits, dtype = int(name[1:]), by_name(name)
    words = np.arange(1 << bits)
    every = (words - (words >> (bits - 1) << bits) if dtype.is_signed else words).astype(
        dtype.numpy
    )
    patterns = [format(word, f"0{bits}b") for word in words]
    kind = f"{name}[{len(words)}]"
    for call, counts in (
        ("popcnt(p0)", [text.count("1") for text in patterns]),
        ("count-leading-zeros(p0)", [bits - len(text.lstrip("0")) for text in patterns]),
    ):
        counted = run(one_op([kind], kind, call), every)[0].astype(np.int64)
        assert np.array_equal(counted & ((1 << bits) - 1), np.array(counts) & ((1 << bits) - 1)), (
            call
        )
