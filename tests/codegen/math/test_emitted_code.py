"""Properties of every function of vector math: none is missing, none calls a library, the hot ones are short."""

from __future__ import annotations

import functools

import llvmlite.binding as llvm
import pytest

from graphc.base.dtypes import F16
from graphc.codegen.aot import assembly as assembly_of
from graphc.codegen.math import MATH
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.registry import names
from graphc.tensor_ir.intrinsics import INTRINSICS
from support.vector_math import kernel_text

# cpu, lanes, FMA: the oldest 128-bit code, and one natural vector of each later level.
LEVELS = [("x86-64", 4, False), ("haswell", 8, True), ("skylake-avx512", 16, True)]

# Instructions of one vector with AVX-512, where constants are operands; exp sits in softmax, erf and tanh in gelu.
MAX_INSTRUCTIONS = {"exp": 18, "tanh": 24, "erf": 27, "log": 24, "sigmoid": 29, "gelu": 41}


@functools.cache
def assembly(name: str, cpu: str, lanes: int, has_fma: bool) -> str:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    machine = target.create_target_machine(cpu, "", opt=2)
    text = kernel_text(name, INTRINSICS[name].arity, lanes, has_fma)
    return str(machine.emit_assembly(llvm.parse_assembly(text)))


def test_every_transcendental_intrinsic_has_its_function() -> None:
    # erfc is of f64 alone, whose gelu calls it.
    others = {"fma", "erfc"} | {
        name for name, known in INTRINSICS.items() if known.reduces or known.index
    }
    assert set(MATH) >= {n for n in INTRINSICS if n not in others and INTRINSICS[n].float_only}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("cpu", "lanes", "has_fma"), LEVELS)
@pytest.mark.parametrize("name", MATH)
def test_no_library_is_called(name: str, cpu: str, lanes: int, has_fma: bool) -> None:
    assert "call" not in assembly(name, cpu, lanes, has_fma)


@pytest.mark.parametrize("name", sorted(set(MATH) & set(names())))
def test_no_library_is_called_for_one_f16(name: str) -> None:
    """LLVM narrows what f16 results are made of, and has no instruction for some of that."""
    graph = Graph("g")
    inputs = [graph.make_input(LogicalTensor(F16, (1,)), f"x{i}") for i in range(2)]
    graph.make_output(graph.make(name, inputs[: INTRINSICS[name].arity]).outputs[0])
    compiled = compile_stages(graph)
    assert "@PLT" not in assembly_of(compiled.llvm_ir, compiled.target)


@pytest.mark.parametrize("name", MAX_INSTRUCTIONS)
def test_hot_functions_are_short(name: str) -> None:
    text = assembly(name, "skylake-avx512", 16, True)
    loop = text.split(".LBB0_1:")[1].split("\tjl")[0]
    vector = [line.split()[0] for line in loop.splitlines() if line.startswith("\tv")]
    moves = ("vmovups", "vmovaps", "vbroadcastss", "vmovapd", "vmovdqa64")
    assert len([i for i in vector if not i.startswith(moves)]) <= MAX_INSTRUCTIONS[name]
