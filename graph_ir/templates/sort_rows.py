"""Loop nest of row sorts: the first elements of each row in order, and their indices.

for each row:
    few of many: the best of each of some groups of elements; the k-th of these is a bound that at least k elements
                 reach; entries of the elements that do, of those that equal it only the first k
    else:        entries of all elements
    sort the entries: by insertion if they are few, else digit by digit
    values and indices of the first k

An entry is a key, an unsigned integer in the order wanted, and the index of its element; both sorts keep the order of
equal keys, so that the lowest index comes first. The work is linear in the row for any values. Entries lie in the
workspace, twice for each task; a task sorts its rows one after the other.
"""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import S64
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function
from .radix_sort import WIDE_ROWS, Entries, collect, sort
from .sort_keys import KeyKind, is_exact, key_kind, key_of, value_of


@dataclass(frozen=True)
class RowSort:
    """Sizes in elements, numbers or dynamic, and whether the largest elements come first.

    `groups`: groups for the selection, 1 for none; dynamic rows are too short for it where they have fewer than
    `least` elements. `tasks`: how many parts of the rows run in parallel.
    """

    rows: int | Expr
    n: int | Expr
    k: int | Expr
    largest: bool
    groups: int
    tasks: int
    least: int = 0


def sort_rows_function(
    name: str,
    buffers: tuple[Buffer, Buffer, Buffer],
    workspace: tuple[Buffer, ...],
    shape: RowSort,
    note: str,
) -> Function:
    """Return the function (x, values, indices, *workspace) of flat buffers.

    `workspace`: of each task two rows of words, the best element of each group, and indices of keys of 64 bits.
    """
    params = (*buffers, *workspace)
    b = t.LoopBuilder(buffer.name for buffer in params)
    if shape.rows != 0 and shape.k != 0:
        rows = b.let("rows", shape.rows + (shape.tasks - 1))
        each = b.let("each", rows // shape.tasks)
        with b.loop("task", 0, shape.tasks, "parallel" if shape.tasks > 1 else "serial") as task:
            begin = task * each
            with b.loop("row", begin, t.minimum(begin + each, shape.rows)) as row:
                _Row(b, buffers, workspace, shape, (task, row)).run()
    return b.function(name, params, note)


class _Row:
    """One row."""

    def __init__(
        self,
        b: t.LoopBuilder,
        buffers: tuple[Buffer, Buffer, Buffer],
        workspace: tuple[Buffer, ...],
        shape: RowSort,
        at: tuple[Expr, Expr],
    ) -> None:
        task, self.row = at
        self.b, self.shape = b, shape
        self.x, self.values, self.indices = buffers
        words, self.best, *tails = workspace
        self.wide = self.best.dtype
        self.kind: KeyKind = key_kind(self.x.dtype)
        self.first = b.let("first", self.row * shape.n)
        self.groups = b.let("groups", task * shape.groups)
        near = b.let("near", task * (shape.n * 2))
        indices = tails[0] if tails else None
        self.pair = (
            Entries(words, indices, near),
            Entries(words, indices, b.let("far", near + shape.n)),
        )

    def run(self) -> None:
        """Emit all of the row."""
        b, shape = self.b, self.shape
        if shape.groups == 1:
            self._all()
        elif isinstance(shape.n, int):
            self._selected()
        else:
            with b.when(shape.n >= shape.least):
                self._selected()
            with b.otherwise():
                self._all()

    def _all(self) -> None:
        """Sort all elements."""
        b, n = self.b, self.shape.n
        with b.loop("i", 0, n, "vector") as i:
            self._put(i, self._element(i), i)
        self._sort(t.as_expr(n), n if isinstance(n, int) else 0, self._write)

    def _selected(self) -> None:
        """Sort those that reach a bound."""
        b, shape = self.b, self.shape
        bound = b.allocate("bound", self.wide, (1,))
        self._bound(bound)
        least = b.let("least", bound[0])
        ties = b.allocate("ties", S64, (1,))
        b.store(ties, (0,), 0)

        def fails(i: Expr) -> Expr:
            """Return whether an element fails, also one that equals the bound after k of them: rows of few different
            values have many."""
            value = self._element(i)
            spare = ties[0] > shape.k
            equal = t.equal(value, least)
            return self._fails(value, least) | equal & spare

        def put(at: Expr, i: Expr) -> None:
            value = b.let("value", self._element(i))
            self._put(at, value, i)
            tie = t.select(t.equal(value, least), t.const(1, S64), t.ZERO)
            b.store(ties, (0,), ties[0] + tie)

        self._sort(collect(b, shape.n, fails, put), 0, self._write)

    def _sort(self, count: Expr, known: int, write: Callable[[Entries], None]) -> None:
        k = self.shape.k
        width = 11 if isinstance(k, int) and k >= WIDE_ROWS and not known else 0
        sort(self.b, self.kind, self.pair, count, known, write, width)

    def _element(self, i: Expr) -> Expr:
        return t.cast(self.x[self.first + i], self.wide)

    def _key(self, value: Expr) -> Expr:
        return key_of(self.b, value, self.kind, self.shape.largest)

    def _put(self, at: Expr, value: Expr, index: Expr) -> None:
        self.pair[0].put(self.b, at, self._key(value), index)

    def _best_of(self, g: Expr) -> Expr:
        return self.best[self.groups + g]

    def _bound(self, bound: Buffer) -> None:
        """The k-th of the groups' best elements. Element i is of group i % groups, so that vectors are neighbors."""
        b, shape, groups = self.b, self.shape, self.shape.groups
        with b.loop("g", 0, groups, "vector") as g:
            b.store(self.best, (self.groups + g,), self._element(g))
        whole = b.let("whole", t.as_expr(shape.n) // groups)
        with b.loop("round", 1, whole) as number:
            self._improve(b.let("base", number * groups), t.as_expr(groups))
        base = b.let("base", whole * groups)
        self._improve(base, shape.n - base)
        with b.loop("g", 0, groups, "vector") as g:
            self._put(g, self._best_of(g), g)

        def keep(found: Entries) -> None:
            which = b.let("which", found.index(b, t.as_expr(shape.k) - 1))
            b.store(bound, (0,), self._best_of(which))

        self._sort(t.as_expr(groups), groups, keep)

    def _improve(self, base: Expr, count: Expr) -> None:
        b, better = self.b, "max" if self.shape.largest else "min"
        with b.loop("g", 0, count, "vector") as g:
            value = t.binary(better, self._best_of(g), self._element(base + g))
            b.store(self.best, (self.groups + g,), value)

    def _fails(self, value: Expr, least: Expr) -> Expr:
        """Return whether an element cannot be among the first k; never NaN."""
        return t.compare("lt" if self.shape.largest else "gt", value, least)

    def _write(self, found: Entries) -> None:
        """Write indices, and values from their keys: elements of a long row are far apart in memory."""
        b, start, largest = self.b, self.row * self.shape.k, self.shape.largest
        with b.loop("i", 0, self.shape.k) as i:
            key, to = b.let("key", found.key(b, i)), b.let("to", start + i)
            index = b.let("index", found.index(b, i))
            b.store(self.indices, (to,), index)
            b.store(self.values, (to,), value_of(b, key, self.kind, largest))
            exact = is_exact(key, self.kind, largest)
            if exact is not None:
                with b.when(~exact):
                    b.store(self.values, (to,), self.x[self.first + index])
