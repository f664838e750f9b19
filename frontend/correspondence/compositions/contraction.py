"""Matmuls of vectors and matrices, with a bias, with scale factors, and by equations."""

from __future__ import annotations

from ....base.dtypes import F32, F64
from ....base.size_limits import broadcast_sizes
from ....base.size_queries import sizes_text
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ... import einsum as equations
from ...op_builder import OpBuilder


def matmul(
    node: OpBuilder, a: Tensor, b: Tensor, a_rank: int | None = None, b_rank: int | None = None
) -> Tensor:
    """NumPy's matmul: a vector is a row on the left, a column on the right, and that axis is removed again."""
    a_dims, b_dims = a.details.plain_dims, b.details.plain_dims
    if not a_dims or not b_dims:
        raise node.rule("inputs must not be scalars", f"{a.details} and {b.details}")
    if a_rank is not None and (len(a_dims), len(b_dims)) != (a_rank, b_rank):
        both = f"{a.details} and {b.details}"
        raise node.rule(f"inputs must have {a_rank} and {b_rank} axes", both)
    a = node.reshaped(a, (1, *a_dims)) if len(a_dims) == 1 else a
    b = node.reshaped(b, (*b_dims, 1)) if len(b_dims) == 1 else b
    result = node.make("matmul_core", a, b)
    dims = list(result.details.plain_dims)
    if len(b_dims) == 1:
        dims.pop()
    if len(a_dims) == 1:
        dims.pop(len(dims) - (1 if len(b_dims) == 1 else 2))
    return node.reshaped(result, dims)


def linear(node: OpBuilder, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The rows of x times the transpose of a matrix [outputs, inputs], plus a vector, all in the type of x."""
    dims, dtype = x.details.plain_dims, x.details.dtype
    if not dims or weight.details.rank != 2:
        both = f"{x.details} and {weight.details}"
        raise node.rule("the input must have axes and weight be a matrix", both)
    rows = node.reshaped(x, (1, *dims)) if len(dims) == 1 else x
    y = node.make("matmul_core", rows, node.converted(weight, dtype), transpose_b=True)
    size = y.details.plain_dims[-1]
    if bias is not None:
        if bias.details.plain_dims not in ((size,), ()):
            raise node.rule(f"bias must have shape [{size}]", str(bias.details))
        y = node.helper("add", y, node.converted(bias, dtype))
    return node.reshaped(y, (*dims[:-1], size))


def scaled(node: OpBuilder, x: Tensor, factor: float) -> Tensor:
    """X times a number, x itself for 1; integers only by integers."""
    if factor == 1:
        return x
    dtype = x.details.dtype
    if not dtype.is_float and not float(factor).is_integer():
        raise node.unsupported(f"the factor {factor} of {dtype} tensors")
    return node.helper("mul", x, node.constant(factor, dtype))


def plus(node: OpBuilder, contracted: Tensor, added: Tensor) -> Tensor:
    """Add a tensor to a matmul to whose shape it broadcasts."""
    dims = contracted.details.plain_dims
    try:
        fits = broadcast_sizes(added.details.plain_dims, dims) == dims
    except ValueError:
        fits = False
    if not fits:
        raise node.rule(f"what is added must broadcast to {sizes_text(dims)}", str(added.details))
    return node.helper("add", contracted, added)


def add_matmul(
    node: OpBuilder,
    added: Tensor,
    a: Tensor,
    b: Tensor,
    alpha: float = 1,
    beta: float = 1,
    axes_of_each: int = 2,
) -> Tensor:
    """beta * added + alpha * (a @ b); for beta = 0 what is added does not matter, not even its NaN."""
    if {a.details.rank, b.details.rank} != {axes_of_each}:
        both = f"{a.details} and {b.details}"
        raise node.rule(f"both factors must have {axes_of_each} axes", both)
    contracted = scaled(node, node.make("matmul_core", a, b), alpha)
    if not beta:
        return contracted
    return plus(
        node, contracted, scaled(node, node.converted(added, contracted.details.dtype), beta)
    )


def einsum(node: OpBuilder, *operands: Tensor, equation: str) -> Tensor:
    """Contract operands as an einsum equation says."""
    return equations.einsum(node, equation, operands)


def bilinear(
    node: OpBuilder, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """[..., o] = sum over i, j of x[..., i] * weight[o, i, j] * y[..., j], plus a bias."""
    dtype = x.details.dtype
    weight = node.converted(weight, dtype)
    if weight.details.rank != 3 or not x.details.rank or not y.details.rank:
        raise node.rule("weight must have 3 axes", str(weight.details))
    outputs, left, right = weight.details.plain_dims
    table = node.reshaped(node.transposed(weight, (1, 0, 2)), (left, outputs * right))
    lead, (*others, _) = x.details.plain_dims[:-1], y.details.plain_dims
    rows = node.reshaped(x, (x.details.elements // max(left, 1), left))
    half = node.reshaped(node.helper("matmul_core", rows, table), (*lead, outputs, right))
    contracted = node.helper("mul", half, node.reshaped(y, (*others, 1, right)))
    result = node.make("reduce_sum", contracted, axes=(-1,), keep_dims=False)
    return result if bias is None else node.helper("add", result, node.converted(bias, dtype))


def outer(node: OpBuilder, x: Tensor, y: Tensor) -> Tensor:
    """Each element of one vector times each of another."""
    if x.details.rank != 1 or y.details.rank != 1:
        raise node.rule("the inputs must be vectors", f"{x.details} and {y.details}")
    return node.make("mul", node.reshaped(x, (x.details.elements, 1)), y)


MAX_COLUMNS = 64
"""Columns of a panel of a grouped matmul: four registers of 512 bits."""


def grouped_matmul(node: OpBuilder, a: Tensor, b: Tensor, expert: Tensor) -> Tensor:
    """Return rows of a times the matrix of their expert, b [experts, k, n], in f32 or f64; `expert`: s64 [rows]."""
    wide = F64 if a.details.dtype == F64 else F32
    experts, k, n = b.details.plain_dims
    width = min(MAX_COLUMNS, max(n, 1))
    panels = -(-n // width)
    b, missing = node.converted(b, wide), (0, 0, panels * width - n)
    b = node.helper("pad", b, before=(0, 0, 0), after=missing) if missing[-1] else b
    b = node.transposed(node.reshaped(b, (experts, k, panels, width)), (0, 2, 1, 3))
    return node.sliced(node.helper("grouped_matmul", node.converted(a, wide), b, expert), 1, 0, n)


def kronecker(node: OpBuilder, x: Tensor, y: Tensor) -> Tensor:
    """Each element of x times y as a block."""
    rank = max(x.details.rank, y.details.rank)
    left, right = ((1,) * (rank - t.details.rank) + t.details.plain_dims for t in (x, y))
    x = node.reshaped(x, [n for size in left for n in (size, 1)])
    y = node.reshaped(y, [n for size in right for n in (1, size)])
    blocks = node.make("mul", x, y)
    return node.reshaped(blocks, [a * b for a, b in zip(left, right, strict=True)])
