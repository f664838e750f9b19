from __future__ import annotations

import numpy as np
import pytest

from graphc.targets.isa import Target
from graphc.tensor_ir import pipeline
from graphc.tensor_ir.nodes import Module
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.printer import print_module
from graphc.tensor_ir.verifier import verify
from support.golden import Golden
from support.loop_programs import PROGRAMS
from support.loops import assert_same_meaning

# Accumulators in registers, bias and relu in the epilogue, split among tasks, then a softmax-like row pass.
MODEL = """entry = "main"


def gemm(a: f32[96], b: f32[272], bias: f32[17], c: f32[102]):
    for m in parallel(0, 2):
        with brgemm(c.at(m * 51), a.at(m * 48), b, m=3, n=17, k=16, batch=1, a_batch=0, a_row=16, a_col=1, b_batch=0, \
b_row=17, c_row=17, accumulate=False, n_padded=17, tile_rows=2, acc=f32) as (row, col, acc):
            t = acc + bias[col]
            return max(t, 0.0)


def rows(c: f32[6, 17], y: f32[6, 17]):
    for i in parallel(0, 6):
        top: f32[1]
        top[0] = f32("-inf")
        for j in vector(0, 17):
            top[0] = max(top[0], c[i, j])
        for j in vector(0, 17):
            y[i, j] = c[i, j] - top[0]


def main(a: f32[96], b: f32[272], bias: f32[17], y: f32[102], arena: u8[1024]):
    gemm(a, b, bias, arena.at(64))
    rows(arena.at(64), y)
"""


@pytest.mark.parametrize("isa", ["avx512", "avx2", "generic"])
def test_every_stage_of_a_model_means_the_same(isa: str, rng: np.random.Generator) -> None:
    before = parse_module(MODEL)
    stages: list[tuple[int, str]] = []

    def on_stage(position: int, name: str, module: Module, changed: bool) -> None:
        stages.append((position, name))
        assert changed == (module is not previous[-1])
        assert_same_meaning(before, module, rng)
        previous.append(module)

    previous = [before]
    after = pipeline.run(before, Target(isa), on_stage)
    assert stages == [(position, one.__name__) for position, one in enumerate(pipeline.PASSES)]
    verify(after, "final")
    assert after.entry == "main" and after is previous[-1]


def test_text(golden: Golden) -> None:
    after = pipeline.run(parse_module(MODEL), Target("avx2"))
    kept = tuple(function for function in after.functions if not function.name.startswith("gemm__"))
    # The text of tiles is that of expand_brgemm's test.
    golden(print_module(Module(kept, after.entry)))


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("n", [0, 1, 8, 17, 67])
def test_programs(program, n: int, rng: np.random.Generator) -> None:  # type: ignore[no-untyped-def]
    after = pipeline.run(program(n), Target("avx2"))
    verify(after, "final")
    assert_same_meaning(program(n), after, rng)
    assert pipeline.run(after, Target("avx2")) is after  # nothing is left to do
