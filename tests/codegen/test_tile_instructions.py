"""Instructions on two-dimensional registers: native code leaves what the meaning says, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import BF16, DType
from graphc.codegen.aot import assembly
from graphc.codegen.host import host_has, host_supports, target_for
from graphc.codegen.module import emit_module
from graphc.runtime.tile_permission import tiles_permitted
from graphc.targets.isa import INSTRUCTIONS, ISAS, Microkernel, Target
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.verifier import verify
from support.native_functions import NativeModule

ROWS = [(isa, row) for isa, table in ISAS.items() for row in table.microkernels if row.uses_tiles]
IDS = [row.multiply for _, row in ROWS]
needs_tiles = pytest.mark.skipif(
    not (host_supports("amx") and tiles_permitted()), reason="needs AMX"
)


def target_of(isa: str, row: Microkernel) -> Target:
    """The target, with the features of a row that it does not always have."""
    target = target_for(isa)
    optional = [feature for feature in row.needs if not target.has(feature)]
    return target_for("+".join([isa, *optional]))


def step(row: Microkernel, depth: int = 16) -> str:
    """C += A x B of one register each, whose operands are in memory."""
    a, b, c = row.a, row.b, row.accumulator
    a_size, b_size = (1024 // dtype.size for dtype in (a, b))
    return f"""\
def step(c: {c}[256], a: {a}[{a_size}], b: {b}[{b_size}], rows: s64):
    sums: {c}[256]
    left: {a}[{a_size}]
    right: {b}[{b_size}]
    tile_load_{c}(sums, c, rows, 16, 16)
    tile_load_{a}(left, a, rows, {a_size // 16}, {depth})
    tile_load_{b}(right, b, {depth}, {b_size // 16}, 16)
    {row.multiply}(sums, left, right, rows, {depth})
    tile_store_{c}(sums, c, rows, 16, 16)
"""


def values(dtype: DType, count: int, rng: np.random.Generator) -> np.ndarray:
    """All bytes; floats of many magnitudes, some of them subnormal."""
    if not dtype.is_float:
        limits = np.iinfo(dtype.numpy)
        return rng.integers(limits.min, limits.max, count, dtype.numpy, endpoint=True)
    size = np.exp2(rng.uniform(-70, 4, count))
    size[rng.random(count) < 0.1] = 1e-39
    return (rng.choice([-1, 1], count) * size).astype(dtype.numpy)


@needs_tiles
@pytest.mark.parametrize(("isa", "row"), ROWS, ids=IDS)
@pytest.mark.parametrize(("rows", "depth"), [(16, 16), (1, 1), (7, 3), (16, 5)])
def test_code_does_what_the_meaning_says(isa: str, row: Microkernel, rows: int, depth: int) -> None:
    if not host_has(*row.needs):
        pytest.skip(f"needs {', '.join(row.needs)}")
    module = parse_module(step(row, depth))
    verify(module, "final")
    rng = np.random.default_rng(rows + depth)
    operands = [values(dtype, 1024 // dtype.size, rng) for dtype in (row.accumulator, row.a, row.b)]
    NativeModule(module, target_for(isa)).check("step", [*operands, rows])


@pytest.mark.parametrize(("isa", "row"), ROWS, ids=IDS)
def test_each_operand_is_loaded_once(isa: str, row: Microkernel) -> None:
    """The assembly, on any machine: one configuration, no copy of a register on the stack."""
    module, target = parse_module(step(row)), target_of(isa, row)
    lines = assembly(emit_module(module, target), target).splitlines()
    names = [
        line.split()[0] for line in lines if line.startswith("\t") and not line.startswith("\t.")
    ]
    counts = {
        name: names.count(name) for name in ("ldtilecfg", "tileloadd", "tilestored", row.multiply)
    }
    assert counts == {"ldtilecfg": 1, "tileloadd": 3, "tilestored": 1, row.multiply: 1}


def test_every_instruction_has_a_form_for_its_operands() -> None:
    for _, row in ROWS:
        assert INSTRUCTIONS[row.multiply].needs[-1] in row.needs
        assert row.k_group * row.a.size == 4
    assert BF16 in {row.a for _, row in ROWS}
