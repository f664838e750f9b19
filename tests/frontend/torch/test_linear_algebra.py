"""torch.linalg exported, against PyTorch: systems, factors, inverses, determinants, norms, ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import UnsupportedError
from graphc.frontend import load

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself
linalg: Any = torch.linalg
torch.manual_seed(3)

TALL, WIDE = torch.randn(2, 5, 3, dtype=torch.float64), torch.randn(3, 5)
SQUARE = torch.randn(2, 4, 4, dtype=torch.float64) + 4 * torch.eye(4)
POSITIVE, SINGULAR = SQUARE @ SQUARE.mT, torch.ones(3, 3)
RIGHT = torch.randn(2, 4, 3, dtype=torch.float64)
ROWS, VECTORS = RIGHT.mT.contiguous(), torch.randn(2, 4, dtype=torch.float64)
FACTOR = linalg.cholesky(POSITIVE)


def kept(found: Any) -> Any:
    """Return values that signs of vectors do not change: U S V, and the matmuls that are identities."""
    u, s, v = found
    return (
        s,
        (u[..., : s.shape[-1]] * s[..., None, :]) @ v[..., : s.shape[-1], :],
        u.mT @ u,
        v @ v.mT,
    )


def kept_of_symmetric(found: Any) -> Any:
    return found[0], (found[1] * found[0][..., None, :]) @ found[1].mT


CALLS: dict[str, tuple[Any, ...]] = {
    "lu_unpack": (lambda a: torch.lu_unpack(*linalg.lu_factor(a)), TALL),
    "lu_unpack wide": (lambda a: torch.lu_unpack(*linalg.lu_factor(a)), WIDE),
    **{
        f"lu_solve of {list(a.shape)}": (lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b), a, b)
        for a, b in ((torch.ones(2, 0, 0), torch.ones(2, 0, 3)), (SQUARE[:0], RIGHT[:0]))
    },
    **{
        f"lu_solve {left} {adjoint}": (
            lambda a, b, left=left, adjoint=adjoint: linalg.lu_solve(
                *linalg.lu_factor(a), b, left=left, adjoint=adjoint
            ),
            SQUARE,
            RIGHT if left else ROWS,
        )
        for left in (True, False)
        for adjoint in (True, False)
    },
    "qr": (linalg.qr, TALL),
    "qr complete": (lambda a: linalg.qr(a, mode="complete"), TALL),
    "qr r": (lambda a: linalg.qr(a, mode="r")[1], WIDE),
    "svd": (lambda a: kept(linalg.svd(a)), TALL),
    "svd thin": (lambda a: kept(linalg.svd(a, full_matrices=False)), WIDE),
    "svd of low rank": (lambda a: kept(linalg.svd(a)), SINGULAR),
    "svdvals": (linalg.svdvals, TALL),
    "eigh": (lambda a: kept_of_symmetric(linalg.eigh(a)), POSITIVE),
    "eigh of the upper half": (lambda a: kept_of_symmetric(linalg.eigh(a, UPLO="U")), SQUARE),
    "eigvalsh": (linalg.eigvalsh, POSITIVE),
    "exponential": (linalg.matrix_exp, POSITIVE / 4),
    "exponential of large numbers": (lambda a: torch.matrix_exp(a * -9), POSITIVE),
    "exponential of one number": (torch.matrix_exp, POSITIVE[..., :1, :1]),
    "pinv": (linalg.pinv, TALL),
    "pinv of low rank": (linalg.pinv, SINGULAR),
    "pinv rtol": (lambda a: linalg.pinv(a, rtol=0.3), TALL),
    "pinv atol": (lambda a: linalg.pinv(a, atol=1.5), TALL),
    "pinv rcond": (lambda a: torch.pinverse(a, 0.5), WIDE),
    "pinv hermitian": (lambda a: linalg.pinv(a, hermitian=True), POSITIVE),
    "matrix_rank": (linalg.matrix_rank, SINGULAR),
    "matrix_rank tol": (lambda a: linalg.matrix_rank(a, tol=1.5), TALL),
    "matrix_rank hermitian": (lambda a: linalg.matrix_rank(a, hermitian=True), POSITIVE),
    "inv": (linalg.inv, SQUARE),
    "inv_ex": (lambda a: linalg.inv_ex(a), SQUARE),
    "solve": (linalg.solve, SQUARE, RIGHT),
    "solve of one vector": (linalg.solve, SQUARE[0], VECTORS[0]),
    "solve of vectors": (linalg.solve, SQUARE, VECTORS),
    "solve from the right": (lambda a, b: linalg.solve(a, b, left=False), SQUARE, ROWS),
    "solve of one side for all": (linalg.solve, SQUARE, RIGHT[0]),
    "solve_ex": (lambda a, b: linalg.solve_ex(a, b), SQUARE, RIGHT),
    "cholesky": (linalg.cholesky, POSITIVE),
    "cholesky upper": (lambda a: linalg.cholesky(a, upper=True), POSITIVE),
    "cholesky_ex": (lambda a: linalg.cholesky_ex(a), POSITIVE),
    "cholesky_solve": (torch.cholesky_solve, RIGHT, FACTOR),
    "cholesky_solve upper": (lambda b, u: torch.cholesky_solve(b, u, upper=True), RIGHT, FACTOR.mT.contiguous()),
    "cholesky_inverse": (torch.cholesky_inverse, FACTOR),
    "solve_triangular": (lambda a, b: linalg.solve_triangular(a, b, upper=True), SQUARE, RIGHT),
    "solve_triangular from the right": (
        lambda a, b: linalg.solve_triangular(a, b, upper=False, left=False, unitriangular=True), SQUARE / 9, ROWS,
    ),
    "triangular_solve": (lambda b, a: torch.triangular_solve(b, a, transpose=True), RIGHT, SQUARE),
    "det": (linalg.det, SQUARE),
    "det of a singular one": (torch.det, SINGULAR),
    "slogdet": (lambda a: linalg.slogdet(a), SQUARE),
    "slogdet of a singular one": (lambda a: torch.slogdet(a), SINGULAR),
    "logdet": (torch.logdet, POSITIVE),
    "logdet of a negative one": (torch.logdet, torch.tensor([[0.0, 1.0], [1.0, 0.0]])),
    "lu": (lambda a: linalg.lu(a), TALL),
    "lu wide": (lambda a: linalg.lu(a), WIDE),
    "lu_factor": (lambda a: linalg.lu_factor(a), SQUARE),
    "householder_product": (lambda a: linalg.householder_product(*torch.geqrf(a)), TALL),
    "ormqr": (lambda a, b: torch.ormqr(*torch.geqrf(a), b, left=False, transpose=True), TALL, TALL.mT.contiguous()),
    "cond": (linalg.cond, SQUARE),
    "cond 1": (lambda a: linalg.cond(a, 1), SQUARE),
    "a negative power": (lambda a: linalg.matrix_power(a, -2), SQUARE),
    "power 0": (lambda a: linalg.matrix_power(a, 0), SQUARE),
    "tensorsolve": (linalg.tensorsolve, SQUARE[0], VECTORS[0]),
    **{
        f"norm {order}": (lambda a, order=order: linalg.matrix_norm(a, order, dim=(0, 2), keepdim=order == 1), TALL)
        for order in ("fro", "nuc", 2, -2, 1, -1, float("inf"), -float("inf"))
    },
    **{
        f"norm {order} of an empty matrix": (lambda a, order=order: linalg.matrix_norm(a, order), torch.zeros(*shape))
        for order, shape in ((2, (0, 5)), (2, (2, 5, 0)), (1, (5, 0)), (-1, (0, 5)), (float("inf"), (0, 5)))
    },
    "norm of a whole matrix": (lambda a: linalg.norm(a, 1), WIDE),
    "norm of all": (linalg.norm, TALL),
}  # fmt: skip


def exported(function: Callable[..., Any], *args: Any) -> Any:
    class Module(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *tensors: Any) -> Any:
            return function(*tensors)

    return load(torch.export.export(Module(), args))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CALLS)
def test_against_pytorch(name: str) -> None:
    function, *args = CALLS[name]
    wanted = function(*args)
    expected = [wanted] if isinstance(wanted, torch.Tensor) else list(wanted)
    found = exported(function, *args).evaluate([x.numpy() for x in args])
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.shape == theirs.shape and str(mine.dtype) in str(theirs.dtype)
        limit = 1e-10 if mine.dtype == np.float64 else 1e-4
        np.testing.assert_allclose(mine, theirs, atol=limit, rtol=limit)


def test_singular_matrices_give_what_is_not_finite() -> None:
    (found,) = exported(linalg.inv, SINGULAR).evaluate([SINGULAR.numpy()])
    assert not np.isfinite(found).all()
    found, info = exported(lambda a: linalg.inv_ex(a), SINGULAR).evaluate([SINGULAR.numpy()])
    assert info == linalg.inv_ex(SINGULAR).info


def test_other_functions_are_named() -> None:
    with pytest.raises(UnsupportedError, match="linalg_eig is not supported"):
        exported(linalg.eig, SQUARE)
