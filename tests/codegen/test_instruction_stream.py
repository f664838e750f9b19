"""Positions of instructions: hoisted out of loops, not out of branches, and never duplicated."""

from __future__ import annotations

from graphc.base.dtypes import F32
from graphc.codegen.instruction_stream import InstructionStream
from graphc.codegen.module import emit_module
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Buffer, Module, Var
from support.native_functions import runnable_target


def loop(stream: InstructionStream, label: str) -> str:
    """Open a block with a loop variable in the current scope."""
    stream.begin_block(label)
    name = stream.fresh_here()
    stream.emit(f"{name} = phi i64 ...")
    return name


def test_scalars_move_to_the_outermost_scope_that_has_their_operands() -> None:
    stream = InstructionStream(set())
    stream.end_block("br label %outer")
    with stream.scope(conditional=False):
        i = loop(stream, "outer")
        stream.end_block("br label %inner")
        with stream.scope(conditional=False):
            j = loop(stream, "inner")
            fixed = stream.value("mul i64 %n, 3", "%n")
            row = stream.value(f"mul i64 {i}, 8", i)
            stream.value(f"add i64 {row}, {j}", row, j)
            assert stream.value(f"mul i64 {i}, 8", i) == row
            stream.end_block("br label %end")
    stream.begin_block("end")
    assert stream.value("mul i64 %n, 3", "%n") == fixed
    lines = [line.strip() for line in stream.text().splitlines()]
    assert lines == [
        "entry:", f"{fixed} = mul i64 %n, 3", "br label %outer",
        "outer:", f"{i} = phi i64 ...", f"{row} = mul i64 {i}, 8", "br label %inner",
        "inner:", f"{j} = phi i64 ...", f"%v.5 = add i64 {row}, {j}", "br label %end",
        "end:",
    ]  # fmt: skip


def test_nothing_leaves_a_branch_and_no_later_block_uses_it() -> None:
    stream = InstructionStream(set())
    stream.end_block("br i1 %c, label %then, label %end")
    with stream.scope(conditional=True):
        stream.begin_block("then")
        inside = stream.value("sdiv i64 %n, 3", "%n")
        stream.end_block("br label %end")
    stream.begin_block("end")
    after = stream.value("sdiv i64 %n, 3", "%n")
    assert inside != after
    assert stream.text().index("then:") < stream.text().index(f"{inside} =")


def test_vectors_stay_where_they_are() -> None:
    stream = InstructionStream(set())
    stream.end_block("br label %loop")
    with stream.scope(conditional=False):
        loop(stream, "loop")
        stream.pure("fneg <8 x float> %x", 8, "%x")
    assert stream.text().index("loop:") < stream.text().index("fneg")


def test_results_of_loads_are_never_shared() -> None:
    stream = InstructionStream(set())
    assert stream.result("load i64, ptr %p") != stream.result("load i64, ptr %p")


def test_locals_are_allocated_in_the_first_block() -> None:
    stream = InstructionStream(set())
    stream.end_block("br label %next")
    stream.begin_block("next")
    stream.allocate("%a", "[4 x float]", 64)
    assert stream.text().splitlines()[1] == "  %a = alloca [4 x float], align 64"


def test_row_addresses_are_computed_once_a_row() -> None:
    """a[i * n + j + 1]: the row's pointer in the outer loop, the constant as a displacement of the load."""
    a, out, n = Buffer("a", F32, (999,)), Buffer("out", F32, (999,)), Var("n")
    b = t.LoopBuilder()
    with b.loop("i", 0, n) as i, b.loop("j", 0, n) as j:
        b.store(out, (j,), a[i * n + j + 1])
    text = emit_module(Module((b.function("f", (a, out, n)),)), runnable_target("avx2"))
    outer, inner, *_ = text.split("\nj.")
    assert "mul i64" in outer and "mul i64" not in inner
    assert inner.count("getelementptr") == 3
