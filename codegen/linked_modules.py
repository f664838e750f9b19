"""Programs for systems whose objects are not ELF: kept as LLVM bitcode until they are one object with C functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from llvmlite import binding as llvm

from ..targets.isa import Target
from .aot import compile_tools, emission, verified_module


def linked_object(
    text: str,
    programs: Sequence[tuple[bytes, Mapping[str, str]]],
    exports: Collection[str],
    target: Target,
) -> tuple[bytes, list[str]]:
    """Link modules; return an object of the target's system, and the functions of other libraries that it calls.

    Args:
        text: LLVM IR of functions that call those of the programs.
        programs: bitcode, and the names by which `text` knows some of its functions.
        exports: names that others may use; all others are local.
        target: any CPU of the machine that the programs run on. Their functions name the features they need.
    """
    tools = compile_tools(target)
    with llvm.create_context() as context, verified_module(text, context, tools) as module:
        for bitcode, names in programs:
            program = llvm.parse_bitcode(bitcode, context)
            _rename(program, names)
            module.link_in(program)
        _hide(module, exports)
        foreign = sorted(f.name for f in module.functions if _is_foreign(f))
        with emission(target):
            return tools.machine.emit_object(module), foreign


def _rename(program: llvm.ModuleRef, names: Mapping[str, str]) -> None:
    """Give functions their other names; whatever else a program defines is its own."""
    for value in [*program.functions, *program.global_variables]:
        if value.name in names:
            value.name = names[value.name]
        elif not value.is_declaration:
            value.linkage = "internal"


def _hide(module: llvm.ModuleRef, exports: Collection[str]) -> None:
    for value in [*module.functions, *module.global_variables]:
        if not value.is_declaration and value.name not in exports:
            value.visibility = "default"
            value.linkage = "internal"


def _is_foreign(function: llvm.ValueRef) -> bool:
    return function.is_declaration and not function.name.startswith("llvm.")
