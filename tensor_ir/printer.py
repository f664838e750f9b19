"""The text of Tensor IR: a subset of Python's syntax, read back by `parser`.

    def f32_add_128x64__generic(x: f32[128, 64], y: f32[128, 64]):
        for i in parallel(0, 128):
            acc: f32[16]                                  # a local buffer
            for j in vector(0, 64):
                t = x[i, j] * 2.0                         # a Let
                y[i, j] = max(t, 0.0) + f32(i)

A bare integer is an s64, a bare float an f32, `True` a bool; any other constant carries its type: `s32(7)`,
`f64(0.5)`, `f32("nan")`. A type applied to anything else is a Cast (`cast(f32, 7)` for the cast of a literal).
`load(x[i, j], 8)` reads 8 lanes. A buffer as an argument is its first element, `x.at(i, j)` another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ..base.dtypes import BOOL, F32, S64, DType
from .intrinsics import INTRINSICS
from .nodes import (
    Allocate,
    Binary,
    Block,
    Brgemm,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    For,
    Function,
    If,
    Invoke,
    Let,
    Load,
    Module,
    ParallelInvoke,
    Prefetch,
    Ramp,
    Select,
    Shuffle,
    Slice,
    Stmt,
    Store,
    Unary,
    Var,
    While,
)

INFIX = {
    "or": ("|", 2),
    "xor": ("^", 3),
    "and": ("&", 4),
    "shl": ("<<", 5),
    "shr": (">>", 5),
    "add": ("+", 6),
    "sub": ("-", 6),
    "mul": ("*", 7),
    "div": ("//", 7),
    "mod": ("%", 7),
}
"""Symbol and precedence of infix operators; `div` of floats is `/`."""

COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_COMPARISON, _SIGN, _ATOM = 1, 8, 9
_SIZES = ("m", "n", "k", "batch")
_STRIDES = ("a_batch", "a_row", "a_col", "b_batch", "b_row", "c_row")
BRGEMM_NUMBERS = (*_SIZES, *_STRIDES, "accumulate", "n_padded", "tile_rows")
INDENT = "    "


def print_module(module: Module) -> str:
    """The whole program."""
    parts = [print_function(function) for function in module.functions]
    if module.entry:
        parts.insert(0, f'entry = "{module.entry}"\n')
    return "\n\n".join(parts)


def print_function(function: Function) -> str:
    """One function, ending with a newline."""
    params = ", ".join(_declaration(param) for param in function.params)
    lines = ["@in_order"] * function.in_order + [f"def {function.name}({params}):"]
    if function.note:
        lines.append(INDENT + _docstring(function.note))
    lines.extend(_suite(function.body, 1, is_function=True))
    return "\n".join(lines) + "\n"


def print_stmt(stmt: Stmt) -> str:
    """One statement with its nested statements, ending with a newline."""
    return "\n".join(_lines(stmt, 0)) + "\n"


def print_expr(expr: Expr) -> str:
    """One expression."""
    return _expr(expr)[0]


def _declaration(param: Buffer | Var) -> str:
    if isinstance(param, Var):
        return f"{param.name}: {param.dtype}"
    sizes = [str(n) if isinstance(n, int) else print_expr(n) for n in param.shape]
    shape = ", ".join(sizes) or "()"
    return f"{param.name}: {param.dtype}[{shape}]"


def _docstring(note: str) -> str:
    plain = note.isprintable() and '"' not in note and "\\" not in note
    return f'"""{note}"""' if plain else repr(note)


# --- statements ----------------------------------------------------------------------------------------------------


def _suite(body: Stmt, depth: int, is_function: bool = False) -> Iterator[str]:
    """The indented lines of a body. In a loop or branch a block of one statement is marked: there it needs no block."""
    if not isinstance(body, Block) or (len(body.body) == 1 and not is_function):
        yield from _lines(body, depth)
    elif not body.body:
        yield INDENT * depth + "pass"
    else:
        for stmt in body.body:
            yield from _lines(stmt, depth)


def _lines(stmt: Stmt, depth: int) -> Iterator[str]:
    pad = INDENT * depth
    simple = _SIMPLE.get(type(stmt))
    if simple:
        yield pad + simple(stmt)
    elif isinstance(stmt, Block):
        yield pad + "with block:"
        for inner in stmt.body:
            yield from _lines(inner, depth + 1)
        if not stmt.body:
            yield pad + INDENT + "pass"
    elif isinstance(stmt, For):
        kind = "range" if stmt.kind == "serial" else stmt.kind
        step = f", {stmt.step}" if stmt.step != 1 else ""
        yield f"{pad}for {stmt.var.name} in {kind}({print_expr(stmt.begin)}, {print_expr(stmt.end)}{step}):"
        yield from _suite(stmt.body, depth + 1)
    elif isinstance(stmt, If):
        yield from _if_lines(stmt, depth)
    elif isinstance(stmt, While):
        yield f"{pad}while {print_expr(stmt.condition)}:"
        yield from _suite(stmt.body, depth + 1)
    elif isinstance(stmt, Brgemm):
        yield from _brgemm_lines(stmt, depth)


def _if_lines(stmt: If, depth: int) -> Iterator[str]:
    pad, word = INDENT * depth, "if"
    branch: Stmt | None = stmt
    while isinstance(branch, If):
        yield f"{pad}{word} {print_expr(branch.condition)}:"
        yield from _suite(branch.then, depth + 1)
        word, branch = "elif", branch.otherwise
    if branch is not None:
        yield f"{pad}else:"
        yield from _suite(branch, depth + 1)


def _brgemm_lines(stmt: Brgemm, depth: int) -> Iterator[str]:
    pad = INDENT * depth
    args = [_slice(one.address) for one in (stmt.c, stmt.a, stmt.b)]
    strides = (*stmt.a.strides, stmt.b.batch, stmt.b.row, stmt.c.row)
    numbers = (
        stmt.m,
        stmt.n,
        stmt.k,
        stmt.batch,
        *strides,
        stmt.accumulate,
        stmt.n_padded,
        stmt.tile_rows,
    )
    for name, value in zip(BRGEMM_NUMBERS, numbers, strict=True):
        args.append(f"{name}={value if isinstance(value, int) else print_expr(value)}")
    if stmt.k_group != 1:
        args.append(f"k_group={stmt.k_group}")
    if stmt.a.tile:
        args.append(f"a_tile={stmt.a.tile}")
    if stmt.multiply:
        args.append(f"multiply={stmt.multiply}")
    if stmt.prefetch:
        parts = [f"{_slice(one.address)}: {one.elements}" for one in stmt.prefetch]
        args.append(f"prefetch={{{', '.join(parts)}}}")
    end = stmt.epilogue
    if end is None:
        yield f"{pad}brgemm({', '.join(args)})"
        return
    names = f"{end.row.name}, {end.col.name}, {end.acc.name}"
    yield f"{pad}with brgemm({', '.join(args)}, acc={end.acc.dtype}) as ({names}):"
    for let in end.lets:
        yield from _lines(let, depth + 1)
    yield f"{pad}{INDENT}return {print_expr(end.value)}"


def _store(stmt: Store) -> str:
    element = f"{stmt.buffer.name}[{_index(stmt.indices)}]"
    if stmt.active is not None:
        return f"store({element}, {print_expr(stmt.value)}, active={stmt.active})"
    return f"{element} = {print_expr(stmt.value)}"


def _arguments(args: tuple[Slice | Expr, ...]) -> list[str]:
    return [_slice(a) if isinstance(a, Slice) else print_expr(a) for a in args]


def _parallel_invoke(stmt: ParallelInvoke) -> str:
    count = str(stmt.count) if isinstance(stmt.count, int) else print_expr(stmt.count)
    return f"parallel_invoke({', '.join([count, stmt.function, *_arguments(stmt.args)])})"


_SIMPLE: dict[type, Callable[[Any], str]] = {
    Store: _store,
    Let: lambda s: f"{s.var.name} = {print_expr(s.value)}",
    Allocate: lambda s: _declaration(s.buffer),
    Prefetch: lambda s: f"prefetch({_slice(s.address)}{'' if s.level == 2 else f', {s.level}'})",
    Invoke: lambda s: f"{s.function}({', '.join(_arguments(s.args))})",
    ParallelInvoke: _parallel_invoke,
}


# --- expressions ---------------------------------------------------------------------------------------------------


def _slice(element: Slice) -> str:
    if all(isinstance(i, Const) and i.value == 0 for i in element.indices):
        return element.buffer.name
    return f"{element.buffer.name}.at({_index(element.indices)})"


def _index(indices: tuple[Expr, ...]) -> str:
    return ", ".join(print_expr(i) for i in indices) or "()"


def _expr(e: Expr) -> tuple[str, int]:
    """(text, precedence)."""
    if isinstance(e, Binary) and e.op in INFIX:
        operator, level = INFIX[e.op]
        if e.op == "div" and e.dtype.is_float:
            operator = "/"
        return f"{_at_least(e.left, level)} {operator} {_at_least(e.right, level + 1)}", level
    if isinstance(e, Compare) and e.op in COMPARE:
        level = _COMPARISON + 1
        return (
            f"{_at_least(e.left, level)} {COMPARE[e.op]} {_at_least(e.right, level)}",
            _COMPARISON,
        )
    if isinstance(e, Unary) and (
        e.op == "not" or (e.op == "neg" and not isinstance(e.operand, Const))
    ):
        return ("~" if e.op == "not" else "-") + _at_least(e.operand, _SIGN), _SIGN
    if isinstance(e, Const):
        text = _const(e)
        return text, _SIGN if text.startswith("-") else _ATOM
    return _ATOMS[type(e)](e), _ATOM


def _at_least(e: Expr, level: int) -> str:
    text, own = _expr(e)
    return text if own >= level else f"({text})"


def _const(e: Const) -> str:
    if e.dtype == BOOL:
        return str(bool(e.value))
    if not e.dtype.is_float:
        return str(int(e.value)) if e.dtype == S64 else f"{e.dtype}({int(e.value)})"
    value = float(e.value)
    if not math.isfinite(value):
        return f'{e.dtype}("{value}")'
    return repr(value) if e.dtype == F32 else f"{e.dtype}({value!r})"


def _load(e: Load) -> str:
    element = f"{e.buffer.name}[{_index(e.indices)}]"
    if e.active is not None:
        return f"load({element}, {e.lanes}, active={e.active})"
    is_implied = e.lanes == (e.indices[-1].lanes if e.indices else 1)
    return element if is_implied else f"load({element}, {e.lanes})"


def _cast(e: Cast) -> str:
    if isinstance(e.operand, Const):
        return f"cast({e.dtype}, {print_expr(e.operand)})"
    return f"{e.dtype}({print_expr(e.operand)})"


def call_type(name: str, args: tuple[Expr, ...]) -> tuple[DType, int]:
    """(dtype, lanes) a call of `name` has unless the text says otherwise."""
    reduces = name in INTRINSICS and INTRINSICS[name].reduces
    return (args[0].dtype, 1 if reduces else args[0].lanes) if args else (F32, 1)


def _call(e: Call) -> str:
    args = [print_expr(a) for a in e.args]
    dtype, lanes = call_type(e.name, e.args)
    if e.dtype != dtype:
        args.append(f"dtype={e.dtype}")
    if e.lanes != lanes:
        args.append(f"lanes={e.lanes}")
    return f"{e.name}({', '.join(args)})"


def _function_of(name: str, *operands: Expr) -> str:
    return f"{name}({', '.join(map(print_expr, operands))})"


_ATOMS: dict[type, Callable[[Any], str]] = {
    Var: lambda e: e.name,
    Load: _load,
    Unary: lambda e: _function_of(e.op, e.operand),
    Binary: lambda e: _function_of(e.op, e.left, e.right),
    Compare: lambda e: _function_of(e.op, e.left, e.right),
    Select: lambda e: _function_of("select", e.condition, e.then, e.otherwise),
    Cast: _cast,
    Broadcast: lambda e: f"broadcast({print_expr(e.operand)}, {e.lanes})",
    Ramp: lambda e: f"ramp({print_expr(e.base)}, {e.lanes})",
    Shuffle: lambda e: (
        f"shuffle({print_expr(e.left)}, {print_expr(e.right)}, {', '.join(map(str, e.pattern))})"
    ),
    Call: _call,
}
