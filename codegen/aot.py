"""LLVM IR text to object code or assembly, for compiled models and saved artifacts alike.

The code is position independent and uses the small code model: a shared library needs the first, and the loader accepts
the second because an ELF object has only one section (see `elf`).
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial

from llvmlite import binding as llvm

from ..base.errors import InternalError
from ..base.records import dataclass
from ..targets.isa import Target
from .elf.relocatable import merge_objects
from .llvm_types import IN_LOOPS, IN_ORDER

OPT_LEVEL = 2
CALLS_LEVEL = 0
"""Optimization level for code that does little but call kernels: LLVM takes a fifth of the time, and a call a few
more instructions."""

_CONTEXT_LINES = 4
_EMITTING = threading.Lock()
_LOG = logging.getLogger("graphc.codegen")


def compile_to_object(llvm_text: str, target: Target) -> bytes:
    """Return the object file of an LLVM IR module, ready to be loaded. Raise InternalError if LLVM refuses it."""
    code = compile_to_part(llvm_text, target)
    return code if target.triple else one_section(code)


def one_section(code: bytes) -> bytes:
    """An object file as it can be loaded: an ELF object has only one section then."""
    return merge_objects([code]) if code.startswith(b"\x7fELF") else code


def compile_to_part(llvm_text: str, target: Target, level: int = OPT_LEVEL) -> bytes:
    """Compile like `compile_to_object`, but return LLVM's object file, for `merge_objects`.

    For another system it is bitcode, of which `linked_modules` makes an object.
    """
    tools = compile_tools(target, level)
    with _optimized(llvm_text, tools) as module, emission(target, llvm_text):
        emit = module.as_bitcode if target.system else partial(tools.machine.emit_object, module)
        code: bytes = emit()
    _LOG.debug("%d characters of LLVM IR to %d bytes for %s", len(llvm_text), len(code), target.isa)
    return code


def assembly(llvm_text: str, target: Target) -> str:
    """Return the assembly that `compile_to_object` encodes. Raise InternalError if LLVM refuses the module."""
    tools = compile_tools(target)
    with _optimized(llvm_text, tools) as module, emission(target, llvm_text):
        return str(tools.machine.emit_assembly(module))


@contextmanager
def emission(target: Target, llvm_text: str = "") -> Iterator[None]:
    """LLVM emits code of a text in this block, with the options that its attributes ask for.

    `IN_ORDER`: it neither schedules instructions nor reassociates integer sums. Its loop strength reduction is off
    where `loop_counters` stand for it. The options are those of the process: whoever else uses LLVM in it finds them
    as they were.
    """
    options = {"disable-lsr": True} if target.table.index_scales else {}
    if IN_ORDER in llvm_text:
        options |= dict(target.table.in_order)
    if IN_LOOPS in llvm_text:
        options["disable-machine-licm"] = True
    with _EMITTING if options else nullcontext():
        for name, value in options.items():
            llvm.set_option("graphc", f"-{name}={str(value).lower()}")
        try:
            yield
        finally:
            for name, value in options.items():
                llvm.set_option("graphc", f"-{name}={str(not value).lower()}")


def optimized_ir(llvm_text: str, target: Target) -> str:
    """Return the LLVM IR after LLVM's passes, from which code is selected. Raise InternalError if LLVM refuses it."""
    tools = compile_tools(target)
    with _optimized(llvm_text, tools) as module:
        return str(module)


@dataclass(frozen=True)
class Tools:
    """The compilers of modules for one CPU; `layout` is the data layout of the target."""

    machine: llvm.TargetMachine
    layout: str
    builder: llvm.PassBuilder
    passes: llvm.ModulePassManager


def compile_tools(target: Target, level: int = OPT_LEVEL) -> Tools:
    """Return the compilers for a target."""
    return _tools(target.cpu, target.features, level, target.triple)


@cache
def _tools(cpu: str, features: str, level: int, triple: str) -> Tools:
    """Made once: llvmlite frees pass builders and managers in part only, 1.6 KB would be lost with every kernel."""
    _initialize()
    system = llvm.Target.from_triple(triple) if triple else llvm.Target.from_default_triple()
    machine = system.create_target_machine(
        cpu=cpu, features=features, opt=level, reloc="pic", codemodel="small"
    )
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    builder = llvm.create_pass_builder(machine, options)
    return Tools(machine, str(machine.target_data), builder, passes)


@contextmanager
def _optimized(text: str, tools: Tools) -> Iterator[llvm.ModuleRef]:
    """The module of a text, while the block lasts. Raise InternalError if LLVM refuses it.

    It has a separate context, because the global one keeps every type and constant it has ever seen. Both are closed
    here, in this order: Python's collector, where an exception leaves them to it, may free the context first, and its
    modules twice.
    """
    with llvm.create_context() as context, verified_module(text, context, tools) as module:
        if " = alloca " in text:  # all that SROA is about
            tools.passes.run(module, tools.builder)
        yield module


def verified_module(text: str, context: llvm.ContextRef, tools: Tools) -> llvm.ModuleRef:
    """Return the module of a text. Raise InternalError if LLVM refuses it."""
    module = None
    try:
        module = llvm.parse_assembly(text, context)
        module.verify()
    except RuntimeError as error:
        if module is not None:
            module.close()
        raise InternalError(
            f"LLVM refuses the emitted code: {error}", _excerpt(text, str(error))
        ) from error
    module.triple, module.data_layout = tools.machine.triple, tools.layout
    return module


def _excerpt(text: str, message: str) -> str:
    """The lines around the one that the message names; the first lines if it names none."""
    lines = text.splitlines()
    found = re.search(r"<string>:(\d+):", message)
    middle = int(found.group(1)) - 1 if found else 0
    first = max(0, middle - _CONTEXT_LINES)
    shown = lines[first : middle + _CONTEXT_LINES + 1]
    return "\n".join(f"{number:5} | {line}" for number, line in enumerate(shown, first + 1))


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
