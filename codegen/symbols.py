"""Names of functions in LLVM IR: the kernel's own name where possible; names from the model appear in comments."""

from __future__ import annotations

import re

from ..base.printable import printable
from ..runtime import abi
from ..tensor_ir.intrinsics import INTRINSICS

_QUOTED = re.compile(r"[^ !#-\[\]-~]")

# Calls to these names, by LLVM or by graphc, mean the functions of libc and libm.
_TAKEN = frozenset(
    (
        abi.ENTRY_NAME,
        abi.ARENA_NAME,
        "memcpy",
        "memset",
        "memmove",
        "fmod",
        "fmodf",
        "fmaf",
        "sqrt",
        "sqrtf",
    )
) | frozenset(INTRINSICS)


def symbol(name: str) -> str:
    """A function of a module as an operand: `@"f32_gemm_6x16__generic"`."""
    return quoted(linker_name(name))


def linker_name(name: str) -> str:
    """A function's name in objects: its own, with `.kernel` appended where libm has the same name."""
    return f"{name}.kernel" if name in _TAKEN else name


def quoted(name: str) -> str:
    """Any name as an operand."""
    text = "".join(
        f"\\{byte:02X}" if _QUOTED.match(chr(byte)) else chr(byte) for byte in name.encode()
    )
    return f'@"{text}"'


def comment(note: str) -> str:
    """A note, any text, as one line of comment; nothing where it is empty. LLVM would end its input at a NUL."""
    words = printable(" ".join(note.split()))
    return f"; {words}\n" if words else ""
