"""specialize m 1

before   the nest of any m, as scheduled so far
after    if m == 1: the naive nest of m = 1, which the steps that follow schedule
         else: the nest of any m, as scheduled so far

Sizes that depend on m become known too. Several values take several steps, each followed by its own schedule.
"""

from __future__ import annotations

from ....base.dims import bounds, is_known, substitute
from ....base.errors import UserError
from ....base.size_queries import lone_symbol
from ..nest import Case, Nest, contraction


def specialize(nest: Nest, axis: str, size: int) -> Nest:
    """Begin the nest of one size of an axis. Raise UserError unless the axis is dynamic and may have that size."""
    if axis not in nest.any_size.problem.sizes:
        raise UserError(
            f"schedule: specialize {axis}: the axis must be one of {', '.join(nest.problem.sizes)}"
        )
    problem = nest.any_size.problem
    low, high = bounds(problem.sizes[axis])
    if is_known(problem.sizes[axis]):
        raise UserError(
            f"schedule: specialize {axis} {size}: the size must be dynamic, and {axis} is always {low}"
        )
    if not low <= size <= high:
        raise UserError(
            f"schedule: specialize {axis} {size}: the size must be one of {low} to {high}"
        )
    if any(case == (axis, size) for case in nest.cases):
        raise UserError(f"schedule: specialize {axis} {size}: each size must be specialized once")
    symbol = lone_symbol(problem.sizes[axis])
    values = {symbol.name: size} if symbol else {}
    sizes = {name: substitute(one, values) for name, one in problem.sizes.items()}
    special = contraction(problem.of_sizes(**{**sizes, axis: size}))
    return special.changed(sharing=nest.sharing, otherwise=Case(axis, size, nest))
