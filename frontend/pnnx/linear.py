"""Matrix products: nn.Linear, F.linear, torch.matmul and its relatives, einsum."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ...graph_ir.graph import GraphTensor
from .builder import Builder
from .scope import Handler, Node, Value

_TERM = r"[A-Za-z]*(?:\.\.\.)?[A-Za-z]*"
_EQUATION = re.compile(rf"({_TERM}(?:,{_TERM})*)(?:->({_TERM}))?", re.ASCII)


def _linear_module(node: Node) -> Value:
    x = node.tensor_of()
    dtype = x.details.dtype
    has_bias = node.flag("bias", True)
    rows = node.reshape(x, (1, *x.details.plain_dims)) if x.details.rank == 1 else x
    weight = node.weight("weight", dtype)
    sizes = tuple(
        node.integer(n, s)
        for n, s in zip(("out_features", "in_features"), weight.details.plain_dims, strict=False)
    )
    if weight.details.plain_dims != sizes or len(sizes) != 2:
        wanted = ",".join(str(node.integer(n, -1)) for n in ("out_features", "in_features"))
        raise node.rule(f"weight must have shape [{wanted}]", str(weight.details))
    product = _product(node, rows, weight)
    if has_bias:
        product = _biased(node, product, node.weight("bias", dtype))
    return node.reshape(product, (*x.details.plain_dims[:-1], sizes[0]))


def _linear(node: Node) -> Value:
    x, weight = node.tensor_of(), node.tensor_of("weight")
    dtype = x.details.dtype
    if weight.details.rank != 2:
        raise node.rule("weight must be a matrix", str(weight.details))
    rows = node.reshape(x, (1, *x.details.plain_dims)) if x.details.rank == 1 else x
    product = _product(node, rows, node.cast(weight, dtype))
    bias = node.optional("bias", dtype)
    product = product if bias is None else _biased(node, product, bias)
    return node.reshape(product, (*x.details.plain_dims[:-1], weight.details.plain_dims[0]))


def _product(node: Node, rows: GraphTensor, weight: GraphTensor) -> GraphTensor:
    if not rows.details.rank:
        raise node.rule("the input must have axes", str(rows.details))
    return node.make("matmul_core", rows, weight, transpose_b=True)


def _biased(node: Node, product: GraphTensor, bias: GraphTensor) -> GraphTensor:
    size = product.details.plain_dims[-1]
    if bias.details.plain_dims not in ((size,), ()):
        raise node.rule(f"bias must have shape [{size}]", str(bias.details))
    return node.helper("add", product, bias)


def matmul(b: Builder, x: GraphTensor, y: GraphTensor) -> GraphTensor:
    """torch.matmul: vectors count as a row on the left, as a column on the right, and leave no axis behind."""
    x_dims, y_dims = x.details.plain_dims, y.details.plain_dims
    if not x_dims or not y_dims:
        raise b.rule("inputs must not be scalars", f"{x.details} and {y.details}")
    x = b.reshape(x, (1, *x_dims)) if len(x_dims) == 1 else x
    y = b.reshape(y, (*y_dims, 1)) if len(y_dims) == 1 else y
    product = b.make("matmul_core", x, y)
    dims = list(product.details.plain_dims)
    if len(y_dims) == 1:
        dims.pop()
    if len(x_dims) == 1:
        dims.pop(len(dims) - (1 if len(y_dims) == 1 else 2))
    return b.reshape(product, dims)


def _matmul(ranks: tuple[int, int] | None, right: str) -> Handler:
    """A product of tensors of fixed ranks, or of any where `ranks` is None."""

    def run(node: Node) -> Value:
        x, y = node.tensor_of(), node.tensor_of(right)
        if ranks is not None and (x.details.rank, y.details.rank) != ranks:
            raise node.rule(
                f"inputs must have {ranks[0]} and {ranks[1]} axes", f"{x.details} and {y.details}"
            )
        return matmul(node, x, y)

    return Handler(run, ("input", right))


def _added(names: tuple[str, str], rank: int) -> Handler:
    """beta * input + alpha * (a @ b)."""

    def run(node: Node) -> Value:
        a, b = (node.tensor_of(name) for name in names)
        if a.details.rank != rank or b.details.rank != rank:
            raise node.rule(
                f"{names[0]} and {names[1]} must have {rank} axes", f"{a.details} and {b.details}"
            )
        product = scaled(node, node.make("matmul_core", a, b), node.number("alpha", 1))
        beta = node.number("beta", 1)
        node.argument("input")
        if beta == 0:  # the input is then not read, not even its NaN
            return product
        added = scaled(node, node.tensor_of("input", product.details.dtype), beta)
        dims = product.details.plain_dims
        if not _fits(added.details.plain_dims, dims):
            raise node.rule(f"input must broadcast to {list(dims)}", str(added.details))
        return node.helper("add", product, added)

    return Handler(run, ("input", *names))


def _fits(dims: Sequence[int], target: Sequence[int]) -> bool:
    try:
        return tuple(np.broadcast_shapes(tuple(dims), tuple(target))) == tuple(target)
    except ValueError:
        return False


def scaled(b: Builder, x: GraphTensor, factor: float) -> GraphTensor:
    """X times a number; x itself for 1. UserError for an integer tensor and a factor that is not whole."""
    if factor == 1:
        return x
    dtype = x.details.dtype
    if not dtype.is_float and not float(factor).is_integer():
        raise b.rule(f"a factor of {dtype} tensors must be whole", str(factor))
    return b.helper("mul", x, b.constant(factor, dtype))


# einsum


def _einsum(node: Node) -> Value:
    """Any number of operands, every letter at most once in each; they are multiplied from left to right."""
    equation = node.text("equation")
    if not equation:
        raise node.rule("equation must be given", "nothing")
    match = _EQUATION.fullmatch(equation)
    operands = [x for x in node.values if isinstance(x, GraphTensor)]
    terms = match[1].split(",") if match else []
    if len(operands) != len(node.values) or (match and len(operands) != len(terms)):
        raise node.rule(f"there must be {len(terms)} tensors", f"{len(node.values)} inputs")
    wanted = match[2] if match else None
    terms, wanted = _without_ellipsis(node, operands, terms, wanted)
    if any(len(set(term)) != len(term) for term in terms) or not match:
        raise node.unsupported(f"equation={equation[:64]}")
    letters = "".join(terms)
    alone = "".join(sorted(c for c in letters if letters.count(c) == 1))
    result = alone if wanted is None else wanted
    if not set(result) <= set(letters) or len(set(result)) != len(result):
        raise node.rule("letters after -> must be distinct and stand before it", equation[:64])
    sizes = _letter_sizes(node, operands, terms)
    parts = list(zip(operands, terms, strict=True))
    while len(parts) > 2:
        kept = set(result).union(*(term for _, term in parts[2:]))
        order = "".join(dict.fromkeys(c for _, term in parts[:2] for c in term if c in kept))
        parts = [(_multiplied(node, parts[:2], order, kept, sizes), order), *parts[2:]]
    return _multiplied(node, parts, result, set(result), sizes)


def _without_ellipsis(
    node: Node, operands: list[GraphTensor], terms: list[str], result: str | None
) -> tuple[list[str], str | None]:
    """`...` as letters that the equation has not, the last ones where an operand has fewer axes for it."""
    if not any("..." in term for term in terms):
        return terms, result
    used = set("".join(terms)) | set(result or "")
    spare = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if c not in used]
    counts = [
        x.details.rank - len(term.replace("...", "")) if "..." in term else 0
        for x, term in zip(operands, terms, strict=True)
    ]
    if min(counts) < 0 or max(counts) > len(spare):
        raise node.rule("each operand must have an axis for every letter", ",".join(terms)[:64])
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
    node: Node,
    parts: list[tuple[GraphTensor, str]],
    result: str,
    kept: set[str],
    sizes: dict[str, int],
) -> GraphTensor:
    """One operand, or the product of two, with the axes `result`; letters outside `kept` are summed."""
    reduced = [
        _reduced(node, x, term, kept.union(*(t for i, (_, t) in enumerate(parts) if i != place)))
        for place, (x, term) in enumerate(parts)
    ]
    if len(reduced) == 1:
        ((x, term),) = reduced
        return node.transpose(x, [term.index(c) for c in result])
    return _contract(node, reduced, result, sizes)


def _letter_sizes(node: Node, operands: list[GraphTensor], terms: list[str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for x, term in zip(operands, terms, strict=True):
        if x.details.rank != len(term):
            raise node.rule(f"'{term}' must have {len(term)} axes", str(x.details))
        for letter, size in zip(term, x.details.plain_dims, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise node.rule(f"'{letter}' must have one size", f"{sizes[letter]} and {size}")
    return sizes


def _reduced(node: Node, x: GraphTensor, term: str, kept: set[str]) -> tuple[GraphTensor, str]:
    """The operand summed over the letters that stand nowhere else."""
    axes = tuple(i for i, letter in enumerate(term) if letter not in kept)
    if not axes:
        return x, term
    return node.helper("reduce_sum", x, axes=axes, keep_dims=False), "".join(
        c for c in term if c in kept
    )


def _contract(
    node: Node, parts: list[tuple[GraphTensor, str]], result: str, sizes: dict[str, int]
) -> GraphTensor:
    """Both operands as [batch, rows, inner] and [batch, inner, columns], one product, and the axes put in order."""
    (x, left), (y, right) = parts
    batch = [c for c in left if c in right and c in result]
    inner = [c for c in left if c in right and c not in result]
    rows, columns = ([c for c in t if c not in u] for t, u in ((left, right), (right, left)))
    x = _grouped(node, x, left, (batch, rows, inner), sizes)
    y = _grouped(node, y, right, (batch, inner, columns), sizes)
    product = node.make("matmul_core", x, y)
    order = [*batch, *rows, *columns]
    apart = node.reshape(product, [sizes[c] for c in order])
    return node.transpose(apart, [order.index(c) for c in result])


def _grouped(
    node: Node, x: GraphTensor, term: str, groups: tuple[list[str], ...], sizes: dict[str, int]
) -> GraphTensor:
    order = [letter for group in groups for letter in group]
    moved = node.transpose(x, [term.index(letter) for letter in order])
    batch, *merged = ([sizes[letter] for letter in group] for group in groups)
    shape = [*batch, *(int(np.prod(group, dtype=object)) for group in merged)]
    return node.reshape(moved, shape)


HANDLERS: dict[str, Handler] = {
    "nn.Linear": Handler(_linear_module),
    "F.linear": Handler(_linear, ("input", "weight", "bias")),
    "torch.matmul": _matmul(None, "other"),
    "Tensor.matmul": _matmul(None, "other"),
    "torch.mm": _matmul((2, 2), "mat2"),
    "torch.bmm": _matmul((3, 3), "mat2"),
    "torch.mv": _matmul((2, 1), "vec"),
    "torch.dot": _matmul((1, 1), "other"),
    "torch.addmm": _added(("mat1", "mat2"), 2),
    "torch.baddbmm": _added(("batch1", "batch2"), 3),
    "torch.einsum": Handler(_einsum, ("*",)),
}
"""Operators of this family."""
