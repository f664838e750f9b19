"""Emits a Tensor IR module as LLVM IR text, with the exported entry that the runtime calls (runtime/abi.py)."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import Any

from ..base.dims import Size
from ..base.dtypes import DType
from ..base.errors import InternalError
from ..base.records import dataclass
from ..runtime.abi import ARENA_NAME, ENTRY_NAME, RT_STOPPED, SIGNATURE_NAME, signature
from ..targets.isa import Target
from ..tensor_ir.builder import SIZE_PREFIX
from ..tensor_ir.nodes import Block, Buffer, Expr, Function, Module, Var
from ..tensor_ir.sizes import elements_of, size_of
from .interruption import END_TEXT, IDLE, IDLE_TEXT
from .llvm_emitter import FunctionEmitter, parameter_type
from .llvm_types import IN_LOOPS, IN_ORDER
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

    With an entry, only that (`graphc_entry`), the size of its arena and its signature are exported. The entry's
    parameters are x0, x1, ... for the model's inputs, y0, y1, ... for its outputs, `constants` and `arena`, and its
    sizes. Without an entry every function is
    exported under its name and takes the runtime pointer first. `stamps` (for profiling) names an output of the entry,
    s64[calls + 1]: it receives the CPU's cycle counter at the start and after each call. In a part of a program,
    `shared` names functions that other parts call, `declared` those that they define. Raise InternalError if the module
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
        emitter.helpers.update((IDLE_TEXT, END_TEXT))
        parts += [_entry(main), _arena_bytes(main, emitter), _signature(main)]
    parts.extend(sorted(emitter.helpers))
    parts.extend(f"{line}\n" for line in sorted(emitter.declares))
    kept = [IN_ORDER] if any(f.in_order for f in module.functions) else []
    # LLVM would move a zero, which is made anew for nothing, out of all loops, and where sums fill the registers, store
    # and load one of them in each round. Other constants are worth it.
    if emitter.max_carried > target.table.registers // 2 and not emitter.makes_constants:
        kept.append(IN_LOOPS)
    attributes = " ".join([_attributes(target), *(f'"{name}"' for name in kept)])
    parts.append(f"attributes #0 = {{ {attributes} }}\n")
    return "\n".join(parts)


def _declaration(function: Function) -> str:
    """A function of another object that will be merged with this one."""
    kinds = ", ".join(["ptr", *map(parameter_type, function.params)])
    return f"declare hidden void {symbol(function.name)}({kinds})\n"


def _attributes(target: Target) -> str:
    # Without it LLVM would split 512-bit vectors on CPUs that it tunes for 256 bits. Programs of several CPUs are
    # linked before code is selected where the object has a system's own format.
    width = f'"prefer-vector-width"="{target.table.vector_bits}"'
    cpu = f' "target-cpu"="{target.cpu}" "target-features"="{target.features}"'
    return f"nounwind uwtable {width}{cpu if target.system else ''}"


def _entry(main: Function) -> str:
    """Fetch the data pointers from the arrays and call the entry function."""
    lines, args, counts = [], ["ptr %rt"], {"%inputs": 0, "%outputs": 0, "%sizes": 0}
    for number, param in enumerate(main.params):
        array = _array(main, param.name, isinstance(param, Var))
        if array in counts:
            kind = "i64" if isinstance(param, Var) else "ptr"
            lines.append(f"  %at.{number} = getelementptr {kind}, ptr {array}, i64 {counts[array]}")
            lines.append(f"  %data.{number} = load {kind}, ptr %at.{number}")
            args.append(f"{kind} %data.{number}")
            counts[array] += 1
        else:
            args.append(f"ptr {array}")
    return "\n".join(
        [
            f"define i32 @{ENTRY_NAME}(ptr %inputs, ptr %outputs, ptr %sizes, ptr %constants, "
            "ptr %arena, ptr %rt) #0 {",
            *lines,
            f"  call void {symbol(main.name)}({', '.join(args)})",
            "  %none = icmp eq ptr %rt, null",
            f"  %known = select i1 %none, ptr {IDLE}, ptr %rt",
            f"  %stopped.at = getelementptr i8, ptr %known, i64 {RT_STOPPED}",
            "  %stopped = load i32, ptr %stopped.at",
            "  %whole = icmp eq i32 %stopped, 0",
            "  br i1 %whole, label %done, label %cut",
            "done:",
            "  ret i32 0",
            "cut:",
            "  call void @graphc_end(ptr %rt)",
            "  ret i32 %stopped",
            "}",
            "",
        ]
    )


@dataclass(frozen=True)
class _Dense:
    """A parameter as the signature describes it."""

    dtype: DType
    shape: tuple[Size, ...]


def _arena_bytes(main: Function, emitter: FunctionEmitter) -> str:
    """The function that says how much scratch memory a call needs."""
    arena = next((p for p in main.params if isinstance(p, Buffer) and p.name == "arena"), None)
    total = elements_of(arena.shape) if arena else 0
    sizes = [param.name for param in main.params if isinstance(param, Var)]
    return size_function(ARENA_NAME, sizes, total, emitter)


def size_function(
    name: str, sizes: Sequence[str], value: int | Expr, emitter: FunctionEmitter, linkage: str = ""
) -> str:
    """Return the text of `i64 name(ptr sizes)`, which computes `value` from the array of these variables."""
    stream = emitter.stream()
    expressions = emitter.expressions(stream, Block(()))
    for number, size in enumerate(sizes):
        at = stream.result(f"getelementptr i64, ptr %sizes, i64 {number}")
        expressions.names[size] = stream.result(f"load i64, ptr {at}")
    result = value if isinstance(value, int) else expressions.value(value)
    stream.end_block(f"ret i64 {result}")
    return f"define {linkage} i64 @{name}(ptr %sizes) #0 {{\n{stream.text()}\n}}\n"


def _signature(main: Function) -> str:
    """Return a constant of the object with the signature of the entry function."""
    arrays: dict[str, list[_Dense]] = {"%inputs": [], "%outputs": []}
    bytes_: dict[str, Any] = dict.fromkeys(_SECTIONS, 0)
    names = [p.name.removeprefix(SIZE_PREFIX) for p in main.params if isinstance(p, Var)]
    for param in main.params:
        if not isinstance(param, Buffer):
            continue
        shape = tuple(size_of(size) for size in param.shape)
        if param.name in bytes_:
            bytes_[param.name] = math.prod(shape)
        else:
            arrays[_array(main, param.name, False)].append(_Dense(param.dtype, shape))
    known = bytes_["constants"], bytes_["arena"]
    text = signature(arrays["%inputs"], arrays["%outputs"], *known, names)
    return f'@{SIGNATURE_NAME} = constant [{len(text) + 1} x i8] c"{text}\\00"\n'


def _array(main: Function, name: str, is_variable: bool) -> str:
    """Return the source of a parameter of the entry function."""
    if not is_variable:
        if name in _SECTIONS:
            return _SECTIONS[name]
        if _INPUT.fullmatch(name):
            return "%inputs"
        if _OUTPUT.fullmatch(name):
            return "%outputs"
    elif name.startswith(SIZE_PREFIX):
        return "%sizes"
    raise InternalError(
        f"entry '{main.name}': parameter '{name}' must be x<n>, y<n>, constants or arena, and a buffer, "
        "or a number size_<name>"
    )
