"""The rules of legal Tensor IR: one short rule per kind of node, checked after every pass in tests and in debug runs.

The stage "any" admits everything `nodes` describes; "final" is the input of code generation: no Brgemm, only serial
loops, only 1-D buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..base.contraction import multiplied_as
from ..base.dtypes import BOOL, S64
from ..base.errors import InternalError
from ..targets.isa import INSTRUCTIONS
from .expression_rules import RULES, type_text
from .instructions import instruction_meaning
from .intrinsics import INTRINSICS
from .names import is_identifier
from .nodes import (
    Allocate,
    Block,
    Brgemm,
    Buffer,
    Const,
    Epilogue,
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
    Slice,
    Stmt,
    Store,
    Stride,
    Var,
    While,
)
from .printer import print_expr, print_function, print_stmt
from .visitor import walk

Stage = Literal["any", "final"]
STATEMENT_WORDS = ("store", "brgemm", "parallel_invoke", "load", "prefetch")
_LOOP_KINDS = {"any": ("serial", "parallel", "unrolled", "vector"), "final": ("serial",)}


def verify(module: Module, stage: Stage = "any") -> Module:
    """The module itself, if it is legal. InternalError with the function's text, naming the first broken rule."""
    names = [function.name for function in module.functions]
    for name in names:
        if not is_identifier(name) or name in STATEMENT_WORDS or names.count(name) > 1:
            raise InternalError(
                f"function '{name}': a name must be a unique identifier, and no word of the language"
            )
    if module.entry and module.entry not in names:
        raise InternalError(f"module: entry '{module.entry}' is not a function of it")
    for function in module.functions:
        try:
            _Checker(module, stage).function(function)
        except _Illegal as illegal:
            raise InternalError(
                f"function '{function.name}': {illegal}", print_function(function)
            ) from None
    return module


class _Illegal(Exception):
    """A broken rule, in words."""


def _require(holds: bool, rule: str, where: Expr | Stmt | None = None) -> None:
    if not holds:
        if where is None:
            raise _Illegal(rule)
        text = print_stmt(where) if isinstance(where, _STATEMENTS) else print_expr(where)
        raise _Illegal(f"{rule}, in `{text.splitlines()[0]}`")


_STATEMENTS = (
    Store,
    Let,
    Allocate,
    Block,
    For,
    If,
    While,
    Brgemm,
    Prefetch,
    Invoke,
    ParallelInvoke,
)


