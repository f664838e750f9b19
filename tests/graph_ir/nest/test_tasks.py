"""Tasks whose number is known when a kernel runs: each once, in one chunk where threads do not pay."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32, S64
from graphc.graph_ir.nest.nest import Sharing, contraction
from graphc.graph_ir.nest.position import Position
from graphc.graph_ir.nest.problem import View, matmul
from graphc.graph_ir.nest.schedule_text import apply
from graphc.graph_ir.nest.tasks import batch_indices, shared_tasks, task_loops
from graphc.targets.isa import Target
from graphc.targets.microkernels import f32_kernel
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Block, Buffer, Expr, Module, Stmt, Var

N = size(Symbol("N"))


@pytest.mark.parametrize("least", [0, 1000])
def test_each_index_of_a_batch_is_one_task(least: int) -> None:
    found = Buffer("found", S64, (7, 3, 2))
    names, b = tuple(map(Var, ("i", "j", "k"))), t.LoopBuilder(("found",))
    with shared_tasks(b, t.as_expr(6 * N), Sharing(2, least).pays(6 * N)) as task:
        b.emit(*batch_indices(names, (N, 3, 2), task))
        b.store(found, names, found[names] + 1)
    module = Module((b.function("main", (found, Var("size_N"))),))
    for number in (0, 1, 4, 7):
        times = np.zeros((7, 3, 2), np.int64)
        interpreter.run(module, "main", [times, number])
        assert (times[:number] == 1).all() and not times[number:].any()


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 7])
def test_each_panel_is_in_one_chunk(threads: int) -> None:
    """Chunks that begin behind the last panel once stored a narrow one too, while another thread added to it."""
    found = Buffer("found", S64, (40,))
    for columns in (3, 16, 130, 142, 144, 300):
        views = [View(Buffer(x, F32, (1 << 20,)), {}) for x in "abc"]
        problem = matmul(
            (), (N, columns, 64), (views[0], views[1], views[2]), f32_kernel(Target("avx2")), None
        )
        steps = "split n 16; split m even 64; chunk n0; reorder n0_chunk m0 n0 m1 n1 k; tensorize 6x2 over m1 n1 k; "
        nest = contraction(problem).changed(sharing=Sharing(threads, 0))
        nest = apply(nest, f"{steps}parallelize n0_chunk m0")

        def body(_: int, position: Position, columns: int = columns) -> Stmt:
            b, chunk = t.LoopBuilder(("found",)), position.chunks["n0"]
            with b.loop("panel", chunk.begin, chunk.end) as panel:
                b.store(found, (panel,), found[panel] + 1)
            has_tail: Expr | bool = True if chunk.has_tail is None else chunk.has_tail
            with b.when(has_tail):
                b.store(found, (columns // 16,), found[columns // 16] + (columns % 16 > 0))
            return t.block_of(b.statements())

        made = task_loops(nest, Position.outermost(problem), body)
        b = t.LoopBuilder(("found",))
        b.emit(made if isinstance(made, Block) else Block((made,)))
        module = Module((b.function("main", (found, Var("size_N"))),))
        times = np.zeros(40, np.int64)
        interpreter.run(module, "main", [times, 8])
        assert times.tolist() == [1] * -(-columns // 16) + [0] * (40 - -(-columns // 16)), columns
