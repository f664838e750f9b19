"""Loop nest of scatter: copies the data, then combines each run of updates into its position, in order.

out = data
for each run u of updates:
  if its index is inside: for j in the run: out[index + j] = combine(out[index + j], updates[u, j])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base.dtypes import S64
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function, Let, LoopKind
from ..ir.group_values import narrow, widen
from ..ir.schedule import Schedule

Combine = Callable[[Sequence[Expr], Sequence[Expr]], tuple[list[Let], list[Expr]]]
"""(old elements, updates), 16-bit floats as f32 -> (bindings, new elements)."""


@dataclass(frozen=True)
class ScatterProblem:
    """Sizes in elements: `size` of each data array, `runs` of updates, `run` elements each."""

    size: int
    runs: int
    run: int


def scatter_function(
    name: str,
    params: Sequence[Buffer],
    arrays: Sequence[tuple[Buffer, Buffer, Buffer]],
    indices: Buffer,
    problem: ScatterProblem,
    combine: Combine,
    schedule: Schedule,
    note: str,
) -> Function:
    """The function with parameters `params`. `arrays`: (data, updates, result) of each scattered array, all flat.

    `schedule`: how the data are copied (`ScatterSpace`).
    """
    b = t.LoopBuilder(buffer.name for buffer in params)
    for data, _, out in arrays:
        _copy(b, data, out, problem.size, schedule)
    if 0 not in (problem.size, problem.run):
        kind: LoopKind = "vector" if problem.run > 1 else "serial"
        with b.loop("u", 0, problem.runs) as u:
            index = b.let("index", t.cast(indices[u], S64))
            last = problem.size - problem.run
            inside = (index >= 0) & (index <= last)
            with b.when(inside), b.loop("j", 0, problem.run, kind) as j:
                target = index + j
                old = [widen(out[target]) for _, _, out in arrays]
                source = u * problem.run + j
                new = [widen(updates[source]) for _, updates, _ in arrays]
                lets, values = combine(old, new)
                b.emit(*lets)
                named = [b.let("new", value) for value in values]  # read all before writing any
                for (_, _, out), value in zip(arrays, named, strict=True):
                    b.store(out, (target,), narrow(value, out.dtype))
    return b.function(name, params, note)


def _copy(b: t.LoopBuilder, data: Buffer, out: Buffer, size: int, schedule: Schedule) -> None:
    if schedule.number("tasks") > 1:
        piece = schedule.number("piece")
        with b.loop("task", 0, (t.as_expr(size) + (piece - 1)) // piece, "parallel") as task:
            begin = task * piece
            end = t.minimum(begin + piece, size)
            with b.loop("i", begin, end, "vector") as i:
                b.store(out, (i,), data[i])
    else:
        with b.loop("i", 0, size, "vector") as i:
            b.store(out, (i,), data[i])
