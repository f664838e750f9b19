"""Schedules of a matmul: instructions besides tiles and blocks, and only those that suit the layouts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import BF16
from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Graph, Op
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.lowering.lower_graph import lower_graph
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.spaces import space_of
from graphc.targets.isa import Target
from support.lowered import build, integers, interpret

PAIRS = LowerContext(Target("avx512", features="+avx512bf16"))


def matmul(m: int = 12, n: int = 50, k: int = 40, **attrs: bool) -> Graph:
    a = (k, m) if attrs.get("transpose_a") else (m, k)
    return build(
        {"a": a, "b": (k, n)}, lambda make, x: make("matmul_core", *x.values(), **attrs), BF16
    )


def optimized(graph: Graph, ctx: LowerContext) -> tuple[Graph, Op]:
    work = graph.copy()
    pipeline.run(work, ctx)
    return work, next(op for op in work.ops if op.op_name == "matmul_core")


@pytest.mark.parametrize(
    "requested", ["use=dot2 b=panels", "use=fma b=panels", "use=dot2 b=plain", "use=fma"]
)
@pytest.mark.parametrize("m", [12, 200])
def test_the_instruction_is_part_of_the_schedule(m: int, requested: str) -> None:
    """Groups of k in the panels, and the kernel, follow what was requested."""
    ctx = replace(PAIRS, requested={"matmul_core": parse_schedule(requested)})
    graph = matmul(m)
    work, op = optimized(graph, ctx)
    use = parse_schedule(requested).word("use")
    assert op.schedule is not None and op.schedule.word("use") == use
    fmt = op.inputs[1].details.format
    assert not fmt.is_blocked or ("2k" in str(fmt)) == (use == "dot2")
    arrays = [integers(x.outputs[0].details.plain_dims, i) for i, x in enumerate(graph.inputs)]
    inputs = [x.astype(BF16.numpy) for x in arrays]
    result = np.zeros((m, 50), BF16.numpy)
    interpret(lower_graph(work, ctx), inputs, [result])
    np.testing.assert_array_equal(result, (arrays[0] @ arrays[1]).astype(BF16.numpy))


def test_instructions_on_offer_follow_the_layouts() -> None:
    """Few rows read a plain B in place, one k at a time; rows of a transposed A have no neighboring k."""
    plain, panels = (
        replace(PAIRS, requested={"matmul_core": parse_schedule(f"b={b}")})
        for b in ("plain", "panels")
    )
    for graph, ctx, offered in (
        (matmul(), plain, ["fma", "dot2"]),
        (matmul(200), plain, ["dot2", "fma"]),
        (matmul(200), panels, ["dot2"]),
        (matmul(200, k=41), panels, ["fma"]),
        (matmul(200, transpose_a=True), plain, ["fma"]),
    ):
        space = space_of(optimized(graph, ctx)[1], ctx)
        assert space is not None
        assert list(dict.fromkeys(s.word("use") for s in space.candidates)) == offered


def test_an_instruction_that_cannot_run_is_refused() -> None:
    graph = matmul(transpose_a=True)
    for use in ("dot2", "dot4"):
        ctx = replace(PAIRS, requested={"matmul_core": parse_schedule(f"use={use}")})
        with pytest.raises(UserError, match="schedule of 'matmul_core': use must be fma in"):
            optimized(graph, ctx)
