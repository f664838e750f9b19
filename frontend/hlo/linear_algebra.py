"""triangular-solve, cholesky, and the calls of LAPACK that JAX writes for its CPU."""

from __future__ import annotations

import re
from typing import Any

from ...base.dtypes import F32, F64, S32
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.ops.linear_algebra import Cholesky, TriangularSolve
from ..correspondence.compositions.factorizations import eigh, svd
from ..correspondence.compositions.linear_algebra import diagonal, first_true, outputs
from ..correspondence.writing import Write
from .formulas import compare
from .frame import Value, Writer
from .scope import Handler, Step

_FIELD = re.compile(r"(\w+)\s*=\s*(\d+)")


def _swapped(step: Step, x: GraphTensor) -> GraphTensor:
    """The last two axes exchanged."""
    rank = x.details.rank
    if rank < 2:
        raise step.rule("its operands must be matrices", step.shown(x))
    return step.transposed(x, [*range(rank - 2), rank - 1, rank - 2])


def _wide(step: Step, x: GraphTensor) -> GraphTensor:
    """16-bit floats as f32."""
    return x if x.details.dtype in (F32, F64) else step.converted(x, F32)


def _solved(
    step: Step, left_side: bool, lower: bool, transposed: bool, unit_diagonal: bool
) -> GraphTensor:
    """x with op(a) @ x = b, or x @ op(a) = b, which is the same for the transposed matrices."""
    a, b = step.tensors(2)
    attrs = {"lower": lower, "transpose_a": transposed == left_side, "unit_diagonal": unit_diagonal}
    right = _wide(step, b) if left_side else _swapped(step, _wide(step, b))
    x = step.make("triangular_solve", _wide(step, a), right, **attrs)
    return step.converted(x if left_side else _swapped(step, x), b.details.dtype)


def _triangular_solve(step: Step) -> GraphTensor:
    word = step.word("transpose_a") or "NO_TRANSPOSE"
    if word not in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
        rule = "transpose_a must be NO_TRANSPOSE, TRANSPOSE or ADJOINT"
        raise step.rule(rule, word)
    flags = (step.attribute(name, False) for name in ("left_side", "lower", "unit_diagonal"))
    left_side, lower, unit_diagonal = flags
    return _solved(step, left_side, lower, word != "NO_TRANSPOSE", unit_diagonal)


def _factor(step: Step, lower: bool) -> GraphTensor:
    """l with l @ l.T = a, or its transpose, of the half that is requested."""
    (a,) = step.tensors(1)
    wide = _wide(step, a)
    factor = step.make("cholesky", wide if lower else _swapped(step, wide))
    return step.converted(factor if lower else _swapped(step, factor), a.details.dtype)


def _letters(step: Step, *names: str) -> list[str]:
    """Return LAPACK's letters by their names in `{uplo = 76 : ui8}`, which jaxlib before 0.8 does not print."""
    found = {
        name: chr(int(code) % 128) for name, code in _FIELD.findall(step.word("backend_config"))
    }
    if missing := [name for name in names if name not in found]:
        raise step.rule(
            f"its backend_config must give {', '.join(names)}",
            f"no {', '.join(missing)}; print the program with jaxlib 0.8 or later, or as StableHLO",
        )
    return [found[name] for name in names]


def _trsm(step: Step) -> GraphTensor:
    """Solve a triangular system; the solution overwrites b."""
    side, half, transposed, diagonal = _letters(step, "side", "uplo", "trans_x", "diag")
    return _solved(step, side == "L", half == "L", transposed != "N", diagonal == "U")


def _potrf(step: Step) -> Any:
    """(the factor, 0 or the number of the first leading minor that is not positive)."""
    (half,) = _letters(step, "uplo")
    factor = _factor(step, half == "L")
    return factor, first_true(step, step.make("isnan", diagonal(step, factor)))


def _getrf(step: Step) -> Any:
    """(both factors, the rows exchanged, counted from 1, 0 or the number of the first pivot that is 0)."""
    (a,) = step.tensors(1)
    factors, pivots, _ = step.outputs("lu", a)
    zero = step.constant(0, a.details.dtype)
    info = first_true(step, step.make("eq", diagonal(step, factors), zero))
    return factors, step.make("add", pivots, step.constant(1, S32)), info


def _gesdd(step: Step) -> Any:
    """(the operand's memory, singular values, U, V transposed, 0): thin, full, or memory in place of both."""
    (a,) = step.tensors(1)
    (mode,) = _letters(step, "mode")
    if mode not in "ASN":
        raise step.rule("mode must be A, S or N", mode)
    u, values, right = svd(step, a, is_full=mode == "A")
    u, right = map(step.zeros, step.shape.elements[2:4]) if mode == "N" else (u, right)
    return a, values, u, right, _success(step, a)


