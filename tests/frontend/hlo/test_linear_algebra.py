"""triangular-solve, cholesky and LAPACK's calls, against NumPy; and written again."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import graphc
from graphc import UserError
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


def older(target: str, numbers: list[float], shapes: list[str], result: str) -> str:
    """A program that calls a routine as jaxlib before 0.4.36 does: numbers are operands."""
    lines = [f"a{i} = {shape} parameter({i})" for i, shape in enumerate(shapes)]
    types = ["f32" if isinstance(number, float) else "s32" for number in numbers]
    lines += [
        f"n{i} = {dtype}[] constant({number})"
        for i, (dtype, number) in enumerate(zip(types, numbers, strict=True))
    ]
    names = [*(f"n{i}" for i in range(len(numbers))), *(f"a{i}" for i in range(len(shapes)))]
    call = f'custom-call({", ".join(names)}), custom_call_target="{target}"'
    return module(
        "\n".join([*lines, f"ROOT r = {result} {call}, api_version=API_VERSION_STATUS_RETURNING"])
    )


@pytest.mark.parametrize(("left", "lower", "transposed", "unit"), CASES)
def test_systems_of_older_programs(left: bool, lower: bool, transposed: bool, unit: bool) -> None:
    b = B if left else B.swapaxes(1, 2).copy()
    shapes = ["f32[2,4,4]", f"f32[{','.join(map(str, b.shape))}]"]
    numbers = [int(left), int(lower), int(transposed), int(unit), 4, 3, 2, 1.0]
    (x,) = run(older("blas_strsm", numbers, shapes, shapes[1]), A, b)
    half = (np.tril(A, -unit) if lower else np.triu(A, unit)) + np.eye(4) * unit
    half = half.swapaxes(1, 2) if transposed else half
    np.testing.assert_allclose(half @ x if left else x @ half, b, atol=1e-4)


def test_factors_of_older_programs() -> None:
    """Each routine returns what it does in newer programs, and memory that it worked in."""
    x = A[0]
    factor, info = run(
        older("lapack_spotrf", [1, 1, 4], ["f32[4,4]"], "(f32[4,4], s32[])"), SQUARE[0]
    )
    np.testing.assert_allclose(factor, np.linalg.cholesky(SQUARE[0]), rtol=1e-4, atol=1e-4)
    assert info == 0
    lu, pivots, info = run(
        older("lapack_sgetrf", [1, 4, 4], ["f32[4,4]"], "(f32[4,4], s32[4], s32[])"), x
    )
    rows = list(range(4))
    for i, other in enumerate(pivots - 1):
        rows[i], rows[other] = rows[other], rows[i]
    np.testing.assert_allclose((np.tril(lu, -1) + np.eye(4)) @ np.triu(lu), x[rows], atol=1e-4)
    vectors, values, info, work, _ = run(
        older("lapack_ssyevd", [1, 1, 4], ["f32[4,4]"], "(f32[4,4], f32[4], s32[], f32[9], s32[8])"), SQUARE[0]
    )  # fmt: skip
    np.testing.assert_allclose(SQUARE[0] @ vectors, vectors * values, rtol=1e-3, atol=1e-3)
    assert work.tolist() == [0] * 9
    reflectors, factors, *_ = run(
        older("lapack_sgeqrf", [1, 4, 4, 32], ["f32[4,4]"], "(f32[4,4], f32[4], s32[], f32[32])"), x
    )  # fmt: skip
    q, *_ = run(
        older("lapack_sorgqr", [1, 4, 4, 4, 32], ["f32[4,4]", "f32[4]"], "(f32[4,4], s32[], f32[32])"),
        reflectors, factors,
    )  # fmt: skip
    np.testing.assert_allclose(q @ np.triu(reflectors), x, atol=1e-4)


@pytest.mark.parametrize(
    ("full", "wanted", "shapes"), [(1, 1, "f32[6,6]"), (0, 1, "f32[6,4]"), (1, 0, "f32[6,6]")]
)
def test_singular_values_of_older_programs(full: int, wanted: int, shapes: str) -> None:
    x = np.concatenate([A[0], B[0].T[:2, :4]])
    result = f"(f32[6,4], f32[4], {shapes}, f32[4,4], s32[], s32[32], f32[332])"
    _, values, u, v, info, *_ = run(
        older("lapack_sgesdd", [full, wanted, 1, 6, 4, 300], ["f32[6,4]"], result), x
    )
    np.testing.assert_allclose(values, np.linalg.svd(x, compute_uv=False), rtol=1e-4)
    assert info == 0
    if wanted:
        np.testing.assert_allclose((u[:, :4] * values) @ v, x, atol=1e-3)


def test_older_programs_whose_numbers_vary_are_refused() -> None:
    text = module(
        """a = f32[4,4] parameter(0)
        n = s32[] parameter(1)
        ROOT r = (f32[4,4], s32[]) custom-call(n, n, n, a), custom_call_target="lapack_spotrf" """
    )
    with pytest.raises(UserError, match="its sizes must be constants"):
        import_hlo(parse_hlo(text))
    scaled = older(
        "blas_strsm", [1, 1, 0, 0, 4, 3, 2, 2.0], ["f32[2,4,4]", "f32[2,4,3]"], "f32[2,4,3]"
    )
    with pytest.raises(UserError, match="alpha must be 1, got 2"):
        import_hlo(parse_hlo(scaled))


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
