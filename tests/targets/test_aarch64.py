"""Code for AArch64, made on this machine: the microkernel, and models that must not be loaded here."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import S8, S32, U8, DType
from graphc.base.errors import UserError
from graphc.base.options import CompileOptions
from graphc.cli import main
from graphc.codegen.aot import assembly
from graphc.codegen.host import target_for
from graphc.codegen.module import emit_module
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.verifier import verify

MLP = str(Path(__file__).parents[2] / "examples" / "mlp.onnx")


def loops_of(text: str) -> list[str]:
    """The innermost loops."""
    return [
        body
        for _, body in re.findall(
            r"^(\.L\w+):[^\n]*\n((?:\t[^\n]*\n)*?\tb\.\w+\t\1\n)", text, re.MULTILINE
        )
    ]


def test_a_matmul_is_fused_multiply_adds_without_spills(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", MLP, "--target", "aarch64", "--emit", "asm"]) == 0
    loop = max(loops_of(capsys.readouterr().out), key=lambda body: body.count("fmla"))
    assert loop.count("fmla") in (22, 24, 28)
    assert "[sp" not in loop and "fmul" not in loop


@pytest.mark.parametrize(
    ("dtype", "features", "mnemonic"),
    [(U8, "+dotprod+i8mm", "usdot"), (U8, "+dotprod", "sdot"), (S8, "+dotprod", "sdot")],
)
def test_bytes_are_multiplied_by_the_features_of_the_name(
    dtype: DType, features: str, mnemonic: str
) -> None:
    graph = Graph("bytes")
    x = graph.make_input(LogicalTensor(dtype, (64, 256)), "x")
    w = graph.make_constant(np.ones((256, 96), np.int8), "w")
    graph.make_output(graph.make("matmul_core", [x, w], {"dtype": S32}, "y").outputs[0])
    compilation = compile_stages(graph, target_for("aarch64" + features), CompileOptions())
    text = assembly(compilation.llvm_ir, compilation.target)
    loop = max(loops_of(text), key=lambda body: body.count("dot"))
    assert loop.count(f"\t{mnemonic}\t") >= 16
    assert "[sp" not in loop


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_floats_become_bytes_without_instructions_of_x86(lanes: int) -> None:
    zero = "s32(3)" if lanes == 1 else f"broadcast(s32(3), {lanes})"
    value = f"quantize(load(x[0], {lanes}), {zero}, dtype=s8)"
    text = f"def f(x: f32[{lanes}], y: s8[{lanes}]):\n    y[0] = {value}\n"
    target, module = target_for("aarch64"), verify(parse_module(text))
    assert "frintn" in assembly(emit_module(module, target), target)


def test_code_for_another_cpu_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "mlp.gcm"
    assert main(["compile", MLP, "--target", "aarch64", "-o", str(path), "-q"]) == 0
    with pytest.raises(UserError, match="is code for aarch64, this CPU is"):
        graphc.load(path)
