"""LLVM text to object code: what comes out, and what a refusal says."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from llvmlite import binding as llvm

from graphc.base.errors import InternalError
from graphc.codegen import aot
from graphc.codegen.aot import assembly, compile_to_object, optimized_ir
from graphc.codegen.host import target_for

GOOD = """
define void @f(ptr %p) {
  %local = alloca [4 x float]
  store float 1.0, ptr %local
  %x = load float, ptr %local
  store float %x, ptr %p
  ret void
}
"""
# The text parses and only the verifier finds that %x does not dominate its use.
UNDOMINATED = """
define void @f(i1 %c, ptr %p) {
entry:
  br i1 %c, label %a, label %b
a:
  %x = load float, ptr %p
  br label %b
b:
  store float %x, ptr %p
  ret void
}
"""


def test_locals_become_registers() -> None:
    assert "alloca" not in optimized_ir(GOOD, target_for("native"))


def test_equal_text_gives_equal_objects() -> None:
    target = target_for("generic")
    assert compile_to_object(GOOD, target) == compile_to_object(GOOD, target)


def test_objects_hold_no_text_relocations() -> None:
    """Objects suit shared libraries and the loader: constants are addressed relative to the code."""
    text = GOOD.replace("1.0", "0x3FD5555560000000")
    assert "(%rip)" in assembly(text, target_for("generic")) or "$1051372203" in assembly(
        text, target_for("generic")
    )


def test_a_syntax_error_shows_the_line() -> None:
    with pytest.raises(InternalError, match="LLVM refuses the emitted code") as caught:
        compile_to_object(GOOD.replace("store float %x", "store flaot %x"), target_for("generic"))
    (excerpt,) = caught.value.__notes__
    assert "    6 |   store flaot %x, ptr %p" in excerpt


def test_what_the_verifier_finds_is_an_error_too() -> None:
    with pytest.raises(InternalError, match="does not dominate"):
        compile_to_object(UNDOMINATED, target_for("generic"))


def test_compiling_again_and_again_keeps_no_memory() -> None:
    """A pass builder for each module would leave 1.5 KB behind."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("this libc does not say how much memory is in use")

    class Info(ctypes.Structure):
        _fields_ = tuple((f"f{i}", ctypes.c_size_t) for i in range(10))

    libc.mallinfo2.restype = Info
    target, text = target_for("native"), "define i32 @f() {\n  ret i32 0\n}\n"

    def in_use(rounds: int) -> int:
        for _ in range(rounds):
            compile_to_object(text, target)
        return int(libc.mallinfo2().f7)

    before = in_use(100)
    assert in_use(200) - before < 200 * 500


def test_llvm_optimizes_only_modules_with_locals() -> None:
    target, runs = target_for("generic"), []

    class Recorder:
        def run(self, module: object, builder: object) -> None:
            runs.append(module)

    tools = replace(aot.compile_tools(target), passes=Recorder())
    for text in (GOOD, "define void @f() {\n  ret void\n}\n"):
        with aot._optimized(text, tools):
            assert len(runs) == 1


@pytest.mark.parametrize("text", [GOOD, UNDOMINATED], ids=["right", "refused"])
def test_a_module_may_be_garbage_together_with_its_context(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector frees the members of a circle in any order, and a context takes its modules along."""
    made: list[Any] = []

    def in_a_circle(text: str, context: Any) -> Any:
        module = parse(text, context)
        module.circle = context.circle = (module, context)
        made.append(module)
        return module

    parse = llvm.parse_assembly
    monkeypatch.setattr(llvm, "parse_assembly", in_a_circle)
    with nullcontext() if text == GOOD else pytest.raises(InternalError):
        compile_to_object(text, target_for("generic"))
    assert [(module.closed, module.circle[1].closed) for module in made] == [(True, True)]
