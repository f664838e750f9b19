"""Kernels for AArch64, run in QEMU: bytes give the exact integers, floats the bits of the same loops on x86.

Those are compiled for `twin`, an instruction set with the vectors, registers and multiply-adds of AArch64 on x86.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graphc.codegen.host import target_for
from graphc.lab.problem import Problem
from graphc.lab.read import read_problem
from graphc.lab.trial import Bench, build, source_graph
from graphc.runtime.executor import CompiledModel
from graphc.targets.isa import ISAS, Target
from support.emulated import needs_emulator, run_emulated

pytestmark = needs_emulator


@pytest.fixture
def twin() -> Iterator[Target]:
    """The target whose kernels have the loops of AArch64 and run here."""
    own = ISAS["avx2"]
    ISAS["twin"] = replace(
        ISAS["aarch64"], name="twin", triple="", cpu=own.cpu, needs=own.needs, features=own.features,
        implied=own.implied,
    )  # fmt: skip
    like = target_for("aarch64")
    machine = replace(
        like.machine, rates={**like.machine.rates, "twin": like.machine.rates["aarch64"]}
    )
    features = ",".join(f"+{feature}" for feature in own.features)
    yield replace(like, isa="twin", cpu=own.cpu, features=features, machine=machine)
    del ISAS["twin"]


def emulated(problem: Problem, target: str, folder: Path) -> list[np.ndarray]:
    compilation = build(problem, Bench(target_for(target), 1))
    return run_emulated(compilation, [*problem.arrays({}).values()], folder)


@pytest.mark.isa("avx2", "fma")
@pytest.mark.parametrize(
    "text",
    [
        "matmul m9n40k24 f32 +bias+gelu", "matmul b2m5n7k9 f64", "matmul m13n33k20 bf16",
        "conv c4h7w9o20k3p1 f32 +bias+relu", "conv c16h10w10o16k3p1 f32", "conv c8h6w6o24k1 f32 +silu",
        "dwconv c17h9w9k3p1s2 f32", "attention h2s9t11d16 f32", "softmax 7x33", "layernorm 5x40",
        "reduce sum 0 9x13", "reduce logsumexp 1 9x13", "transpose 201 3x5x7",
        "y = tanh(x) * erf(z) + exp(x) / 3 9x17", "y = sin(x) + log(abs(x) + 1) ** 2 5x13",
        "QuantizeLinear(f32[9, 13], 0.05, u8(128))", "TopK(f32[5, 40], [7], results=2)",
    ],
)  # fmt: skip
def test_floats_have_the_bits_of_the_same_loops(text: str, twin: Target, tmp_path: Path) -> None:
    problem = read_problem(text)
    found = emulated(problem, "aarch64", tmp_path)
    with CompiledModel(build(problem, Bench(twin, 1)).artifact, 1) as model:
        expected = model.run(None, problem.arrays({}))
    for result, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("features", ["", "+dotprod", "+dotprod+i8mm"])
@pytest.mark.parametrize(
    "text", ["matmul m9n40k25 u8xs8", "matmul m33n9k16 s8xs8", "conv c5h6w7o9k3p1 u8xs8"]
)
def test_sums_of_bytes_are_exact(text: str, features: str, tmp_path: Path) -> None:
    problem = read_problem(text)
    (found,) = emulated(problem, f"aarch64{features}", tmp_path)
    (expected,) = source_graph(problem, {}).evaluate([*problem.arrays({}).values()])
    np.testing.assert_array_equal(found, expected)
