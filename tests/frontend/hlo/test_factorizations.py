"""LAPACK's calls for QR factors, singular values and eigenvectors as jaxlib writes them, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from support.hlo_text import module, run

RNG = np.random.default_rng(8)
TYPES = {"s": "f32", "d": "f64"}
LIMITS = {"s": 1e-5, "d": 1e-13}


def matrices(letter: str, *dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(np.float32 if letter == "s" else np.float64)


def shape(letter: str, *dims: int) -> str:
    return f"{TYPES[letter]}[{','.join(map(str, dims))}]"


@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize(("rows", "columns"), [(5, 3), (3, 5), (4, 4)])
def test_qr(rows: int, columns: int, letter: str) -> None:
    a, count = matrices(letter, 2, rows, columns), min(rows, columns)
    full, scales = shape(letter, 2, rows, columns), shape(letter, 2, count)
    thin = shape(letter, 2, rows, count)
    text = module(
        f"""a = {full} parameter(0)
        f = ({full}, {scales}) custom-call(a), custom_call_target="lapack_{letter}geqrf_ffi"
        r = {full} get-tuple-element(f), index=0
        t = {scales} get-tuple-element(f), index=1
        s = {thin} slice(r), slice={{[0:2], [0:{rows}], [0:{count}]}}
        q = {thin} custom-call(s, t), custom_call_target="lapack_{letter}orgqr_ffi"
        ROOT p = ({full}, {thin}) tuple(r, q)"""
    )
    r, q = run(text, a)
    wanted_q, wanted_r = np.linalg.qr(a.astype(np.float64))
    np.testing.assert_allclose(q, wanted_q, atol=LIMITS[letter])
    np.testing.assert_allclose(np.triu(r)[:, :count], wanted_r, atol=LIMITS[letter])


@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize("mode", "ASN")
@pytest.mark.parametrize(("rows", "columns"), [(5, 3), (3, 5), (4, 4)])
def test_singular_values(rows: int, columns: int, mode: str, letter: str) -> None:
    low_rank = matrices(letter, 1, rows, 2) @ matrices(letter, 1, 2, columns)
    a = np.concatenate([matrices(letter, 1, rows, columns), low_rank])
    count = min(rows, columns)
    left, right = (rows, columns) if mode != "S" else (count, count)
    results = [(2, rows, columns), (2, count), (2, rows, left), (2, right, columns)]
    shapes = ", ".join(shape(letter, *dims) for dims in results)
    text = module(
        f"""a = {shape(letter, *a.shape)} parameter(0)
        ROOT s = ({shapes}, s32[2]) custom-call(a), custom_call_target="lapack_{letter}gesdd_ffi",
          backend_config={{mode = {ord(mode)} : ui8}}"""
    )
    _, values, u, v, info = run(text, a)
    limit = 5 * LIMITS[letter]
    assert info.tolist() == [0, 0] and (u.shape, v.shape) == tuple(results[2:])
    wanted = np.linalg.svd(a.astype(np.float64), compute_uv=False)
    np.testing.assert_allclose(values, wanted, atol=limit)
    if mode != "N":
        again = (u[..., :count] * values[:, None]) @ v[:, :count]
        np.testing.assert_allclose(again, a, atol=limit)
        for x in (u.swapaxes(1, 2) @ u, v @ v.swapaxes(1, 2)):
            np.testing.assert_allclose(x - np.eye(x.shape[-1]), 0, atol=limit)


@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize("half", "LU")
def test_eigenvectors(half: str, letter: str) -> None:
    a = matrices(letter, 2, 5, 5)
    full, values_shape = shape(letter, *a.shape), shape(letter, 2, 5)
    text = module(
        f"""a = {full} parameter(0)
        ROOT s = ({full}, {values_shape}, s32[2]) custom-call(a), custom_call_target="lapack_{letter}syevd_ffi",
          backend_config={{mode = 86 : ui8, uplo = {ord(half)} : ui8}}"""
    )
    vectors, values, info = run(text, a)
    lower = a.astype(np.float64) if half == "L" else a.astype(np.float64).swapaxes(1, 2)
    wanted, columns = np.linalg.eigh(lower)
    assert info.tolist() == [0, 0]
    np.testing.assert_allclose(values, wanted, atol=5 * LIMITS[letter])
    signs = np.sign((vectors * columns).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(vectors * signs, columns, atol=1e3 * LIMITS[letter])


def test_an_unknown_mode_is_refused() -> None:
    text = module(
        """a = f32[2,2] parameter(0)
        ROOT s = (f32[2,2], f32[2], f32[2,2], f32[2,2], s32[]) custom-call(a),
          custom_call_target="lapack_sgesdd_ffi", backend_config={mode = 81 : ui8}"""
    )
    with pytest.raises(graphc.UserError, match="mode must be A, S or N, got Q"):
        run(text, np.eye(2, dtype=np.float32))
