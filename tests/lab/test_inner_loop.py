"""The innermost loop of assembly, with its spills."""

from __future__ import annotations

from graphc.lab.inner_loop import inner_loop

ASSEMBLY = """\
.LBB0_1:
\tvmovups\t(%rax), %zmm0
\tjne\t.LBB0_1
.LBB0_2:
\tvfmadd231ps\t(%rax), %zmm1, %zmm2
\tvmovups\t%zmm3, 64(%rsp)
\tvmovups\t%zmm3, 64(%rdi)
\tvfmadd231ps\t(%rbx), %zmm1, %zmm3
\tjne\t.LBB0_2
"""


def test_the_loop_with_the_multiply_adds() -> None:
    loop, spills = inner_loop(ASSEMBLY.splitlines())
    assert loop[0] == ".LBB0_2:" and len(loop) == 6 and spills == 1
    assert inner_loop(["\tret"]) == ((), 0)
