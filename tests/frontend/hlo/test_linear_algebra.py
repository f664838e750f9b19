"""triangular-solve, cholesky and LAPACK's calls, against NumPy; and written again."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import graphc
from graphc.frontend.hlo import import_hlo, parse_hlo, write_hlo
from support.hlo_text import module, one_op, run

RNG = np.random.default_rng(3)
A = (RNG.standard_normal((2, 4, 4)) + 4 * np.eye(4)).astype(np.float32)
B = RNG.standard_normal((2, 4, 3)).astype(np.float32)
SQUARE = A @ A.swapaxes(1, 2)


def letters(**values: str) -> str:
    return ", ".join(f"{name} = {ord(value)} : ui8" for name, value in values.items())


CASES = list(itertools.product([False, True], repeat=4))


@pytest.mark.parametrize(("left", "lower", "transposed", "unit"), CASES)
def test_systems(left: bool, lower: bool, transposed: bool, unit: bool) -> None:
    b = B if left else B.swapaxes(1, 2).copy()
    shapes = ["f32[2,4,4]", f"f32[{','.join(map(str, b.shape))}]"]
    flags = f"left_side={left}, lower={lower}, unit_diagonal={unit}".lower()
    word = "TRANSPOSE" if transposed else "NO_TRANSPOSE"
    text = one_op(shapes, shapes[1], f"triangular-solve(p0, p1), {flags}, transpose_a={word}")
    config = letters(
        diag="U" if unit else "N", side="L" if left else "R", trans_x="T" if transposed else "N",
        uplo="L" if lower else "U",
    )  # fmt: skip
    call = (
        f'custom-call(p0, p1), custom_call_target="lapack_strsm_ffi", backend_config={{{config}}}'
    )
    half = (np.tril(A, -unit) if lower else np.triu(A, unit)) + np.eye(4) * unit
    half = half.swapaxes(1, 2) if transposed else half
    for source in (text, one_op(shapes, shapes[1], call)):
        (x,) = run(source, A, b)
        np.testing.assert_allclose(half @ x if left else x @ half, b, atol=1e-4)
    again = import_hlo(parse_hlo(write_hlo(import_hlo(parse_hlo(text)))))
    np.testing.assert_array_equal(again.evaluate([A, b])[0], x)


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky(lower: bool) -> None:
    text = one_op(["f32[2,4,4]"], "f32[2,4,4]", f"cholesky(p0), lower={str(lower).lower()}")
    wanted = np.linalg.cholesky(SQUARE)
    wanted = wanted if lower else wanted.swapaxes(1, 2)
    (factor,) = run(text, SQUARE)
    np.testing.assert_allclose(factor, wanted, rtol=1e-4, atol=1e-4)
    again = import_hlo(parse_hlo(write_hlo(import_hlo(parse_hlo(text)))))
    np.testing.assert_array_equal(again.evaluate([SQUARE])[0], factor)


def test_cholesky_of_16_bit_floats() -> None:
    (factor,) = run(
        one_op(["f16[4,4]"], "f16[4,4]", "cholesky(p0), lower=true"), SQUARE[0].astype(np.float16)
    )
    assert factor.dtype == np.float16
    np.testing.assert_allclose(
        factor.astype(np.float32), np.linalg.cholesky(SQUARE[0]), rtol=0.02, atol=0.02
    )


def test_what_lapack_says_of_its_factors() -> None:
    text = module(
        f"""a = f32[2,4,4] parameter(0)
        p = (f32[2,4,4], s32[2]) custom-call(a), custom_call_target="lapack_spotrf_ffi",
          backend_config={{{letters(uplo="L")}}}
        ROOT l = (f32[2,4,4], s32[2,4], s32[2]) custom-call(a), custom_call_target="lapack_sgetrf_ffi" """
    )
    x = np.stack([A[0], np.ones((4, 4), np.float32)])
    factors, pivots, info = run(text, x)
    assert info.tolist() == [0, 2] and pivots.min() >= 1 and pivots.max() <= 4
    low, high = np.tril(factors[0], -1) + np.eye(4), np.triu(factors[0])
    exchanged = A[0].copy()
    for k, row in enumerate(pivots[0] - 1):
        exchanged[[k, row]] = exchanged[[row, k]]
    np.testing.assert_allclose(low @ high, exchanged, atol=1e-4)
    text = text.replace("ROOT l", "l").replace("p = (", "ROOT p = (")
    bad = SQUARE[1].copy()
    bad[2, 2] = -1
    factor, info = run(text, np.stack([SQUARE[0], bad]))
    assert info.tolist() == [0, 3]
    np.testing.assert_allclose(factor[0], np.linalg.cholesky(SQUARE[0]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (
            "triangular-solve(p0, p0), left_side=true, transpose_a=OTHER",
            "transpose_a must be NO_TRANSPOSE, TRANSPOSE",
        ),
        (
            "cholesky(p0), lower=true",
            r"a must have square matrices as its last axes, got f32\[2,3\]",
        ),
    ],
)
def test_wrong_operands(operation: str, message: str) -> None:
    with pytest.raises(graphc.UserError, match=message):
        run(one_op(["f32[2,3]"], "f32[2,3]", operation))


def test_factors_with_pivots_cannot_be_written() -> None:
    text = one_op(
        ["f32[2,2]"],
        "(f32[2,2], s32[2], s32[])",
        'custom-call(p0), custom_call_target="lapack_sgetrf_ffi"',
    )
    with pytest.raises(graphc.UnsupportedError, match="lu"):
        write_hlo(import_hlo(parse_hlo(text)))
