"""Tensor IR from its text (see `printer`), by way of Python's own parser: `parse_module(print_module(m)) == m`.

Types are not written where they follow: every name is declared with one, and operators keep that of their operands.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ..dtypes import ALL, BOOL, F32, S64, DType, by_name
from ..errors import UserError
from .builder import ZERO
from .nodes import (
    BINARY_OPS,
    UNARY_OPS,
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
    Epilogue,
    Expr,
    For,
    Function,
    If,
    Invoke,
    Let,
    Load,
    LoopKind,
    Module,
    ParallelInvoke,
    Ramp,
    Scope,
    Select,
    Slice,
    Stmt,
    Store,
    Unary,
    Var,
)
from .printer import BRGEMM_NUMBERS, COMPARE, INFIX, call_type

_OPERATORS = {
    ast.BitOr: "|", ast.BitXor: "^", ast.BitAnd: "&", ast.LShift: "<<", ast.RShift: ">>", ast.Add: "+",
    ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Div: "/", ast.Mod: "%",
}  # fmt: skip
_COMPARISONS = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_INFIX_OPS = {sign: op for op, (sign, _) in INFIX.items()} | {"/": "div"}
_COMPARE_OPS = {sign: op for op, sign in COMPARE.items()}
_LOOP_KINDS: dict[str, LoopKind] = {
    "range": "serial", "parallel": "parallel", "unrolled": "unrolled", "vector": "vector",
}  # fmt: skip


def parse_module(text: str) -> Module:
    """The program of a text. UserError with the line where it is no Tensor IR."""
    try:
        tree = ast.parse(text)
        return _module(tree)
    except SyntaxError as error:
        raise UserError(f"Tensor IR text, line {error.lineno}: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise UserError(
            "Tensor IR text: expressions or blocks are nested too deeply to be read"
        ) from None
    except ValueError as error:  # a null character
        raise UserError(f"Tensor IR text: {error}") from None


def parse_function(text: str) -> Function:
    """The only function of a text. UserError when there is not exactly one."""
    functions = parse_module(text).functions
    if len(functions) != 1:
        raise UserError(f"Tensor IR text: one function is expected, got {len(functions)}")
    return functions[0]


def _fail(node: ast.AST, message: str) -> NoReturn:
    raise UserError(f"Tensor IR text, line {getattr(node, 'lineno', '?')}: {message}")


def _module(tree: ast.Module) -> Module:
    functions: list[Function] = []
    entry = ""
    for node in tree.body:
        match node:
            case ast.FunctionDef():
                functions.append(_Parser().function(node))
            case ast.Assign(targets=[ast.Name(id="entry")], value=ast.Constant(value=str(name))):
                entry = name
            case _:
                _fail(node, "a function definition is expected")
    return Module(tuple(functions), entry)


class _Parser:
    """Reads one function, knowing the names in scope."""

    def __init__(self) -> None:
        self.scope: dict[str, Var | Buffer] = {}

    def function(self, node: ast.FunctionDef) -> Function:
        """A whole definition."""
        params = tuple(
            self._declaration(arg.arg, arg.annotation, "param", arg) for arg in node.args.args
        )
        body, note = node.body, ""
        match body[0]:
            case ast.Expr(value=ast.Constant(value=str(note))):
                body = body[1:]
        return Function(node.name, params, Block(self._statements(body)), note)

    def _declaration(
        self, name: str, kind: ast.expr | None, scope: Scope, at: ast.AST
    ) -> Buffer | Var:
        named: Buffer | Var
        match kind:
            case ast.Name(id=dtype):
                named = Var(name, self._dtype(dtype, at))
            case ast.Subscript(value=ast.Name(id=dtype), slice=shape):
                sizes = tuple(self._integer(size) for size in _elements(shape))
                named = Buffer(name, self._dtype(dtype, at), sizes, scope)
            case _:
                _fail(at, f"'{name}' needs a type such as f32[4, 8] or s64")
        self.scope[name] = named
        return named

    def _dtype(self, name: str, at: ast.AST) -> DType:
        try:
            return by_name(name)
        except UserError as error:
            _fail(at, str(error))

    def _integer(self, node: ast.expr) -> int:
        value = _literal(node)
        if not isinstance(value, int):
            _fail(node, "a whole number is expected")
        return value

    # statements

    def _statements(self, nodes: Sequence[ast.stmt]) -> tuple[Stmt, ...]:
        if len(nodes) == 1 and isinstance(nodes[0], ast.Pass):
            return ()
        return tuple([self._statement(node) for node in nodes])

    def _suite(self, nodes: Sequence[ast.stmt]) -> Stmt:
        """The body of a loop or branch; what it binds ends with it."""
        outer = dict(self.scope)
        statements = self._statements(nodes)
        self.scope = outer
        return statements[0] if len(statements) == 1 else Block(statements)

    def _statement(self, node: ast.stmt) -> Stmt:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]):
                value = self.expr(node.value)
                var = Var(name, value.dtype, value.lanes)
                self.scope[name] = var
                return Let(var, value)
            case ast.Assign(targets=[ast.Subscript() as place]):
                return Store(*self._place(place), self.expr(node.value))
            case ast.AnnAssign(target=ast.Name(id=name), value=None):
                buffer = self._declaration(name, node.annotation, "local", node)
                return (
                    Allocate(buffer)
                    if isinstance(buffer, Buffer)
                    else _fail(node, f"'{name}' needs a shape")
                )
            case ast.Expr(value=ast.Call(func=ast.Name(id=name)) as call):
                return self._call_statement(name, call)
            case ast.For(target=ast.Name(), iter=ast.Call(func=ast.Name()), orelse=[]):
                return self._for(node)
            case ast.If():
                otherwise = self._suite(node.orelse) if node.orelse else None
                return If(self.expr(node.test), self._suite(node.body), otherwise)
            case ast.With(items=[item]):
                return self._with(node, item)
        _fail(node, f"{type(node).__name__} is no statement of Tensor IR")

    def _for(self, node: ast.For) -> Stmt:
        call, target = node.iter, node.target
        assert (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and isinstance(target, ast.Name)
        )
        kind = _LOOP_KINDS.get(call.func.id)
        if kind is None or len(call.args) not in (2, 3) or call.keywords:
            _fail(
                node,
                f"a loop goes over one of {', '.join(_LOOP_KINDS)} with (begin, end) or (begin, end, step)",
            )
        begin, end = self.expr(call.args[0]), self.expr(call.args[1])
        step = self._integer(call.args[2]) if len(call.args) == 3 else 1
        outer, var = dict(self.scope), Var(target.id)
        self.scope[var.name] = var
        body = self._suite(node.body)
        self.scope = outer
        return For(var, begin, end, body, kind, step)

    def _with(self, node: ast.With, item: ast.withitem) -> Stmt:
        match item:
            case ast.withitem(context_expr=ast.Name(id="block"), optional_vars=None):
                outer = dict(self.scope)
                statements = self._statements(node.body)
                self.scope = outer
                return Block(statements)
            case ast.withitem(
                context_expr=ast.Call(func=ast.Name(id="brgemm")) as call,
                optional_vars=ast.Tuple(elts=names),
            ):
                return self._brgemm(call, names, node.body)
        _fail(node, "with takes block, or brgemm(...) as (row, col, acc)")

    def _brgemm(
        self, call: ast.Call, names: Sequence[ast.expr], body: Sequence[ast.stmt]
    ) -> Brgemm:
        given = {keyword.arg or "": keyword.value for keyword in call.keywords}
        missing = [name for name in BRGEMM_NUMBERS if name not in given]
        if len(call.args) != 3 or missing:
            _fail(call, f"brgemm takes C, A, B and {', '.join(BRGEMM_NUMBERS)}")
        c, a, b = (self._slice(arg) for arg in call.args)
        numbers: dict[str, Any] = {name: _literal(given[name]) for name in BRGEMM_NUMBERS}
        epilogue = self._epilogue(call, given.get("acc"), names, body) if names else None
        return Brgemm(c, a, b, **numbers, epilogue=epilogue)

    def _epilogue(
        self,
        call: ast.Call,
        kind: ast.expr | None,
        names: Sequence[ast.expr],
        body: Sequence[ast.stmt],
    ) -> Epilogue:
        named = [name.id for name in names if isinstance(name, ast.Name)]
        last = body[-1]
        if (
            len(named) != 3
            or not isinstance(kind, ast.Name)
            or not isinstance(last, ast.Return)
            or not last.value
        ):
            _fail(
                call,
                "an epilogue is `with brgemm(..., acc=f32) as (row, col, acc):` and ends in return",
            )
        row, col, acc = Var(named[0]), Var(named[1]), Var(named[2], self._dtype(kind.id, call))
        outer = dict(self.scope)
        self.scope.update({var.name: var for var in (row, col, acc)})
        lets = [let for let in self._statements(body[:-1]) if isinstance(let, Let)]
        value = self.expr(last.value)
        self.scope = outer
        if len(lets) != len(body) - 1:
            _fail(call, "an epilogue holds nothing but bindings and a return")
        return Epilogue(row, col, acc, value, tuple(lets))

    def _call_statement(self, name: str, call: ast.Call) -> Stmt:
        if name == "brgemm":
            return self._brgemm(call, (), ())
        if name == "store":
            match call:
                case ast.Call(
                    args=[ast.Subscript() as place, value],
                    keywords=[ast.keyword(arg="active", value=n)],
                ):
                    return Store(*self._place(place), self.expr(value), self._integer(n))
            _fail(call, "store takes a place, a value and active=")
        if call.keywords:
            _fail(call, f"the arguments of '{name}' have no names")
        if name == "parallel_invoke":
            match call.args:
                case [count, ast.Name(id=function), *args]:
                    return ParallelInvoke(function, self._arguments(args), self._integer(count))
            _fail(call, "parallel_invoke takes a count, a function and its arguments")
        return Invoke(name, self._arguments(call.args))

    def _arguments(self, nodes: Sequence[ast.expr]) -> tuple[Slice | Expr, ...]:
        return tuple(
            [self._slice(node) if self._is_slice(node) else self.expr(node) for node in nodes]
        )

    def _is_slice(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                return isinstance(self.scope.get(name), Buffer)
            case ast.Call(func=ast.Attribute(attr="at")):
                return True
        return False

    def _slice(self, node: ast.expr) -> Slice:
        match node:
            case ast.Name(id=name):
                buffer = self._buffer(name, node)
                return Slice(buffer, (ZERO,) * len(buffer.shape))
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="at"), args=indices, keywords=[]
            ):
                return Slice(
                    self._buffer(name, node), tuple([self.expr(index) for index in indices])
                )
        _fail(node, "a buffer or a place in it, such as x.at(4, 0), is expected")

    def _buffer(self, name: str, at: ast.AST) -> Buffer:
        buffer = self.scope.get(name)
        if not isinstance(buffer, Buffer):
            _fail(at, f"'{name}' is no buffer here")
        return buffer

    def _place(self, node: ast.Subscript) -> tuple[Buffer, tuple[Expr, ...]]:
        if not isinstance(node.value, ast.Name):
            _fail(node, "only a buffer is indexed")
        indices = tuple([self.expr(index) for index in _elements(node.slice)])
        return self._buffer(node.value.id, node), indices

    # expressions

    def expr(self, node: ast.expr) -> Expr:
        """An expression; its type follows from the names and literals in it."""
        value = _literal(node)
        if value is not None:
            dtype = BOOL if isinstance(value, bool) else S64 if isinstance(value, int) else F32
            return _const(node, value, dtype)
        match node:
            case ast.Name(id=name):
                var = self.scope.get(name)
                return var if isinstance(var, Var) else _fail(node, f"'{name}' is no variable here")
            case ast.Subscript():
                buffer, indices = self._place(node)
                return Load(buffer, indices, indices[-1].lanes if indices else 1)
            case ast.BinOp():
                return self._binary(node)
            case ast.UnaryOp(op=ast.USub() | ast.Invert()):
                return Unary(
                    "neg" if isinstance(node.op, ast.USub) else "not", self.expr(node.operand)
                )
            case ast.Compare(ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
                return Compare(
                    _COMPARE_OPS[_COMPARISONS[type(op)]], self.expr(node.left), self.expr(right)
                )
            case ast.Call(func=ast.Name(id=name)):
                return self._call(name, node)
        _fail(node, f"{type(node).__name__} is no expression of Tensor IR")

    def _binary(self, node: ast.BinOp) -> Expr:
        sign = _OPERATORS.get(type(node.op))
        if sign is None:
            _fail(node, f"operator {type(node.op).__name__} is not known")
        left, right = self.expr(node.left), self.expr(node.right)
        if sign in ("/", "//") and left.dtype.is_float != (sign == "/"):
            _fail(node, "floats are divided by /, integers by //")
        return Binary(_INFIX_OPS[sign], left, right)

    def _call(self, name: str, node: ast.Call) -> Expr:
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self, node)
        if name in _DTYPE_NAMES:
            return self._typed(by_name(name), node)
        args = tuple([self.expr(arg) for arg in node.args])
        if name in UNARY_OPS and len(args) == 1 and not node.keywords:
            return Unary(name, args[0])
        if name in BINARY_OPS and len(args) == 2 and not node.keywords:
            return Binary(name, *args)
        return self._intrinsic(name, args, node)

    def _intrinsic(self, name: str, args: tuple[Expr, ...], node: ast.Call) -> Expr:
        dtype, lanes = call_type(name, args)
        for keyword in node.keywords:
            match keyword:
                case ast.keyword(arg="dtype", value=ast.Name(id=kind)):
                    dtype = self._dtype(kind, node)
                case ast.keyword(arg="lanes", value=value):
                    lanes = self._integer(value)
                case _:
                    _fail(node, f"'{keyword.arg}' is no argument of '{name}'")
        return Call(name, args, dtype, lanes)

    def _typed(self, dtype: DType, node: ast.Call) -> Expr:
        """`s32(7)` is a literal, `s32(x)` a conversion."""
        if len(node.args) != 1 or node.keywords:
            _fail(node, f"{dtype} takes one value")
        value = _literal(node.args[0])
        return Cast(self.expr(node.args[0]), dtype) if value is None else _const(node, value, dtype)

    def _cast(self, node: ast.Call) -> Expr:
        match node:
            case ast.Call(args=[ast.Name(id=kind), operand], keywords=[]):
                return Cast(self.expr(operand), self._dtype(kind, node))
        _fail(node, "cast takes a type and a value")

    def _load(self, node: ast.Call) -> Expr:
        match node:
            case ast.Call(args=[ast.Subscript() as place, lanes], keywords=[]):
                return Load(*self._place(place), self._integer(lanes))
            case ast.Call(
                args=[ast.Subscript() as place, lanes],
                keywords=[ast.keyword(arg="active", value=active)],
            ):
                return Load(*self._place(place), self._integer(lanes), self._integer(active))
        _fail(node, "load takes a place, lanes and perhaps active=")

    def _select(self, node: ast.Call) -> Expr:
        if len(node.args) != 3 or node.keywords:
            _fail(node, "select takes a condition and two values")
        condition, then, otherwise = (self.expr(arg) for arg in node.args)
        return Select(condition, then, otherwise)

    def _lanes(self, node: ast.Call) -> Expr:
        if len(node.args) != 2 or node.keywords:
            _fail(node, "broadcast and ramp take a scalar and a number of lanes")
        assert isinstance(node.func, ast.Name)
        made = Broadcast if node.func.id == "broadcast" else Ramp
        return made(self.expr(node.args[0]), self._integer(node.args[1]))


_SPECIAL: dict[str, Callable[[_Parser, ast.Call], Expr]] = {
    "cast": _Parser._cast,
    "load": _Parser._load,
    "select": _Parser._select,
    "broadcast": _Parser._lanes,
    "ramp": _Parser._lanes,
}
_DTYPE_NAMES = frozenset(dtype.name for dtype in ALL)


def _elements(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _literal(node: ast.expr) -> int | float | bool | str | None:
    """The value of a literal with its sign, None for anything else."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return None if isinstance(value, bool) else -value
    return None


def _const(node: ast.AST, value: int | float | bool | str, dtype: DType) -> Const:
    """A literal of `dtype`. UserError when the text has no such value."""
    try:
        if dtype.is_float:
            number = float(value)
            return Const(math.nan if math.isnan(number) else number, dtype)
        if isinstance(value, str) or (isinstance(value, float) and value != int(value)):
            raise ValueError(f"{value!r} is no {dtype}")
        return Const(bool(value) if dtype == BOOL else int(value), dtype)
    except (ValueError, OverflowError) as error:
        _fail(node, str(error))
