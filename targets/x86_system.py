"""Calls of Linux on x86, without a C library, as LLVM IR (System V ABI, AMD64 supplement 1.0, section A.2)."""

FREESTANDING = """
define internal i64 @system_call(i64 %number, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f) nounwind uwtable {
  %result = call i64 asm sideeffect "syscall",
    "={rax},{rax},{rdi},{rsi},{rdx},{r10},{r8},{r9},~{rcx},~{r11},~{memory},~{dirflag},~{fpsr},~{flags}"
    (i64 %number, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f)
  ret i64 %result
}

; Starts a thread that calls the function at the end of a stack with the argument behind it; returns its number.
define internal i64 @spawn(i64 %flags, ptr %stack, ptr %number) naked noinline nounwind uwtable {
  call void asm sideeffect "mov %rdx, %r10
mov $$$$$CLONE, %eax
syscall
test %rax, %rax
jnz 1f
.cfi_remember_state
.cfi_undefined %rip
xor %ebp, %ebp
pop %rax
pop %rdi
call *%rax
mov $$$$$EXIT, %eax
xor %edi, %edi
syscall
hlt
.cfi_restore_state
1: ret", ""()
  unreachable
}
"""
"""`@system_call` and `@spawn` of the thread pool; `$$` stands for a dollar sign of LLVM."""

MODES = """
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
"""
"""Functions that wait for a moment, and that copy the mode of floating point."""