class _Checker:
    """Walks one function with the names in scope."""

    def __init__(self, module: Module, stage: Stage) -> None:
        self.functions = {function.name: function for function in module.functions}
        self.stage = stage
        self.scope: dict[str, Var | Buffer] = {}

    def function(self, function: Function) -> None:
        """Every rule on one function."""
        for param in function.params:  # sizes of buffers may be later parameters
            self._bind(param)
        for param in function.params:
            if isinstance(param, Buffer):
                self._buffer(param, "param")
            else:
                _require(param.lanes == 1, f"parameter '{param.name}' must be scalar")
        self.stmt(function.body)

    def stmt(self, s: Stmt) -> None:
        """The rules of one statement and the statements inside it."""
        getattr(self, "_" + type(s).__name__.lower())(s)

    def _bind(self, named: Var | Buffer) -> None:
        _require(is_identifier(named.name), f"name '{named.name}' must be an identifier")
        _require(named.name not in self.scope, f"name '{named.name}' is bound twice")
        self.scope[named.name] = named

    def _buffer(self, buffer: Buffer, storage: str) -> None:
        _require(buffer.storage == storage, f"buffer '{buffer.name}' must have storage '{storage}'")
        for size in buffer.shape:
            if isinstance(size, int):
                _require(size >= 0, f"buffer '{buffer.name}' has a negative size")
                continue
            _require(storage == "param", f"local '{buffer.name}' must have sizes that are numbers")
            self.expr(size)
        if self.stage == "final":
            _require(len(buffer.shape) == 1, f"buffer '{buffer.name}' must be 1-D at this stage")

    # statements

    def _block(self, s: Block) -> None:
        before = dict(self.scope)
        for inner in s.body:
            self.stmt(inner)
        self.scope = before

    def _body(self, s: Stmt) -> None:
        before = dict(self.scope)
        self.stmt(s)
        self.scope = before

    def _let(self, s: Let) -> None:
        self.expr(s.value)
        if s.var.dtype != s.value.dtype or s.var.lanes != s.value.lanes:
            found = type_text(s.value)
            _require(False, f"'{s.var.name}' is {type_text(s.var)}, its value {found}", s)
        self._bind(s.var)

    def _allocate(self, s: Allocate) -> None:
        self._buffer(s.buffer, "local")
        self._bind(s.buffer)

    def _store(self, s: Store) -> None:
        self.expr(s.value)
        self._access(s, s.value.lanes)
        _require(
            s.value.dtype == s.buffer.dtype,
            f"a {s.value.dtype} is stored to a buffer of {s.buffer.dtype}",
            s,
        )

    def _for(self, s: For) -> None:
        _require(
            s.kind in _LOOP_KINDS[self.stage],
            f"loop '{s.var.name}' must not be {s.kind} at this stage",
        )
        _require(
            s.var.dtype == S64 and s.var.lanes == 1,
            f"loop variable '{s.var.name}' must be a scalar s64",
        )
        _require(s.step >= 1, f"loop '{s.var.name}' must have a step of at least 1, got {s.step}")
        for bound in (s.begin, s.end):
            self._index(bound)
            _require(
                s.kind != "unrolled" or isinstance(bound, Const),
                f"bounds of '{s.var.name}' must be constants",
            )
        before = dict(self.scope)
        self._bind(s.var)
        self._body(s.body)
        self.scope = before

    def _if(self, s: If) -> None:
        self._condition(s)
        self._body(s.then)
        if s.otherwise is not None:
            self._body(s.otherwise)

    def _while(self, s: While) -> None:
        self._condition(s)
        self._body(s.body)

    def _condition(self, s: If | While) -> None:
        self.expr(s.condition)
        _require(
            s.condition.dtype == BOOL and s.condition.lanes == 1,
            "a condition must be a scalar bool",
            s,
        )

    def _brgemm(self, s: Brgemm) -> None:
        _require(self.stage != "final", "brgemm must be expanded at this stage", s)
        for one in s.prefetch:
            self._slice(one.address)
            _require(one.elements >= 1, "a hint must name at least one element", s)
        for part in (s.c, s.a, s.b):
            self._slice(part.address)
            for number in part.strides:
                self._number(number)
            _require(
                len(part.buffer.shape) == 1,
                f"brgemm takes 1-D buffers, '{part.buffer.name}' is not",
                s,
            )
        self._number(s.k)
        k = s.k if isinstance(s.k, int) else 0
        _require(isinstance(s.k, int) or s.k_group == 1, "groups of k need a k that is a number", s)
        m, rows = (x if isinstance(x, int) else 1 for x in (s.m, s.tile_rows))
        sizes_fit = min(m, s.n, k, s.batch) >= 0 and s.n_padded >= s.n and rows >= 1
        _require(sizes_fit, "brgemm sizes must not be negative, nor n_padded below n", s)
        self._contraction(s)
        known = INSTRUCTIONS.get(s.multiply) if s.multiply else None
        is_static = isinstance(s.m, int) and isinstance(s.tile_rows, int)
        _require(is_static or known is not None, "rows that are known at run time need tiles", s)
        is_whole = s.a.tile == 0 or (is_static and m % rows == 0 and known is not None)
        _require(is_whole, "tiles of A that are apart need whole tiles", s)
        _require(not s.multiply or known is not None, f"there is no instruction {s.multiply}", s)
        if s.epilogue is not None:
            self._epilogue(s.epilogue, s)

    def _number(self, number: Stride) -> None:
        if not isinstance(number, int):
            self.expr(number)

    def _contraction(self, s: Brgemm) -> None:
        """Check the types of a Brgemm."""
        a, b, c, acc = s.a.buffer.dtype, s.b.buffer.dtype, s.c.buffer.dtype, s.accumulator
        _require(
            BOOL not in (a, b) and a.is_float == b.is_float,
            "brgemm takes two floats or two integers",
            s,
        )
        _require(
            c == acc or (s.epilogue is not None and not s.accumulate),
            f"brgemm of {a} and {b} sums in {acc}, which only an epilogue may store as {c}",
            s,
        )
        if s.k_group != 1:
            known = INTRINSICS.get(f"dot{s.k_group}")
            operands = (*multiplied_as(a, b, s.k_group), acc)
            _require(
                known is not None and operands in known.operands and s.a.col == 1,
                f"brgemm of {a} and {b} has no groups of {s.k_group}, or a_col is not 1",
                s,
            )

    def _epilogue(self, e: Epilogue, s: Brgemm) -> None:
        _require(e.acc.dtype == s.accumulator, f"the sums of this brgemm are {s.accumulator}", s)
        before = dict(self.scope)
        for var in (e.row, e.col, e.acc):
            self._bind(var)
        for let in e.lets:
            self._let(let)
        self.expr(e.value)
        _require(
            e.value.dtype == s.c.buffer.dtype and e.value.lanes == 1,
            "an epilogue must give an element of C",
            s,
        )
        self.scope = before

    def _prefetch(self, s: Prefetch) -> None:
        self._slice(s.address)

    def _invoke(self, s: Invoke) -> None:
        self._arguments(s, s.args)

    def _parallelinvoke(self, s: ParallelInvoke) -> None:
        if isinstance(s.count, int):
            _require(s.count >= 0, "a parallel call must not have a negative count", s)
        else:
            self.expr(s.count)
        self._arguments(s, (*s.args, Const(0, S64)))

    def _arguments(self, s: Invoke | ParallelInvoke, args: Sequence[Slice | Expr]) -> None:
        callee = self.functions.get(s.function) or instruction_meaning(s.function)
        _require(callee is not None, f"'{s.function}' is not a function of the module", s)
        assert callee is not None
        takes = len(callee.params)
        _require(len(args) == takes, f"'{s.function}' takes {takes} arguments, got {len(args)}", s)
        for param, arg in zip(callee.params, args, strict=True):
            if isinstance(arg, Slice):
                self._slice(arg)
                same = isinstance(param, Buffer) and arg.buffer.dtype.name in (
                    param.dtype.name,
                    "u8",
                )
            else:
                self.expr(arg)
                same = isinstance(param, Var) and (arg.dtype, arg.lanes) == (param.dtype, 1)
            _require(same, f"the argument for '{param.name}' of '{s.function}' has another type", s)

    # expressions

    def expr(self, e: Expr) -> None:
        """The rules of an expression and everything inside it."""
        for inner in walk(e):
            if isinstance(inner, Var):
                bound = self.scope.get(inner.name)
                if bound is None:
                    raise _Illegal(f"'{inner.name}' is not bound")
                if bound != inner:
                    text = type_text(inner)
                    raise _Illegal(f"'{inner.name}' is used as {text} but bound as another type")
            elif isinstance(inner, Load):
                self._access(inner, inner.lanes)
            else:
                rule = RULES.get(type(inner))
                for broken in rule(inner) if rule else ():
                    raise _Illegal(f"{broken}, in `{print_expr(inner)}`")  # type: ignore[arg-type]

    def _index(self, e: Expr) -> None:
        self.expr(e)
        if e.dtype != S64 or e.lanes != 1:
            _require(False, f"an index must be a scalar s64, got {type_text(e)}", e)

    def _slice(self, s: Slice) -> None:
        self._declared(s.buffer, s.indices)
        for index in s.indices:
            self._index(index)

    def _declared(self, buffer: Buffer, indices: Sequence[Expr]) -> None:
        _require(buffer.name in self.scope, f"buffer '{buffer.name}' is not declared")
        _require(self.scope[buffer.name] == buffer, f"buffer '{buffer.name}' is declared otherwise")
        count, axes = len(indices), len(buffer.shape)
        _require(count == axes, f"buffer '{buffer.name}' takes {axes} indices, got {count}")

    def _access(self, at: Load | Store, lanes: int) -> None:
        self._declared(at.buffer, at.indices)
        for index in at.indices[:-1]:
            self._index(index)
        if at.indices:
            last = at.indices[-1]
            if isinstance(at, Store):
                self.expr(last)
            if last.dtype != S64 or last.lanes not in (1, lanes):
                _require(False, f"the last index is {type_text(last)}", at)
        _require(
            at.active is None or 0 < at.active <= lanes,
            f"active must be 1 to {lanes}, got {at.active}",
            at,
        )
