"""The assembly of matrix multiplication: accumulators in registers, each element of A and B loaded once per k."""

from __future__ import annotations

import re

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.codegen.aot import assembly
from graphc.codegen.host import target_for
from graphc.codegen.module import emit_module
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Block, Buffer, Function, Module
from graphc.tensor_ir.passes.expand_brgemm import expand_brgemm
from support.native_functions import SHAPES, NativeModule, runnable_target

ROWS_OF_TILES, K = 4, 64


def matmul(rows: int, columns: int, k: int = K) -> Module:
    """C = A x B with A row-major, split into tiles of `rows` rows and all columns."""
    m = rows * ROWS_OF_TILES
    a, b, c = (
        Buffer(n, F32, (s,)) for n, s in zip("abc", (m * k, k * columns, m * columns), strict=True)
    )
    brgemm = t.brgemm(
        t.slice_of(c), t.slice_of(a), t.slice_of(b), m=m, n=columns, k=k, batch=1, a_batch=0, a_row=k, a_col=1,
        b_batch=0, b_row=columns, c_row=columns, accumulate=False, n_padded=columns, tile_rows=rows,
    )  # fmt: skip
    return Module((Function("gemm", (a, b, c), Block((brgemm,))),))


def inner_loop(text: str) -> list[str]:
    """The instructions between a label and the jump back to it, of the loop with the most multiply-adds."""
    loops = re.findall(r"^(\.L\w+):[^\n]*\n((?:\t[^\n]*\n)*?\tj\w+\t\1\n)", text, re.MULTILINE)
    bodies = [body.splitlines() for _, body in loops]
    return max(bodies, key=lambda body: sum("vfmadd" in line for line in body))


@pytest.mark.parametrize("isa, rows, vectors", [("avx2", 6, 2), ("avx2", 4, 3), ("avx512", 8, 3)])
def test_accumulators_stay_in_registers(isa: str, rows: int, vectors: int) -> None:
    target = target_for(isa)
    module = expand_brgemm(matmul(rows, vectors * target.lanes(F32)), target)
    text = assembly(emit_module(module, target), target)
    assert "rsp" not in text, "something is spilled to the stack"
    loop = inner_loop(text)
    fmas = sum("vfmadd231ps" in line for line in loop)
    k_steps, rest = divmod(fmas, rows * vectors)
    assert k_steps and not rest
    moves = [line for line in loop if line.startswith("\tvmov")]
    # Loads of B; one may be an operand of its only multiply-add.
    assert len(moves) == vectors * k_steps
    assert all("(%r" in line.split(", %")[0] for line in moves), "a register is copied or stored"
    assert sum("vbroadcastss" in line for line in loop) == rows * k_steps


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "rows, columns, k", [(6, 16, 9), (4, 24, 8), (3, 13, 5), (1, 1, 1), (2, 7, 3), (5, 33, 4)]
)
def test_matmuls(shape: str, rows: int, columns: int, k: int) -> None:
    """Small integers, for which every order of the sum is exact."""
    target = runnable_target(shape)
    native = NativeModule(expand_brgemm(matmul(rows, columns, k), target), target)
    arrays = [
        _numbers(rows * ROWS_OF_TILES * k),
        _numbers(k * columns),
        _numbers(rows * ROWS_OF_TILES * columns),
    ]
    native.check("gemm", arrays)


def _numbers(count: int) -> np.ndarray:
    return (np.arange(count) % 7 - 3).astype(np.float32)
