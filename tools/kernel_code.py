"""The code of each kernel at every stage, and the mapping between kernels and nodes of the model.

A kernel is one function as lowered; after the passes over loops it may have tasks (the bodies of its parallel loops),
and in LLVM IR each task has a trampoline. All of them belong to the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from ..base.records import dataclass
from ..codegen.aot import assembly
from ..codegen.module import emit_module
from ..codegen.symbols import symbol
from ..graph_ir.lowering.lower_graph import LoweredModel
from ..targets.isa import Target
from ..tensor_ir import pipeline as loop_pipeline
from ..tensor_ir.nodes import Function, Invoke, Module, ParallelInvoke
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
    """The kernels of a lowered model, each with its code at every stage, generated when it is first requested."""

    def __init__(self, lowered: LoweredModel, target: Target) -> None:
        self._lowered, self._target = lowered, target

    @property
    def kernels(self) -> list[str]:
        """Names of the kernels, in the order they first run."""
        return list(dict.fromkeys(call.kernel for call in self._lowered.calls))

    def of(self, kernel: str, stages: Collection[str] = STAGES) -> KernelCode:
        """Return the code of a kernel at some stages; raise KeyError if there is no kernel of that name."""
        whole = self._lowered.module
        texts = {"tensor-ir": print_function(whole.function(kernel))}
        if set(stages) - set(texts):
            part = Module(tuple(_with_callees(whole, kernel)), checked=whole.checked)
            module = loop_pipeline.run(part, self._target)
            texts["loops"] = "\n\n".join(map(print_function, module.functions))
            if {"llvm", "asm"} & set(stages):
                names = [_unquoted(symbol(f.name)[1:]) for f in module.functions]
                names += [f"{name}.task" for name in names]
                texts |= self._machine_code(emit_module(module, self._target), names)
        return KernelCode(kernel, {stage: texts[stage] for stage in stages})

    def _machine_code(self, llvm_ir: str, names: Sequence[str]) -> dict[str, str]:
        llvm, code = split_llvm(llvm_ir), split_assembly(assembly(llvm_ir, self._target))
        return {
            "llvm": "\n\n".join(llvm[n] for n in names if n in llvm),
            "asm": "\n\n".join(code[n] for n in names if n in code),
        }


def _with_callees(module: Module, name: str) -> Iterator[Function]:
    """Yield a function and those it calls, each once, without instructions."""
    seen, pending, known = {name}, [name], {f.name for f in module.functions}
    while pending:
        function = module.function(pending.pop())
        yield function
        for s in walk_statements(function.body):
            if isinstance(s, Invoke | ParallelInvoke) and s.function in known - seen:
                seen.add(s.function)
                pending.append(s.function)


def split_llvm(text: str) -> dict[str, str]:
    """Return the definition of each function in LLVM IR."""
    found: dict[str, str] = {}
    lines: list[str] = []
    name = ""
    for line in text.splitlines():
        if match := _DEFINE.match(line):
            name, lines = _unquoted(match[1]), []
        lines.append(line)
        if line == "}" and name:
            found[name], name = "\n".join(lines), ""
    return found


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
