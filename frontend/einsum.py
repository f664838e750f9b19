"""Einstein sums as transposes, matmuls and reductions, for every format that has them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from ..graph_ir.ir.graph import GraphTensor
from .correspondence.compositions.indexing import dynamic_size, positions
from .op_builder import OpBuilder

_TERM = r"[A-Za-z]*(?:\.\.\.)?[A-Za-z]*"
_EQUATION = re.compile(rf"({_TERM}(?:,{_TERM})*)(?:->({_TERM}))?", re.ASCII)
_SHOWN = 64  # characters of an equation quoted in a message


def einsum(build: OpBuilder, equation: str, operands: Sequence[GraphTensor]) -> GraphTensor:
    """Any number of operands, multiplied from left to right; a letter twice in one operand takes its diagonal.

    Raise UserError for an equation that does not fit them, UnsupportedError for what is not an equation.
    """
    match = _EQUATION.fullmatch(equation.replace(" ", ""))
    terms = match[1].split(",") if match else []
    if match and len(operands) != len(terms):
        raise build.rule(f"there must be {len(terms)} tensors", f"{len(operands)} inputs")
    wanted = match[2] if match else None
    terms, wanted = _without_ellipsis(build, operands, terms, wanted)
    if not match:
        raise build.unsupported(f"equation={equation[:_SHOWN]}")
    letters = "".join(terms)
    alone = "".join(sorted(c for c in letters if letters.count(c) == 1))
    result = alone if wanted is None else wanted
    if not set(result) <= set(letters) or len(set(result)) != len(result):
        raise build.rule("letters after -> must be distinct and stand before it", equation[:_SHOWN])
    sizes = _letter_sizes(build, operands, terms)
    parts = [_diagonal(build, x, term) for x, term in zip(operands, terms, strict=True)]
    while len(parts) > 2:
        kept = set(result).union(*(term for _, term in parts[2:]))
        order = "".join(dict.fromkeys(c for _, term in parts[:2] for c in term if c in kept))
        parts = [(_multiplied(build, parts[:2], order, kept, sizes), order), *parts[2:]]
    return _multiplied(build, parts, result, set(result), sizes)


def _without_ellipsis(
    build: OpBuilder, operands: Sequence[GraphTensor], terms: list[str], result: str | None
) -> tuple[list[str], str | None]:
    """`...` as letters unused in the equation; the last ones if an operand has fewer axes for it."""
    if not any("..." in term for term in terms):
        return terms, result
    used = set("".join(terms)) | set(result or "")
    spare = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if c not in used]
    counts = [
        x.details.rank - len(term.replace("...", "")) if "..." in term else 0
        for x, term in zip(operands, terms, strict=True)
    ]
    if min(counts) < 0 or max(counts) > len(spare):
        raise build.rule(
            "each operand must have an axis for every letter", ",".join(terms)[:_SHOWN]
        )
    names = "".join(spare[: max(counts)])
    full = [
        term.replace("...", names[len(names) - count :])
        for term, count in zip(terms, counts, strict=True)
    ]
    if result is None:
        letters = "".join(full)
        alone = sorted(c for c in letters if letters.count(c) == 1 and c not in names)
        return full, names + "".join(alone)
    return full, result.replace("...", names)


def _multiplied(
    build: OpBuilder,
    parts: list[tuple[GraphTensor, str]],
    result: str,
    kept: set[str],
    sizes: dict[str, int],
) -> GraphTensor:
    """Contract one or two operands to the axes `result`; letters outside `kept` are summed."""
    reduced = [
        _reduced(build, x, term, kept.union(*(t for i, (_, t) in enumerate(parts) if i != number)))
        for number, (x, term) in enumerate(parts)
    ]
    if len(reduced) == 1:
        ((x, term),) = reduced
        return build.transposed(x, [term.index(c) for c in result])
    return contract(build, reduced, result, sizes)


def _letter_sizes(
    build: OpBuilder, operands: Sequence[GraphTensor], terms: list[str]
) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for x, term in zip(operands, terms, strict=True):
        if x.details.rank != len(term):
            raise build.rule(f"'{term}' must have {len(term)} axes", str(x.details))
        for letter, size in zip(term, x.details.plain_dims, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise build.rule(f"'{letter}' must have one size", f"{sizes[letter]} and {size}")
    return sizes


def _diagonal(build: OpBuilder, x: GraphTensor, term: str) -> tuple[GraphTensor, str]:
    """The operand with one axis for each letter: elements whose indices along the axes of a letter are the same."""
    while twice := next((c for c in term if term.count(c) > 1), None):
        axes = [i for i, c in enumerate(term) if c == twice][:2]
        rest = [i for i in range(len(term)) if i not in axes]
        *outer, size, _ = (x.details.plain_dims[i] for i in (*rest, *axes))
        square = build.transposed(x, (*rest, *axes))
        flat = build.reshaped(square, (*outer, size * size))
        if isinstance(size, int):
            x = build.sliced(flat, len(outer), 0, size, size + 1)
        else:
            at = build.helper("mul", positions(build, size, 0, 1), dynamic_size(build, size + 1))
            x = build.helper("gather", flat, at, axis=len(outer))
        term = "".join(term[i] for i in rest) + twice
    return x, term


def _reduced(
    build: OpBuilder, x: GraphTensor, term: str, kept: set[str]
) -> tuple[GraphTensor, str]:
    """The operand summed over letters that occur nowhere else."""
    axes = tuple(i for i, letter in enumerate(term) if letter not in kept)
    if not axes:
        return x, term
    return build.helper("reduce_sum", x, axes=axes, keep_dims=False), "".join(
        c for c in term if c in kept
    )


def contract(
    build: OpBuilder,
    parts: Sequence[tuple[GraphTensor, str]],
    result: str,
    sizes: Mapping[str, int],
) -> GraphTensor:
    """Multiply two tensors whose axes have these letters, and return a tensor of the axes `result`.

    Letters of both that are in the result are batch axes, others of both are summed. A single matmul, which may read
    its operands transposed.
    """
    (x, left), (y, right) = parts
    batch = [c for c in left if c in right and c in result]
    inner = [c for c in left if c in right and c not in result]
    rows, columns = ([c for c in t if c not in u] for t, u in ((left, right), (right, left)))
    a, swapped_a = _matrices(build, x, left, (batch, rows, inner), sizes)
    b, swapped_b = _matrices(build, y, right, (batch, inner, columns), sizes)
    matmul = build.make("matmul_core", a, b, transpose_a=swapped_a, transpose_b=swapped_b)
    order = [*batch, *rows, *columns]
    apart = build.reshaped(matmul, [sizes[c] for c in order])
    return build.transposed(apart, [order.index(c) for c in result])


def _matrices(
    build: OpBuilder,
    x: GraphTensor,
    term: str,
    groups: tuple[list[str], ...],
    sizes: Mapping[str, int],
) -> tuple[GraphTensor, bool]:
    """[batch.., first, second] of these groups, or with the last two swapped where x has them in that order."""
    batch, first, second = groups
    swapped = bool(first and second) and [*batch, *second, *first] == list(term)
    merged = (second, first) if swapped else (first, second)
    order = [letter for group in (batch, *merged) for letter in group]
    moved = build.transposed(x, [term.index(letter) for letter in order])
    joined = [math.prod(sizes[letter] for letter in group) for group in merged]
    return build.reshaped(moved, [*(sizes[c] for c in batch), *joined]), swapped
