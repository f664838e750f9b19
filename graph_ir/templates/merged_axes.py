"""Neighboring axes of a loop nest through which all operands run as through one.

before   for i in 0..7: for j in 0..7: acc += x[n * 49 + i * 7 + j]
after    for j in 0..49: acc += x[n * 49 + j]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...base.dims import Size, is_known
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.analysis import IndexAlgebra
from ...tensor_ir.nodes import Buffer, Expr, Let, Load, Stmt, Store, Var
from ...tensor_ir.sizes import elements_of
from ...tensor_ir.visitor import Node, children, vars_in
from ..ir.computation import Index
from ..ir.graph import GraphTensor


@dataclass(frozen=True)
class MergedAxes:
    """The loops that are left and their sizes; `index`: of each axis, 0 where another runs for it.

    An axis that runs for others goes beyond its size: the operands must be flat.
    """

    loops: tuple[Var, ...]
    sizes: tuple[Size, ...]
    index: Index

    def replaced(self, last: Expr) -> Index:
        """The index with another value of the last loop."""
        return tuple(last if x is self.loops[-1] else x for x in self.index)


def merged_axes(
    index: Sequence[Var], dims: Sequence[Size], body: Sequence[Stmt] | None
) -> MergedAxes:
    """The axes `index` of `dims` elements that `body` runs through; where there is none, all of more than one element.

    The last axis stays, even if it has one element.
    """
    if not dims:
        return MergedAxes(tuple(index), tuple(dims), tuple(index))
    left = [axis for axis, size in enumerate(dims) if size != 1] or [len(dims) - 1]
    found: list[tuple[Var, Size]] = []
    for axis in left:
        var, size = index[axis], dims[axis]
        if found and body is not None and _runs_on(found[-1][0], var, size, body):
            size = found.pop()[1] * size
        found.append((var, size))
    loops, sizes = zip(*found, strict=True)
    return MergedAxes(loops, sizes, tuple(x if x in loops else t.as_expr(0) for x in index))


def flat_buffers(buffers: Mapping[GraphTensor, Buffer]) -> dict[GraphTensor, Buffer]:
    """The same memory with one axis, where the sizes of all axes but the first are known."""
    return {
        x: Buffer(b.name, b.dtype, (elements_of(b.shape),))
        if is_known(*x.details.physical_dims[1:])
        else b
        for x, b in buffers.items()
    }


def _runs_on(outer: Var, inner: Var, size: Size, body: Sequence[Stmt]) -> bool:
    """Return whether a step along `outer` is everywhere `size` steps along `inner`."""
    algebra = IndexAlgebra()
    for access in _accesses(body):
        if not isinstance(access, Load | Store) or len(access.indices) != 1:
            if {outer.name, inner.name} & set(_names(access)):
                return False
            continue
        terms = algebra.affine(access.indices[0]).terms
        opaque = [
            vars_in(atom) for key, (atom, _) in terms.items() if key not in (outer.name, inner.name)
        ]
        if any({outer.name, inner.name} & set(names) for names in opaque):
            return False
        steps = [terms[x.name][1] if x.name in terms else 0 for x in (outer, inner)]
        if steps[0] != steps[1] * size:
            return False
    return True


def _names(node: Node) -> Iterator[str]:
    if isinstance(node, Load | Store):
        for i in node.indices:
            yield from vars_in(i)
    elif isinstance(node, Var):
        yield node.name


def _accesses(body: Sequence[Stmt]) -> Iterator[Node]:
    """Loads and stores, and variables outside of their indices."""
    stack: list[Node] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, Load | Var):
            yield node
            continue
        if isinstance(node, Store):
            yield node
            stack.append(node.value)
        else:
            stack.extend([node.value] if isinstance(node, Let) else children(node))
