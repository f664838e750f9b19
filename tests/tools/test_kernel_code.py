"""Splitting the text of LLVM's assembly by function."""

from __future__ import annotations

from graphc.tools.kernel_code import split_assembly


def test_assembly_is_cut_at_function_labels() -> None:
    text = (
        "\t.section .rodata\nk:\n\t.long 1\n\t.text\nf:\n\t.cfi_startproc\n\tret\n"
        '.Lfunc_end0:\n"g h":\n.LBB1_1:\n\tjmp .LBB1_1\n'
    )
    found = split_assembly(text)
    assert found["f"] == "f:\n        ret"
    assert found["g h"] == '"g h":\n.LBB1_1:\n        jmp .LBB1_1'
