"""Expressions of Tensor IR from the syntax trees of Python's parser (see `parser`)."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable

from ..base.dtypes import ALL, BOOL, F32, S64, DType, by_name
from ..base.errors import UserError
from .nodes import (
    BINARY_OPS,
    UNARY_OPS,
    Binary,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Load,
    Ramp,
    Select,
    Shuffle,
    Unary,
    Var,
)
from .printer import COMPARE, INFIX, call_type

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


def error_at(node: ast.AST, message: str) -> UserError:
    """The error about the text at a node, to be raised."""
    return UserError(f"Tensor IR text, line {getattr(node, 'lineno', '?')}: {message}")


class ExpressionParser:
    """Reads expressions, knowing the names in scope."""

    def __init__(self) -> None:
        self.scope: dict[str, Var | Buffer] = {}

    def expr(self, node: ast.expr) -> Expr:
        """An expression; its type follows from the names and literals in it."""
        value = literal(node)
        if value is not None:
            dtype = BOOL if isinstance(value, bool) else S64 if isinstance(value, int) else F32
            return _const(node, value, dtype)
        match node:
            case ast.Name(id=name):
                var = self.scope.get(name)
                if not isinstance(var, Var):
                    raise error_at(node, f"'{name}' must be a variable here")
                return var
            case ast.Subscript():
                buffer, indices = self.element(node)
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
        raise error_at(node, f"an expression of Tensor IR is expected, got {type(node).__name__}")

    def _binary(self, node: ast.BinOp) -> Expr:
        sign = _OPERATORS.get(type(node.op))
        if sign is None:
            raise error_at(
                node, f"operators must be those of Tensor IR, got {type(node.op).__name__}"
            )
        left, right = self.expr(node.left), self.expr(node.right)
        if sign in ("/", "//") and left.dtype.is_float != (sign == "/"):
            raise error_at(node, "floats must be divided by /, integers by //")
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
                    dtype = self.dtype(kind, node)
                case ast.keyword(arg="lanes", value=value):
                    lanes = self.integer(value)
                case _:
                    raise error_at(
                        node, f"'{name}' takes dtype= and lanes= by name, got '{keyword.arg}'"
                    )
        return Call(name, args, dtype, lanes)

    def _typed(self, dtype: DType, node: ast.Call) -> Expr:
        """`s32(7)` is a literal, `s32(x)` a conversion."""
        if len(node.args) != 1 or node.keywords:
            raise error_at(node, f"{dtype} takes one value")
        value = literal(node.args[0])
        return Cast(self.expr(node.args[0]), dtype) if value is None else _const(node, value, dtype)

    def _cast(self, node: ast.Call) -> Expr:
        match node:
            case ast.Call(args=[ast.Name(id=kind), operand], keywords=[]):
                return Cast(self.expr(operand), self.dtype(kind, node))
        raise error_at(node, "cast takes a type and a value")

    def _load(self, node: ast.Call) -> Expr:
        match node:
            case ast.Call(args=[ast.Subscript() as element, lanes], keywords=[]):
                return Load(*self.element(element), self.integer(lanes))
            case ast.Call(
                args=[ast.Subscript() as element, lanes],
                keywords=[ast.keyword(arg="active", value=active)],
            ):
                return Load(*self.element(element), self.integer(lanes), self.integer(active))
        raise error_at(node, "load takes an address, lanes and optionally active=")

    def _select(self, node: ast.Call) -> Expr:
        if len(node.args) != 3 or node.keywords:
            raise error_at(node, "select takes a condition and two values")
        condition, then, otherwise = (self.expr(arg) for arg in node.args)
        return Select(condition, then, otherwise)

    def _lanes(self, node: ast.Call) -> Expr:
        if len(node.args) != 2 or node.keywords:
            raise error_at(node, "broadcast and ramp take a scalar and a number of lanes")
        assert isinstance(node.func, ast.Name)
        made = Broadcast if node.func.id == "broadcast" else Ramp
        return made(self.expr(node.args[0]), self.integer(node.args[1]))

    def _shuffle(self, node: ast.Call) -> Expr:
        if len(node.args) < 3 or node.keywords:
            raise error_at(node, "shuffle takes two vectors and numbers of lanes")
        left, right, *pattern = node.args
        return Shuffle(self.expr(left), self.expr(right), tuple(map(self.integer, pattern)))

    def dtype(self, name: str, at: ast.AST) -> DType:
        """The type called `name`."""
        try:
            return by_name(name)
        except UserError as error:
            raise error_at(at, str(error)) from None

    def integer(self, node: ast.expr) -> int:
        """A literal integer."""
        value = literal(node)
        if not isinstance(value, int):
            raise error_at(node, "an integer is expected")
        return value

    def buffer(self, name: str, at: ast.AST) -> Buffer:
        """The buffer called `name`."""
        buffer = self.scope.get(name)
        if not isinstance(buffer, Buffer):
            raise error_at(at, f"'{name}' must be a buffer here")
        return buffer

    def element(self, node: ast.Subscript) -> tuple[Buffer, tuple[Expr, ...]]:
        """(buffer, indices) of `x[i, j]`."""
        if not isinstance(node.value, ast.Name):
            raise error_at(node, "what is indexed must be a buffer")
        indices = tuple([self.expr(index) for index in elements(node.slice)])
        return self.buffer(node.value.id, node), indices


_SPECIAL: dict[str, Callable[[ExpressionParser, ast.Call], Expr]] = {
    "cast": ExpressionParser._cast,
    "load": ExpressionParser._load,
    "select": ExpressionParser._select,
    "broadcast": ExpressionParser._lanes,
    "ramp": ExpressionParser._lanes,
    "shuffle": ExpressionParser._shuffle,
}
_DTYPE_NAMES = frozenset(dtype.name for dtype in ALL)


def elements(node: ast.expr) -> list[ast.expr]:
    """The expressions between the brackets of an index or a shape."""
    return node.elts if isinstance(node, ast.Tuple) else [node]


def literal(node: ast.expr) -> int | float | bool | str | None:
    """The value of a literal with its sign, None for anything else."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return None if isinstance(value, bool) else -value
    return None


def _const(node: ast.AST, value: int | float | bool | str, dtype: DType) -> Const:
    """A literal of `dtype`. Raise UserError if the text has no such value."""
    try:
        if dtype.is_float:
            number = float(value)
            return Const(math.nan if math.isnan(number) else number, dtype)
        if isinstance(value, str) or (isinstance(value, float) and value != int(value)):
            raise ValueError(f"{value!r} is not a valid {dtype}")
        return Const(bool(value) if dtype == BOOL else int(value), dtype)
    except (ValueError, OverflowError) as error:
        raise error_at(node, str(error)) from None