def _syevd(step: Step) -> Any:
    """(eigenvectors as columns, eigenvalues, 0)."""
    (a,) = step.tensors(1)
    (half,) = _letters(step, "uplo")
    values, vectors = eigh(step, a, half == "L")
    return vectors, values, _success(step, a)


def _success(step: Step, a: GraphTensor) -> GraphTensor:
    """Return LAPACK's status for each matrix: 0, because rotations always converge."""
    return step.broadcast(step.constant(0, S32), a.details.plain_dims[:-2])


_ROUTINES: dict[str, Handler] = {
    "trsm": _trsm, "potrf": _potrf, "getrf": _getrf,
    "geqrf": lambda step: tuple(outputs(step, "householder", step.tensors(1)[0])),
    "orgqr": lambda step: step.make("householder_product", *step.tensors(2)),
    **dict.fromkeys(("gesdd", "gesvd"), _gesdd), "syevd": _syevd,
}  # fmt: skip

_LEADING: dict[str, tuple[int, tuple[tuple[str, str], ...]]] = {
    "trsm": (8, (("side", "RL"), ("uplo", "UL"), ("trans_x", "NTC"), ("diag", "NU"))),
    "potrf": (3, (("uplo", "UL"),)), "syevd": (3, (("uplo", "UL"),)), "gesdd": (6, (("mode", "NSA"),)),
    "getrf": (3, ()), "geqrf": (4, ()), "orgqr": (5, ()),
}  # fmt: skip
"""Routines as older jaxlib calls them: numbers before the operands, and the letters that the first of them choose."""


def _with_numbers(name: str) -> Handler:
    """Read a call whose letters and sizes are operands; it also returns memory that it worked in."""
    count, letters = _LEADING[name]

    def run(step: Step) -> Any:
        numbers = [step.known(x) for x in step.tensors()[:count]]
        flags = [int(x) for x in numbers if x is not None]
        if len(flags) < count:
            raise step.rule("its sizes must be constants", "some that the model computes")
        if name == "trsm" and flags[-1] != 1:
            raise step.rule("alpha must be 1", str(flags[-1]))
        if name == "gesdd":  # whether both are full, and whether they are wanted
            flags = [flags[1] * (1 + flags[0])]
        chosen = zip(letters, flags, strict=False)
        codes = ", ".join(f"{word} = {ord(choice[i])}" for (word, choice), i in chosen)
        shape, operands = step.instruction.shape, step.operands[count:]
        inner = step.instead("custom-call", shape, operands, backend_config=codes)
        found = _ROUTINES[name](inner)
        return step.with_scratch(*(found if isinstance(found, tuple) else (found,)))

    return run


TARGETS: dict[str, Handler] = {
    **{f"lapack_{letter}{name}_ffi": read for letter in "sd" for name, read in _ROUTINES.items()},
    **{f"lapack_{letter}{name}": _with_numbers(name) for letter in "sd" for name in _LEADING},
    **{f"blas_{letter}trsm": _with_numbers("trsm") for letter in "sd"},
}
"""Calls for f32 (s) and f64 (d)."""

HANDLERS: dict[str, Handler] = {
    "triangular-solve": _triangular_solve,
    "cholesky": lambda step: _factor(step, step.attribute("lower", False)),
}


def _write_solve(writer: Writer, op: TriangularSolve) -> Value:
    word = "TRANSPOSE" if op.transpose_a else "NO_TRANSPOSE"
    flags = {"lower": str(op.lower).lower(), "unit_diagonal": str(op.unit_diagonal).lower()}
    operands = writer.operands(op)
    return writer.same("triangular-solve", *operands, left_side="true", transpose_a=word, **flags)


def _write_cholesky(writer: Writer, op: Cholesky) -> Value:
    """HLO does not define the other half, so it is set to 0."""
    factor = writer.same("cholesky", *writer.operands(op), lower="true")
    dims = factor.dims
    rank = len(dims)
    row, column = (
        writer.apply("iota", [], S32, dims, iota_dimension=axis) for axis in (rank - 2, rank - 1)
    )
    is_lower = compare(writer, "ge", row, column)
    zero = writer.broadcast(writer.constant(0, factor.dtype), dims)
    return writer.same("select", is_lower, factor, zero)


EXPORTERS: dict[str, Write] = {"triangular_solve": _write_solve, "cholesky": _write_cholesky}
