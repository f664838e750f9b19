"""The steps of a matmul of dynamic rows, and those of a few rows, whose sums have another order when compiled alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...base.dims import bounds, is_known, substitute, symbols_of
from ...base.size_queries import typical, typical_all
from ...targets.isa import GemmTile
from ..nest.problem import Contraction
from ..ops.matmul import MAX_FEW
from .context import LowerContext
from .cost import Gemm, MatmulBlocking
from .matmul_steps import matmul_steps
from .matmul_tile import few_rows, pick_blocking, tile_of_plain


def steps_of_all_rows(problem: Contraction, blocking: MatmulBlocking, ctx: LowerContext) -> str:
    """Return the steps of a blocking; of dynamic sizes, those of a few rows follow."""
    steps, (low, high) = [matmul_steps(problem, blocking, ctx.target)], bounds(problem.sizes["m"])
    if not is_known(*(problem.sizes[axis] for axis in ("m", "n", "k"))):
        for rows, few in _few(problem, blocking.tile, ctx):
            steps += [f"specialize m {rows}", few] if low <= rows <= high else []
    return "; ".join(steps)


def _few(problem: Contraction, tile: GemmTile, ctx: LowerContext) -> Iterator[tuple[int, str]]:
    """Yield (rows, steps of their matmul)."""
    sizes, target, threads = problem.sizes, ctx.target, ctx.options.threads
    batch = math.prod(typical_all([sizes[axis] for axis in problem.batch]))
    if not is_known(sizes["n"], sizes["k"]):
        yield from _few_of_dynamic(problem, batch, ctx)
        return
    whole = Gemm(
        batch, typical(sizes["m"]), sizes["n"], sizes["k"], problem.kernel, target, threads
    )
    for rows, own in few_rows(whole, tile).items():
        yield rows, matmul_steps(problem.of_sizes(m=rows), own, target, exact=True)


def _few_of_dynamic(
    problem: Contraction, batch: int, ctx: LowerContext
) -> Iterator[tuple[int, str]]:
    """The same of matmuls whose columns or depth are dynamic too, where the number of rows says how many."""
    sizes = problem.sizes
    if is_known(sizes["m"]):
        return
    (symbol,) = symbols_of([sizes["m"]])[:1]
    for rows in range(1, MAX_FEW + 1):
        m, n, k = (substitute(sizes[axis], {symbol.name: rows}) for axis in ("m", "n", "k"))
        if m != rows or not isinstance(n, int) or not isinstance(k, int):
            break
        gemm = Gemm(batch, rows, n, k, problem.kernel, ctx.target, ctx.options.threads)
        blocking = pick_blocking(gemm, tile_of_plain(gemm, problem.b.strides["n"] == 1))
        yield rows, matmul_steps(problem.of_sizes(m=rows, n=n, k=k), blocking, ctx.target)
