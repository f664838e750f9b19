"""The operations that codegen.math relies on, in both implementations."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from graphc.codegen.numpy_vector_ops import NumpyVectorOps
from graphc.codegen.vector_ops import LlvmVectorOps


def emitter(lanes: int, has_fma: bool = True) -> tuple[LlvmVectorOps, list[str]]:
    lines: list[str] = []
    numbers = itertools.count()
    return LlvmVectorOps(lines.append, lambda: f"%{next(numbers)}", lanes, has_fma), lines


def nearest(exact: Fraction, dtype: type) -> float:
    """`exact` rounded once to dtype: the candidate of least distance, the even one of two."""
    start = dtype(float(exact))
    candidates = [np.nextafter(start, dtype(-np.inf)), start, np.nextafter(start, dtype(np.inf))]
    bits = np.int32 if dtype is np.float32 else np.int64
    return min(candidates, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(bits)) & 1))


@pytest.mark.parametrize(("bits", "dtype"), [(32, np.float32), (64, np.float64)])
def test_numpy_fma_rounds_once(bits: int, dtype: type, rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((2, 3000)).astype(dtype)
    exponents = rng.integers(-bits * 2, bits // 4, 3000)
    c = -(a * b) * (1 + np.ldexp(dtype(1), exponents)).astype(dtype)
    c[::2] = np.ldexp(dtype(1), exponents[::2])  # next to halfway cases of every size
    got = NumpyVectorOps(True, bits).fma(a, b, c)
    for x, y, z, w in zip(a, b, c, got, strict=True):
        assert w == nearest(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), dtype)


def test_numpy_fma_resolves_the_double_rounding_that_f64_alone_gets_wrong() -> None:
    a, b = np.float32(1 + 2.0**-12), np.float32(1 + 2.0**-12)
    # a * b is halfway between two f32; c decides, and is lost in f64.
    c = np.float32(2.0**-60)
    exact = np.float64(a) * np.float64(b)
    assert np.float32(exact + np.float64(c)) == np.float32(1 + 2.0**-11)
    assert NumpyVectorOps().fma(a, b, c) == np.nextafter(np.float32(1 + 2.0**-11), np.float32(2))


def test_numpy_without_fma_rounds_twice() -> None:
    a = np.float32(1 + 2.0**-12)
    assert NumpyVectorOps(False).fma(a, a, np.float32(-1 - 2.0**-11)) == 0
    assert NumpyVectorOps(True).fma(a, a, np.float32(-1 - 2.0**-11)) == np.float32(2.0**-24)


def test_min_and_max_return_the_second_operand_for_nan() -> None:
    ops = NumpyVectorOps()
    one, nan = np.float32(1), np.float32(np.nan)
    assert np.isnan(ops.min(one, nan)) and np.isnan(ops.max(one, nan))
    assert ops.min(nan, one) == 1 and ops.max(nan, one) == 1


def test_logical_shift_brings_in_zeros_and_signed_shift_the_sign() -> None:
    ops = NumpyVectorOps()
    negative = np.array([-8], np.int32)
    assert ops.shift_right(negative, 28) == 15
    assert ops.shift_right_signed(negative, 2) == -2


def test_llvm_text_of_vectors_and_scalars() -> None:
    ops, lines = emitter(8)
    ops.fma("%x", ops.const(0.1), ops.const(1.0))
    assert lines == [
        "%0 = call <8 x float> @llvm.fma.v8f32(<8 x float> %x, "
        "<8 x float> splat (float 0x3FB99999A0000000), <8 x float> splat (float 0x3FF0000000000000))"
    ]
    assert ops.declares == {
        "declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)"
    }
    ops, lines = emitter(1)
    ops.wide.add(ops.widen("%x"), ops.wide.const(0.1))
    assert lines == [
        "%0 = fpext float %x to double",
        "%1 = fadd double %0, 0x3FB999999999999A",
    ]


def test_no_fma_is_emitted_for_a_target_without_it() -> None:
    ops, lines = emitter(4, has_fma=False)
    ops.fma("%a", "%b", "%c")
    assert lines == ["%0 = fmul <4 x float> %a, %b", "%1 = fadd <4 x float> %0, %c"]
    assert ops.declares == set()


def test_wide_shares_the_declarations() -> None:
    ops, _ = emitter(4)
    ops.wide.sqrt(ops.widen("%x"))
    assert ops.declares == {"declare <4 x double> @llvm.sqrt.v4f64(<4 x double>)"}
