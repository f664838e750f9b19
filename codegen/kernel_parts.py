"""A program cut into parts that are compiled apart: a kernel each, and one with the functions that call them.

before   def k1(...): ...   def k2(...): ...   def main(...): k1(...); k2(...)
after    [k1]   [k2]   [k1 and k2 declared, main]      each its own object; `object_merge` makes one of them
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..base.target import Target
from ..tensor_ir import pipeline as loop_pipeline
from ..tensor_ir.nodes import Block, Function, Invoke, Module
from ..tensor_ir.verifier import verify
from ..tensor_ir.visitor import walk_statements
from .aot import compile_to_object
from .module import emit_module


@dataclass(frozen=True)
class Part:
    """Functions to compile together, as they were lowered.

    `shared` are those that other parts call; `declared` those that other parts define, whose bodies here are empty.
    """

    module: Module
    shared: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """How messages call it."""
        return ", ".join(sorted(self.shared)) or self.module.entry


@dataclass(frozen=True)
class Failure:
    """What went wrong with a part in another process: the message of the error, and its notes.

    Not defined where it is made: a worker is its process's `__main__`, whose classes no other process knows.
    """

    message: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class CompiledPart:
    """An object, and the seconds of each step to it."""

    object_code: bytes
    seconds: dict[str, float]


def split_program(module: Module) -> list[Part]:
    """The parts of a lowered program with an entry, in the order of its functions, the callers last."""
    callers = [f for f in module.functions if _calls(f)]
    kernels = [f for f in module.functions if not _calls(f)]
    declared = [replace(f, body=Block(())) for f in kernels]
    parts = [Part(Module((f,)), shared=frozenset({f.name})) for f in kernels]
    whole = Module((*declared, *callers), module.entry)
    return [*parts, Part(whole, declared=frozenset(f.name for f in kernels))]


def _calls(function: Function) -> bool:
    return any(isinstance(s, Invoke) for s in walk_statements(function.body))


def compile_part(part: Part, target: Target, check: bool) -> CompiledPart:
    """Run the loop passes, emit LLVM IR and compile it; `check` verifies the loops before."""
    clock = time.perf_counter
    start = clock()
    module = loop_pipeline.run(part.module, target)
    if check:
        verify(module, "final")
    looped = clock()
    text = emit_module(module, target, shared=part.shared, declared=part.declared)
    emitted = clock()
    code = compile_to_object(text, target)
    seconds = {"loops": looped - start, "emit": emitted - looped, "llvm": clock() - emitted}
    return CompiledPart(code, seconds)


def total_seconds(parts: Sequence[CompiledPart]) -> dict[str, float]:
    """The seconds of each step in all processes together."""
    names = parts[0].seconds if parts else {}
    return {name: sum(part.seconds[name] for part in parts) for name in names}
