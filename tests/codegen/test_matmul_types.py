"""Matmuls of every row of the microkernel table: native code, interpreter and NumPy agree at every boundary."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import F16, S8, S32, U8
from graphc.base.errors import InternalError
from graphc.codegen.aot import assembly
from graphc.codegen.host import target_for
from graphc.codegen.module import emit_module
from graphc.targets.isa import ISAS, Microkernel, Target
from graphc.targets.microkernels import find_microkernel
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Brgemm, Buffer, Epilogue, Matrices, Module, Var
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.passes.expand_brgemm import expand_brgemm
from graphc.tensor_ir.pipeline import run
from graphc.tensor_ir.printer import print_module
from graphc.tensor_ir.verifier import verify
from support.native_functions import NativeModule, runnable_target

VECTORS = {name: isa for name, isa in ISAS.items() if isa.tiles is None and not isa.triple}
ROWS = [(name, row) for name, isa in VECTORS.items() for row in isa.microkernels]
IDS = [f"{isa}-{r.a}x{r.b}-{r.instruction}-{'-'.join(r.needs)}" for isa, r in ROWS]


def matmul(kernel: Microkernel, m: int, n: int, k: int, rows: int, to_a: bool = False) -> Module:
    """C = A x B, or that converted to A's type; A row-major, B in one panel with its groups of k innermost."""
    group, acc = kernel.k_group, kernel.accumulator
    a = Buffer("a", kernel.a, (max(m * k, 1),))
    b = Buffer("b", kernel.b, (max(-(-k // group) * n * group, 1),))
    c = Buffer("c", kernel.a if to_a else acc, (max(m * n, 1),))
    row, col, total = Var("row"), Var("col"), Var("total", acc)
    epilogue = Epilogue(row, col, total, t.cast(total + total, kernel.a)) if to_a else None
    brgemm = t.brgemm(
        t.slice_of(c), t.slice_of(a), t.slice_of(b), m=m, n=n, k=k, batch=1, a_batch=0, a_row=k, a_col=1, b_batch=0,
        b_row=n * group, c_row=n, accumulate=False, n_padded=n, tile_rows=rows, k_group=group, epilogue=epilogue,
    )  # fmt: skip
    body = t.LoopBuilder()
    body.emit(brgemm)
    return Module((body.function("gemm", (a, b, c)),))


def arrays(kernel: Microkernel, module: Module, k: int, rng: np.random.Generator) -> list:
    """Small integers for floats, every value of the type for integers; what lies behind the last k is zero in B."""
    made = []
    for buffer in module.functions[0].params:
        assert isinstance(buffer, Buffer)
        low, high = -8, 8
        if not buffer.dtype.is_float:
            low, high = np.iinfo(buffer.dtype.numpy).min, np.iinfo(buffer.dtype.numpy).max + 1
        made.append(rng.integers(low, high, buffer.shape).astype(buffer.dtype.numpy))
    rest = k % kernel.k_group
    if rest:
        groups = made[1].reshape(-(-k // kernel.k_group), -1, kernel.k_group)
        groups[-1, :, rest:] = 0
    return made


def plain_matmul(kernel: Microkernel, data: list, m: int, n: int, k: int) -> np.ndarray:
    """A x B in integers or float64, B taken out of its panel."""
    group = kernel.k_group
    wide = np.float64 if kernel.accumulator.is_float else np.int64
    a = data[0][: m * k].reshape(m, k).astype(wide)
    b = data[1][: -(-k // group) * n * group].reshape(-1, n, group).swapaxes(1, 2).reshape(-1, n)
    return (a @ b[:k].astype(wide)).astype(kernel.accumulator.numpy)


def sizes(kernel: Microkernel, target: Target) -> list[tuple[int, int, int]]:
    """Around the tile and the group, and none at all."""
    lanes, group = target.lanes(kernel.accumulator), kernel.k_group
    tile = kernel.tiles[0]
    columns = tile.columns(target, kernel.accumulator)
    return [
        (1, 1, 1), (0, 3, 4), (3, 5, 0), (tile.rows, columns, 8 * group), (3, 2, 13), (2, columns, group + 2),
        (tile.rows + 1, columns - 1, 4 * group + 1), (tile.rows - 1, lanes + 1, 3 * group - 1),
        (2 * tile.rows + 1, lanes - 1, 7),
    ]  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa, kernel", ROWS, ids=IDS)
@pytest.mark.parametrize("to_a", [False, True], ids=["sums", "converted"])
def test_matmuls(isa: str, kernel: Microkernel, to_a: bool, rng: np.random.Generator) -> None:
    target = runnable_target(isa)
    for m, n, k in sizes(kernel, target):
        module = matmul(kernel, m, n, k, kernel.tiles[0].rows, to_a)
        assert parse_module(print_module(verify(module))) == module
        data = arrays(kernel, module, k, rng)
        native = NativeModule(run(module, target), target)
        if not to_a and m * n:
            wanted = plain_matmul(kernel, data, m, n, k)
            native.call("gemm", data)
            np.testing.assert_array_equal(data[2].reshape(m, n), wanted)
        native.check("gemm", data)


@pytest.mark.parametrize("isa, kernel", ROWS, ids=IDS)
def test_accumulators_stay_in_registers(isa: str, kernel: Microkernel) -> None:
    """The widest tile of each row fits the registers of its ISA, whatever is converted on the way."""
    if isa == "generic":
        pytest.skip("SSE2 converts 16-bit floats in too many steps for its 16 registers")
    target, tile = only(target_for(isa), kernel.needs), kernel.tiles[0]
    kernel = replace(kernel, a=kernel.copied_a)
    columns = tile.columns(target, kernel.accumulator)
    module = matmul(kernel, tile.rows, columns, 64 * kernel.k_group, tile.rows)
    loop = inner_loop(assembly(emit_module(expand_brgemm(module, target), target), target))
    assert not any("rsp" in line for line in loop), f"{tile} spills to the stack"
    apart = kernel.b == F16 and kernel.k_group > 1
    name = INSTRUCTIONS["fma" if apart else kernel.instruction]
    matmuls = [line for line in loop if re.search(name, line)]
    # s8 x s8 by the instruction for u8 x s8 takes one more for each vector of B.
    extra = tile.vectors if kernel.a == S8 and kernel.needs else 0
    assert len(matmuls) % (tile.rows * tile.vectors) == extra < len(matmuls)
    conversions = [line for line in loop if "vcvtph2ps" in line]
    if (
        apart
    ):  # of both sides: a vector of B once for all rows, an element of A once for all vectors
        elements = len(matmuls) // tile.vectors + len(matmuls) // tile.rows
        assert len(conversions) == elements
    else:
        assert len(conversions) == (len(matmuls) // tile.rows if kernel.b == F16 else 0)


INSTRUCTIONS = {
    "fma": "vfmadd231p",
    "dot2": "vdpbf16ps|vpmaddwd|vpdpwssd",
    "dot4": "vpdpbusd|vpmaddwd",
}


def only(target: Target, needs: tuple[str, ...]) -> Target:
    """The target with no dot instructions but those needed."""
    dots = ("avx512vnni", "avx512bf16", "avxvnni")
    flags = [f for f in target.features.split(",") if f[1:] not in dots]
    flags += [f"{'+' if f in needs else '-'}{f}" for f in dots]
    return replace(target, features=",".join(flags))


def inner_loop(text: str) -> list[str]:
    """The longest of the innermost loops."""
    loops = re.findall(r"^(\.L\w+):[^\n]*\n((?:\t[^\n]*\n)*?\tj\w+\t\1\n)", text, re.MULTILINE)
    return max((body.splitlines() for _, body in loops), key=len)


def test_types_that_do_not_fit_are_refused() -> None:
    """Bytes are summed in s32; only an epilogue stores them as anything else, and u8 x u8 has no groups."""
    tiles = ISAS["generic"].microkernels[0].tiles
    fma, dot = (Microkernel(U8, U8, name, tiles) for name in ("fma", "dot4"))
    function = verify(matmul(fma, 2, 2, 2, 2)).functions[0]
    (brgemm,) = function.body.body
    assert isinstance(brgemm, Brgemm) and brgemm.accumulator == S32
    narrow = replace(brgemm, c=Matrices(t.slice_of(Buffer("b", U8, (4,))), 2))
    for wrong, words in ((narrow, "sums in s32"), (replace(brgemm, k_group=4), "no groups of 4")):
        broken = replace(function, body=replace(function.body, body=(wrong,)))
        with pytest.raises(InternalError, match=words):
            verify(Module((broken,)))
    assert dot.k_group == 4 and find_microkernel(U8, U8, runnable_target("avx512")) is None
