"""Systems of equations, factors and inverses of matrices, of ATen: torch.linalg.

Where PyTorch raises an error for a matrix that is singular or not positive definite, results are not finite here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.dtypes import BOOL, S32, S64
from ...base.size_limits import broadcast_sizes
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions import factorizations as means
from ..correspondence.compositions.control import CountedLoop, Round
from ..correspondence.compositions.linear_algebra import (
    determinant,
    diagonal,
    first_true,
    identity_like,
    inverse,
    outputs,
    permutation,
    pivot_signs,
    solution,
    substituted,
    swapped,
)
from ..op_builder import OpBuilder, like
from ..torch_calls.call import Results, Value
from .node import Node, Read

Operands = tuple[GraphTensor, ...]


def _of(*names: str) -> Callable[[Node], Operands]:
    """Return a reader of operands that have such names in a schema."""
    return lambda node: tuple(node.tensor_of(name) for name in names)


def _batched(node: Node, a: GraphTensor, b: GraphTensor) -> Operands:
    """Return two lists of matrices with one batch for both."""
    batch = broadcast_sizes(a.details.plain_dims[:-2], b.details.plain_dims[:-2])
    x, y = (node.broadcast(x, (*batch, *x.details.plain_dims[-2:])) for x in (a, b))
    return x, y


def _solved(node: Node, a: GraphTensor, b: GraphTensor) -> tuple[GraphTensor, GraphTensor]:
    """Return x with a @ x = b, or x @ a = b, for matrices or as many vectors as there are matrices; and LU factors."""
    sizes, dims = b.details.plain_dims, a.details.plain_dims
    is_vector = len(sizes) == 1 or sizes == dims[:-1]
    left = node.attr_bool("left", True)
    if is_vector:
        b = node.reshaped(b, (*sizes, 1))
    elif not left:
        a, b = swapped(node, a), swapped(node, b)
    x, factors = solution(node, *_batched(node, a, b))
    if is_vector:
        return node.reshaped(x, x.details.plain_dims[:-1]), factors
    return x if left else swapped(node, x), factors


def _info(node: Node, factors: GraphTensor) -> GraphTensor:
    """Return the number of the first pivot that is 0, counted from 1, or 0."""
    return first_true(node, node.helper("eq", diagonal(node, factors), like(node, 0, factors)))


def _read_solve_ex(node: Node) -> Results:
    node.argument("check_errors")
    x, factors = _solved(node, node.tensor_of("A"), node.tensor_of("B"))
    info = _info(node, factors)
    return (x, info) if node.count == 2 else (x, None, None, info)


def _read_inverse(node: Node) -> Results:
    x = node.tensor_of("A" if "A" in node.bound else "self")
    if "_ex" not in node.type:
        return inverse(node, x)
    node.argument("check_errors")
    return inverse(node, x), _info(node, outputs(node, "lu", x)[0])


def _read_triangular(node: Node) -> Results:
    """Systems of which half of a matrix is read, from the left or the right."""
    is_old = "A" in node.bound  # torch.triangular_solve
    a, b = _batched(
        node, *(node.tensor_of(name) for name in (("A", "self") if is_old else ("self", "B")))
    )
    left, transposed = node.attr_bool("left", True), node.attr_bool("transpose", False)
    b = b if left else swapped(node, b)
    flags = {"lower": not node.attr_bool("upper", True), "transpose_a": transposed == left}
    x = node.make(
        "triangular_solve", a, b, unit_diagonal=node.attr_bool("unitriangular", False), **flags
    )
    x = x if left else swapped(node, x)
    return (x, a) if is_old else x


def _cholesky_factor(node: Node, a: GraphTensor) -> GraphTensor:
    """Return the lower factor, or of the upper half the upper one."""
    if not node.attr_bool("upper", False):
        return node.helper("cholesky", a)
    return swapped(node, node.helper("cholesky", swapped(node, a)))


def _read_cholesky(node: Node) -> Results:
    factor = _cholesky_factor(node, node.tensor_of())
    if "_ex" not in node.type:
        return factor
    node.argument("check_errors")
    return factor, first_true(node, node.helper("isnan", diagonal(node, factor)))


def _read_cholesky_solve(node: Node) -> Value:
    """Both systems of a Cholesky factor; of the identity for the inverse."""
    factor = node.tensor_of("input2" if "input2" in node.bound else "self")
    if "input2" in node.bound:
        factor, b = _batched(node, factor, node.tensor_of())
    else:
        b = node.converted(identity_like(node, factor), factor.details.dtype)
    upper = node.attr_bool("upper", False)
    half = node.helper("triangular_solve", factor, b, lower=not upper, transpose_a=upper)
    return node.make("triangular_solve", factor, half, lower=not upper, transpose_a=not upper)


def _read_determinant(node: Node) -> Results:
    found = determinant(node, node.tensor_of("A" if "A" in node.bound else "self"))
    return (found, None, None) if node.count == 3 else found


def _read_log_determinant(node: Node) -> Results:
    """(sign, logarithm of the absolute value); logdet is NaN where the sign is negative."""
    x = node.tensor_of("A" if "A" in node.bound else "self")
    factors, pivots, _ = outputs(node, "lu", x)
    pivot, over = diagonal(node, factors), {"axes": (-1,), "keep_dims": False}
    terms = node.helper(
        "mul", node.helper("sign", pivot), pivot_signs(node, pivots, x.details.dtype)
    )
    sign = node.helper("reduce_prod", terms, **over)
    size = node.helper("reduce_sum", node.helper("log", node.helper("abs", pivot)), **over)
    if node.type.endswith("logdet") and "slogdet" not in node.type:
        is_negative = node.helper("lt", sign, like(node, 0, x))
        return node.make("select", is_negative, like(node, float("nan"), x), size)
    return (sign, size) if node.count == 2 else (sign, size, None, None)


def _read_lu(node: Node) -> Results:
    """(P, L, U) with a = P @ L @ U, or both factors in one matrix with the exchanges of rows counted from 1."""
    a = node.tensor_of("A")
    node.argument("check_errors")
    factors, pivots, order = outputs(node, "lu", a)
    if "factor" in node.type:
        counted = node.helper("add", pivots, node.constant(1, S32))
        return (factors, counted, _info(node, factors)) if node.count == 3 else (factors, counted)
    return _unpacked(node, factors, order)


def _unpacked(node: Node, factors: GraphTensor, order: GraphTensor) -> Operands:
    """Return (P, L, U) from both factors in one matrix and the order of rows."""
    rows, columns = factors.details.plain_dims[-2:]
    count, rank, dtype = min(rows, columns), factors.details.rank, factors.details.dtype
    low = node.sliced(factors, rank - 1, 0, count)
    is_below = node.constant(np.tril(np.ones((rows, count)), -1), BOOL)
    lower = node.helper("select", is_below, low, node.constant(np.eye(rows, count), dtype))
    upper = means.upper(node, node.sliced(factors, rank - 2, 0, count))
    exchanged = node.converted(permutation(node, order), dtype)
    return swapped(node, exchanged), lower, upper


def _order(node: Node, pivots: GraphTensor, rows: int) -> GraphTensor:
    """Return which row is where after exchanges that are counted from 1, s32 [.., rows]."""
    *batch, count = pivots.details.plain_dims
    flat = node.reshaped(node.converted(pivots, S64), (math.prod(batch), count))
    positions = node.constant(np.arange(rows), S64)

    def exchange(build: OpBuilder, i: GraphTensor, own: Any, fixed: Any) -> Round:
        (order,), (others, numbers) = own, fixed
        at = build.reshaped(build.helper("gather", others, i, axis=1), (math.prod(batch), 1))
        at = build.helper("sub", at, build.constant(1, S64))
        here = build.reshaped(build.helper("gather", order, i, axis=1), at.details.plain_dims)
        there = build.helper("gather_elements", order, at, axis=1)
        order = build.helper("select", build.helper("eq", numbers, at), here, order)
        return Round([build.helper("select", build.helper("eq", numbers, i), there, order)])

    first = node.broadcast(positions, (math.prod(batch), rows))
    (order,) = CountedLoop(node, count).make([first], [flat, positions], exchange)
    return node.converted(node.reshaped(order, (*batch, rows)), S32)


def _read_unpack(node: Node) -> Results:
    factors, pivots = node.tensor_of("LU_data"), node.tensor_of("LU_pivots")
    found = _unpacked(node, factors, _order(node, pivots, factors.details.plain_dims[-2]))
    none = node.constant(np.zeros(0), factors.details.dtype)
    wanted = [node.attr_bool(f"unpack_{name}", True) for name in ("pivots", "data", "data")]
    return tuple(x if is_wanted else none for x, is_wanted in zip(found, wanted, strict=True))


def _read_factored_solve(node: Node) -> Value:
    """Systems of a matrix (or its transpose), from the left or the right, whose factors and exchanges are given."""
    left, b = node.attr_bool("left", True), node.tensor_of("B")
    factors, b = _batched(node, node.tensor_of("LU"), b if left else swapped(node, b))
    order = _order(node, node.tensor_of("pivots"), factors.details.plain_dims[-2])
    rows = node.broadcast(order, factors.details.plain_dims[:-1])
    moved = node.converted(permutation(node, rows), b.details.dtype)
    if node.attr_bool("adjoint", False) == left:  # of the transpose
        half = node.helper("triangular_solve", factors, b, transpose_a=True)
        flags = {"lower": True, "unit_diagonal": True, "transpose_a": True}
        half = node.helper("triangular_solve", factors, half, **flags)
        x = node.make("matmul_core", moved, half, transpose_a=True)
    else:
        x = substituted(node, factors, node.helper("matmul_core", moved, b))
    return x if left else swapped(node, x)


def _read_qr(node: Node) -> Results:
    a, mode = node.tensor_of("A"), node.attr_text("mode", "reduced")
    if mode not in ("reduced", "complete", "r"):
        raise node.rule("mode must be reduced, complete or r", mode)
    q, r = means.qr(node, a, mode == "complete")
    return (node.constant(np.zeros(0), a.details.dtype) if mode == "r" else q), r


def _read_ormqr_transposed(node: Node) -> Value:
    """Read ormqr: a matrix multiplied by all columns of Q."""
    packed, scales, other = (node.tensor_of(name) for name in ("self", "input2", "input3"))
    transposed = node.attr_bool("transpose", False)
    q = means.orthogonal_matrix(node, packed, scales, packed.details.plain_dims[-2])
    if node.attr_bool("left", True):
        return node.make("matmul_core", q, other, transpose_a=transposed)
    return node.make("matmul_core", other, q, transpose_b=transposed)


def _read_svd(node: Node) -> Results:
    """(U, values, V transposed); the first and the last are empty where only the values are wanted."""
    a, is_full = node.tensor_of("A"), node.attr_bool("full_matrices", False)
    node.argument("driver")
    if node.attr_bool("compute_uv", True):
        return means.svd(node, a, is_full)
    empty = node.constant(np.zeros(0), a.details.dtype)
    return empty, means.singular_values(node, a), empty


def _read_eigh(node: Node) -> Results:
    a, half = node.tensor_of("A"), node.attr_text("UPLO", "L").upper()
    values, vectors = means.eigh(node, a, half == "L")
    if node.attr_bool("compute_v", True):
        return values, vectors
    return values, node.constant(np.zeros(0), a.details.dtype)


def _read_pseudo_inverse(node: Node) -> Value:
    """Singular values up to max(atol, rtol times the largest) count as 0; of a Hermitian matrix one half is read."""
    a = node.tensor_of()
    if node.attr_bool("hermitian", False):
        mask = node.constant(np.tril(np.ones(a.details.plain_dims[-2:])), BOOL)
        a = node.helper("select", mask, a, swapped(node, a))
    eps = float(np.finfo(a.details.dtype.numpy).eps) * max(a.details.plain_dims[-2:])
    names = ("atol", "rcond" if node.given("rcond") else "rtol")
    default = (
        0.0 if isinstance(node.argument("atol"), float) and node.attr_float("atol") > 0 else eps
    )
    limits = [
        node.tensor(node.operand(name), a.details.dtype)
        if node.given(name)
        else like(node, value, a)
        for name, value in zip(names, (0.0, default), strict=True)
    ]
    columns = [
        node.reshaped(x, (*x.details.plain_dims, 1)) if x.details.rank else x for x in limits
    ]
    return means.pseudo_inverse(node, a, *columns)


def _check(node: Node) -> Results:
    """A check of what LAPACK says, which is not made; the result is the token that orders effects."""
    if "_linalg_check_errors" not in str(node.bound.get("1", node.type)):
        raise node.unsupported(f"the effect of {node.bound['1']}")
    return [None]


HANDLERS: dict[str, Read] = {
    "linalg_solve": lambda node: _solved(node, node.tensor_of("A"), node.tensor_of("B"))[0],
    **dict.fromkeys(("linalg_solve_ex", "_linalg_solve_ex"), _read_solve_ex),
    **dict.fromkeys(("linalg_inv", "inverse", "linalg_inv_ex"), _read_inverse),
    **dict.fromkeys(("linalg_solve_triangular", "triangular_solve"), _read_triangular),
    **dict.fromkeys(("cholesky", "linalg_cholesky", "linalg_cholesky_ex"), _read_cholesky),
    **dict.fromkeys(("cholesky_solve", "cholesky_inverse"), _read_cholesky_solve),
    **dict.fromkeys(("det", "linalg_det", "_linalg_det"), _read_determinant),
    **dict.fromkeys(("slogdet", "linalg_slogdet", "_linalg_slogdet", "logdet"), _read_log_determinant),
    **dict.fromkeys(("linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex"), _read_lu),
    **dict.fromkeys(
        ("matrix_exp", "linalg_matrix_exp"), lambda node: means.matrix_exponential(node, node.tensor_of("self"))),
    "lu_unpack": _read_unpack, "linalg_lu_solve": _read_factored_solve, "linalg_qr": _read_qr,
    "geqrf": lambda node: tuple(outputs(node, "householder", node.tensor_of())),
    "linalg_householder_product":
        lambda node: node.make("householder_product", node.tensor_of(), node.tensor_of("tau")),
    "ormqr": _read_ormqr_transposed, "_linalg_svd": _read_svd, "_linalg_eigh": _read_eigh,
    "linalg_pinv": _read_pseudo_inverse, **dict.fromkeys(("_linalg_check_errors", "with_effects"), _check),
}  # fmt: skip
