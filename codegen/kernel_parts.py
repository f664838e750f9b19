"""Splits a program into parts that are compiled separately: one per kernel, and one with the functions that call them.

before   def k1(...): ...   def k2(...): ...   def main(...): k1(...); k2(...)
after    [kernel]   [kernel]   [k1 and k2 declared, main]      one object each; `link` merges them

A kernel is named `kernel` in its part, whatever its name in the program, so equal kernels give equal objects.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import field, replace

from ..base.records import dataclass
from ..targets.isa import INSTRUCTIONS, Instruction, Target
from ..tensor_ir import pipeline as loop_pipeline
from ..tensor_ir.instructions import instructions_in, invokes
from ..tensor_ir.nodes import Block, Module
from ..tensor_ir.verifier import verify
from .aot import CALLS_LEVEL, OPT_LEVEL, compile_to_part, one_section
from .elf.relocatable import merge_objects
from .llvm_info import process_triple
from .module import emit_module
from .symbols import linker_name

KERNEL = "kernel"
"""The name of the function in a kernel's part."""


@dataclass(frozen=True)
class Part:
    """Functions to compile together, as they were lowered.

    `kernel` is the name in the program of the one function, which other parts call; it is "" for the part with the
    entry. `declared` are those that other parts define, whose bodies here are empty. `instructions` are those of the
    program, which other processes have not declared.
    """

    module: Module
    kernel: str = ""
    declared: frozenset[str] = frozenset()
    instructions: tuple[Instruction, ...] = ()

    @property
    def label(self) -> str:
        """The part's name in messages."""
        return self.kernel or self.module.entry


@dataclass(frozen=True)
class Failure:
    """An error in another process: the message, and its details.

    Not defined in the worker's module: that is its process's `__main__`, whose classes other processes cannot unpickle.
    """

    message: str
    whole: str


@dataclass(frozen=True)
class CompiledPart:
    """An object as LLVM makes it, and the seconds each compilation step took; empty if it came from the cache."""

    object_code: bytes
    seconds: dict[str, float] = field(default_factory=dict)


def split_program(module: Module, triple: str = "") -> list[Part]:
    """The parts of a lowered program with an entry, in the order of its functions, the callers last.

    One part for another system, `triple`, and on those whose object files are not ELF: only ELF objects of this CPU
    are merged."""
    if "linux" not in process_triple() or triple:
        return [Part(module)]
    callers = [f for f in module.functions if invokes(f)]
    kernels = [f for f in module.functions if not invokes(f)]
    if module.entry in (f.name for f in kernels):  # a model without work
        return [Part(module)]
    declared = [replace(f, body=Block(())) for f in kernels]
    parts = [
        Part(
            Module((replace(f, name=KERNEL),), checked=module.checked),
            f.name,
            instructions=tuple(x for x in instructions_in(f) if x.access is None),
        )
        for f in kernels
    ]
    whole = Module((*declared, *callers), module.entry, module.checked)
    return [*parts, Part(whole, declared=frozenset(f.name for f in kernels))]


def compile_part(part: Part, target: Target, check: bool) -> CompiledPart:
    """Run the loop passes, emit LLVM IR and compile it; `check` verifies the loops before."""
    INSTRUCTIONS.update({one.name: one for one in part.instructions})
    clock = time.perf_counter
    start = clock()
    module = loop_pipeline.run(part.module, target)
    if check:
        verify(module, "final")
    looped = clock()
    shared = {KERNEL} if part.kernel else ()
    text = emit_module(module, target, shared=shared, declared=part.declared)
    emitted = clock()
    code = compile_to_part(text, target, CALLS_LEVEL if part.declared else OPT_LEVEL)
    seconds = {"loops": looped - start, "emit": emitted - looped, "llvm": clock() - emitted}
    return CompiledPart(code, seconds)


def link(parts: Sequence[Part], compiled: Sequence[CompiledPart], triple: str = "") -> bytes:
    """Merge the objects of a program's parts; every kernel gets its own name back."""
    if len(compiled) == 1:
        return compiled[0].object_code if triple else one_section(compiled[0].object_code)
    names = [(KERNEL, linker_name(part.kernel)) if part.kernel else None for part in parts]
    return merge_objects([one.object_code for one in compiled], names)


def total_seconds(parts: Sequence[CompiledPart]) -> dict[str, float]:
    """The seconds of each step in all processes together."""
    total: dict[str, float] = {}
    for part in parts:
        for name, seconds in part.seconds.items():
            total[name] = total.get(name, 0.0) + seconds
    return total
