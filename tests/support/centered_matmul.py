"""A matmul of rows of bytes whose largest sums are exact, and the loop that is compiled for it."""

from __future__ import annotations

import re

import numpy as np

from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32, S8
from graphc.base.options import CompileOptions
from graphc.base.packed_words import LOW_BITS, packed_words
from graphc.codegen.aot import assembly
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.targets.isa import Target

K, GROUP = 64, 32


def centered_matmul(
    bits: int,
    levels: Array,
    scales: Array | None,
    x: Array,
    zero: int | None = None,
    is_dynamic: bool = False,
) -> tuple[Graph, list[Array]]:
    """Return a matmul of s8 rows, with integer scales of 16 weights or the scale 1 of 32, and its inputs."""
    middle = 1 << bits - 1 if zero is None else zero
    m: Size = size(Symbol("T", 1, 512)) if is_dynamic else len(x)
    k, low, graph = x.shape[1], LOW_BITS[bits], Graph("centered")
    arrays = [packed_words(levels & (1 << low) - 1, low)]
    group = GROUP if scales is None else k // scales.shape[1]
    ones = np.ones((len(levels), k // GROUP), np.float32)
    arrays.append(ones if scales is None else scales)
    arrays.append(np.full((1, 1), middle, np.float32))
    names = []
    if bits > low:
        names, arrays = ["high"], [*arrays, packed_words(levels >> low, bits - low)]
    if scales is not None:
        names.append("block_scale")
        arrays.append(np.ones((len(levels), 1), np.float16))
    factors = np.ones((len(x), k // GROUP), np.float32)
    operands = [
        graph.make_input(LogicalTensor(S8, (m, k)), "x"), *map(graph.make_constant, arrays),
        graph.make_input(LogicalTensor(F32, (m, k // GROUP)), "x_scale"),
    ]  # fmt: skip
    attrs = {"bits": bits, "group": group, "parts": ",".join([*names, "x_scale"]), "zero": middle}
    graph.make_output(graph.make("matmul_nbits", operands, attrs, "y").outputs[0])
    return graph, [x, factors]


def extreme_rows(m: int) -> Array:
    """Return rows of -127, of 127, and of both."""
    x = np.full((m, K), -127, np.int8)
    x[1::3] = 127
    x[2::3, ::3] = 127
    return x


def longest_loop(bits: int, name: str, target: Target) -> str:
    """Return the assembly of the block of 64 rows by 640 terms that has an instruction most often."""
    levels, x = np.zeros((16, 640), np.int64), np.zeros((64, 640), np.int8)
    graph, _ = centered_matmul(bits, levels, None, x)
    compiled = compile_stages(graph, target, CompileOptions(threads=1))
    blocks = re.split(r"^\S+:", assembly(compiled.llvm_ir, target), flags=re.MULTILINE)
    return max(blocks, key=lambda text: text.count(name))


def spills(loop: str) -> int:
    """Return the number of vectors that a loop stores on the stack."""
    return len(re.findall(r"vmov\w+\t%ymm\d+, [-\d]*\(%rsp\)", loop))
