"""Tasks whose number is known when a kernel runs: each once, in one chunk where threads do not pay."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import S64
from graphc.graph_ir.nest.nest import Sharing
from graphc.graph_ir.nest.tasks import batch_indices, shared_tasks
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Buffer, Module, Var

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
