"""The code of each kernel at every stage, and the mapping between kernels and nodes of the model.

A kernel is one function as lowered; after the passes over loops it may have tasks (the bodies of its parallel loops),
and in LLVM IR each task has a trampoline. All of them belong to the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from ..base.records import dataclass
from ..codegen.aot import assembly
from ..codegen.symbols import symbol
from ..driver.stages import Compilation
from ..tensor_ir.nodes import Function, Invoke, ParallelInvoke
from ..tensor_ir.printer import print_function
from ..tensor_ir.visitor import walk_statements

STAGES = ("tensor-ir", "loops", "llvm", "asm")
"""Tensor IR as lowered, Tensor IR after its passes, LLVM IR, assembly."""

_DEFINE = re.compile(r'^define [^@]*@("(?:[^"])*"|[\w.$]+)\(')
_LABEL = re.compile(r'^("(?:[^"])*"|[\w.$@-]+):')
_NOISE = re.compile(r"^\s+\.(cfi_|p2align|type|size|addrsig)|^\s*#|^\.Lfunc_end")


@dataclass(frozen=True)
class KernelCode:
    """Texts of one kernel by stage."""

    kernel: str
    texts: dict[str, str]


class CodeMap:
    """The kernels of a compilation, each with its code at every stage."""

    def __init__(self, compilation: Compilation) -> None:
        self._compilation = compilation

    @property
    def kernels(self) -> list[str]:
        """Names of the kernels, in the order they first run."""
        return list(dict.fromkeys(call.kernel for call in self._compilation.lowered.calls))

    def of(self, kernel: str) -> KernelCode:
        """The code of a kernel; KeyError if there is none of that name."""
        lowered = self._compilation.lowered.module.function(kernel)
        functions = list(self._with_tasks(kernel))
        names = [_unquoted(symbol(f.name)[1:]) for f in functions]
        names += [f"{name}.task" for name in names]
        return KernelCode(
            kernel,
            {
                "tensor-ir": print_function(lowered),
                "loops": "\n\n".join(print_function(f) for f in functions),
                "llvm": "\n\n".join(self._llvm[n] for n in names if n in self._llvm),
                "asm": "\n\n".join(self._assembly[n] for n in names if n in self._assembly),
            },
        )

    def _with_tasks(self, kernel: str) -> Iterator[Function]:
        """A kernel's function after the passes, and those it calls, each once."""
        module, seen, pending = self._compilation.module, {kernel}, [kernel]
        while pending:
            function = module.function(pending.pop())
            yield function
            for s in walk_statements(function.body):
                if isinstance(s, Invoke | ParallelInvoke) and s.function not in seen:
                    seen.add(s.function)
                    pending.append(s.function)

    @cached_property
    def _llvm(self) -> dict[str, str]:
        found: dict[str, str] = {}
        lines: list[str] = []
        name = ""
        for line in self._compilation.llvm_ir.splitlines():
            if match := _DEFINE.match(line):
                name, lines = _unquoted(match[1]), []
            lines.append(line)
            if line == "}" and name:
                found[name], name = "\n".join(lines), ""
        return found

    @cached_property
    def _assembly(self) -> dict[str, str]:
        return split_assembly(assembly(self._compilation.llvm_ir, self._compilation.target))


def split_assembly(text: str) -> dict[str, str]:
    """Function -> its instructions and labels, without directives irrelevant to execution.

    Constants that a function loads precede it in LLVM's text; they are not included.
    """
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.splitlines():
        match = _LABEL.match(line)
        if match and not match[1].startswith(".L"):
            current = found.setdefault(_unquoted(match[1]), [])
        if line.startswith((".Lfunc_end", "\t.section", "\t.rodata")):
            current = None
        if current is not None and not _NOISE.match(line):
            current.append(line.expandtabs(8))
    return {name: "\n".join(lines).rstrip() for name, lines in found.items()}


def _unquoted(name: str) -> str:
    return name[1:-1] if name.startswith('"') else name
