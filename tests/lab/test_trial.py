"""Problems of every kind are built and right, and measured beside their roof and other engines."""

from __future__ import annotations

import pytest

from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.codegen.host import target_for
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.nest.operations import matmul_tiles
from graphc.lab.read import read_problem
from graphc.lab.trial import OURS, Bench, measure

SMALL = [
    "matmul m9n40k24 f64 +bias+gelu+add", "matmul b2m5n7k9 f16", "matmul m=1..7n40k24 bf16 +silu",
    "matmul m5n33k20 s8xs8", "matmul m3n8k64 mxfp4", "gemv n16k256 q6_k", "conv c4h7w9o20k3p1 f32 +bias+relu",
    "conv c8w30o16k5s2 bf16", "conv c4h6w6o8k3 u8xs8", "dwconv n2c17h9w9k3p1 f32 +bias",
    "attention h2s17t19d16 f32 causal", "softmax 7x33", "layernorm 5x40 bf16", "rmsnorm 3x4x24 f32 +mul",
    "reduce mean 0,2 3x5x7", "reduce argmax 1 9x11", "transpose 201 3x5x7 u8",
    "y = (x - z) / s1 ** 2 + tanh(w) 9x17", "Gather(f32[9, 8], below(9, s64[5]))",
]  # fmt: skip


@pytest.mark.parametrize("text", SMALL)
def test_every_kind_is_right(text: str) -> None:
    found = measure(read_problem(text), Bench(target_for("native"), 1, seconds=0.002))
    for row in found.rows:
        assert row.timings[OURS].median > 0 and row.roof_seconds >= 0 and row.nbytes > 0
    assert found.kernels


def test_other_engines_are_checked_and_named_where_they_cannot_run_it() -> None:
    bench = Bench(target_for("native"), 1, ("ort",), 0.01)
    row = measure(read_problem("matmul m8n16k16"), bench).rows[0]
    assert row.timings.keys() == {"graphc", "ort"} and not row.wrong
    assert "<td" in measure(read_problem("matmul m8n16k16"), bench)._repr_html_()
    assert "ort" in measure(read_problem("gemv n8k32 q4_0"), bench).rows[0].refused


def test_a_schedule_is_taken_or_refused() -> None:
    bench = Bench(target_for("native"), 1, seconds=0.002)
    problem, lanes = read_problem("matmul m30n64k8"), bench.target.lanes(F32)
    (kernel,) = measure(problem, bench, parse_schedule("mr=2 nv=2 kc=4")).kernels
    assert "tensorize 2x2" in kernel.schedule and "split k 4" in kernel.schedule
    (kernel,) = measure(problem, bench, lambda nest: matmul_tiles(nest, "2x1", lanes, 6)).kernels
    assert kernel.schedule.startswith(f"split n {lanes}; split m 6; ")
    with pytest.raises(UserError, match="there is no parameter 'zz'"):
        measure(problem, bench, parse_schedule("zz=1"))
