"""Calls of Linux on AArch64, without a C library, as LLVM IR. LLVM's Python package has no assembler for it, so that
instructions are words before the body of a function, which is never reached."""

from __future__ import annotations

from collections.abc import Sequence

_SYSTEM_CALL = (
    0xAA0003E8,  # mov x8, x0
    0xAA0103E0,  # mov x0, x1
    0xAA0203E1,  # mov x1, x2
    0xAA0303E2,  # mov x2, x3
    0xAA0403E3,  # mov x3, x4
    0xAA0503E4,  # mov x4, x5
    0xAA0603E5,  # mov x5, x6
    0xD4000001,  # svc #0
    0xD65F03C0,  # ret
)

_SPAWN = (
    0xAA0203E4,  # mov x4, x2
    0xD2801B88,  # mov x8, #220: clone
    0xD4000001,  # svc #0
    0xB4000040,  # cbz x0, two instructions on
    0xD65F03C0,  # ret
    0xAA1F03FD,  # mov x29, xzr
    0xAA1F03FE,  # mov x30, xzr
    0xA8C103E9,  # ldp x9, x0, [sp], #16
    0xD63F0120,  # blr x9
    0xD2800BA8,  # mov x8, #93: exit
    0xD2800000,  # mov x0, #0
    0xD4000001,  # svc #0
)


def _words(words: Sequence[int]) -> str:
    fields = ", ".join(f"i32 {word}" for word in words)
    return f"<{{ {', '.join(['i32'] * len(words))} }}> <{{ {fields} }}>"


FREESTANDING = f"""
define internal i64 @system_call(i64 %number, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f)
    naked noinline nounwind uwtable prologue {_words(_SYSTEM_CALL)} {{
  unreachable
}}

; Starts a thread that calls the function at the end of a stack with the argument behind it; returns its number.
define internal i64 @spawn(i64 %flags, ptr %stack, ptr %number)
    naked noinline nounwind uwtable prologue {_words(_SPAWN)} {{
  unreachable
}}
"""
"""`@system_call` and `@spawn` of the thread pool."""

MODES = """
declare void @llvm.aarch64.hint(i32)
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

define internal void @pause() alwaysinline nounwind uwtable {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}

define internal void @save_mode(ptr %to) alwaysinline nounwind uwtable {
  %mode = call i64 @llvm.aarch64.get.fpcr()
  %short = trunc i64 %mode to i32
  store i32 %short, ptr %to
  ret void
}

define internal void @set_mode(ptr %from) alwaysinline nounwind uwtable {
  %short = load i32, ptr %from
  %mode = zext i32 %short to i64
  call void @llvm.aarch64.set.fpcr(i64 %mode)
  ret void
}
"""
"""Functions that wait for a moment (`yield`), and that copy the mode of floating point."""
