"""Emits a Tensor IR module as LLVM IR text, with the exported entry that the runtime calls (runtime/abi.py)."""

from __future__ import annotations

import math
import re
from collections.abc import Collection

from ..base.errors import InternalError
from ..base.target import Target
from ..runtime.abi import ENTRY_NAME, SIGNATURE_NAME, signature
from ..tensor_ir.nodes import Buffer, Function, Module, Var
from .llvm_emitter import FunctionEmitter, parameter_type
from .symbols import symbol

_INPUT, _OUTPUT = re.compile(r"x\d+"), re.compile(r"y\d+")
_SECTIONS = {"constants": "%constants", "arena": "%arena"}


def emit_module(
    module: Module,
    target: Target,
    stamps: str = "",
    shared: Collection[str] = (),
    declared: Collection[str] = (),
) -> str:
    """Return the LLVM IR for `target` of `module`, which has gone through the pipeline.

    With an entry, only that (`graphc_entry`) and its signature are exported. The entry's parameters are x0, x1, ... for
    the model's inputs, y0, y1, ... for its outputs, `constants` and `arena`. Without an entry every function is
    exported under its name and takes the runtime pointer first. `stamps` (for profiling) names an output of the entry,
    s64[calls + 1]: it receives the CPU's cycle counter at the start and after each call. In a part of a program,
    `shared` names functions that other parts call, `declared` those that they define. InternalError where the module
    breaks a rule of Tensor IR.
    """
    emitter = FunctionEmitter(module, target)
    internal = "internal" if module.entry or shared else ""
    parts = [
        _declaration(f)
        if f.name in declared
        else emitter.function(
            f,
            "hidden" if f.name in shared else internal,
            stamps if f.name == module.entry else "",
        )
        for f in module.functions
    ]
    parts.extend(emitter.trampolines.values())
    if module.entry:
        main = module.function(module.entry)
        parts += [_entry(main), _signature(main)]
    parts.extend(f"{line}\n" for line in sorted(emitter.declares))
    parts.append(f"attributes #0 = {{ {_attributes(target)} }}\n")
    return "\n".join(parts)


def _declaration(function: Function) -> str:
    """A function of another object that will be merged with this one."""
    kinds = ", ".join(["ptr", *map(parameter_type, function.params)])
    return f"declare hidden void {symbol(function.name)}({kinds})\n"


def _attributes(target: Target) -> str:
    # Without it LLVM would split 512-bit vectors on CPUs that it tunes for 256 bits.
    width = f'"prefer-vector-width"="{target.table.vector_bits}"'
    return f"nounwind {width}"


def _entry(main: Function) -> str:
    """Fetch the data pointers from the arrays and call the entry function."""
    lines, args, counts = [], ["ptr %rt"], {"%inputs": 0, "%outputs": 0}
    for number, param in enumerate(main.params):
        array = _array(main, param.name, isinstance(param, Var))
        if array in counts:
            lines.append(f"  %at.{number} = getelementptr ptr, ptr {array}, i64 {counts[array]}")
            lines.append(f"  %data.{number} = load ptr, ptr %at.{number}")
            args.append(f"ptr %data.{number}")
            counts[array] += 1
        else:
            args.append(f"ptr {array}")
    return "\n".join(
        [
            f"define i32 @{ENTRY_NAME}(ptr %rt, ptr %inputs, ptr %outputs, ptr %constants, ptr %arena) #0 {{",
            *lines,
            f"  call void {symbol(main.name)}({', '.join(args)})",
            "  ret i32 0",
            "}",
            "",
        ]
    )


def _signature(main: Function) -> str:
    """What the entry function was compiled for, as a constant of the object."""
    arrays: dict[str, list[Buffer]] = {"%inputs": [], "%outputs": []}
    sizes = dict.fromkeys(_SECTIONS, 0)
    for param in main.params:
        if not isinstance(param, Buffer):
            continue
        if param.name in sizes:
            sizes[param.name] = math.prod(param.shape)
        else:
            arrays[_array(main, param.name, False)].append(param)
    text = signature(arrays["%inputs"], arrays["%outputs"], sizes["constants"], sizes["arena"])
    return f'@{SIGNATURE_NAME} = constant [{len(text) + 1} x i8] c"{text}\\00"\n'


def _array(main: Function, name: str, is_variable: bool) -> str:
    """Where a parameter of the entry function comes from."""
    if not is_variable:
        if name in _SECTIONS:
            return _SECTIONS[name]
        if _INPUT.fullmatch(name):
            return "%inputs"
        if _OUTPUT.fullmatch(name):
            return "%outputs"
    raise InternalError(
        f"entry '{main.name}': parameter '{name}' must be x<n>, y<n>, constants or arena, and a buffer"
    )
