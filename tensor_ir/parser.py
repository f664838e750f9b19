"""Tensor IR from its text (see `printer`), by way of Python's own parser: `parse_module(print_module(m)) == m`.

Types are written only where they cannot be inferred: names are declared with a type, operators keep their
operands' type.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from ..base.errors import UserError
from .builder import ZERO, brgemm
from .expression_parser import ExpressionParser, elements, error_at, literal
from .nodes import (
    Allocate,
    Block,
    Brgemm,
    Buffer,
    Epilogue,
    Expr,
    For,
    Function,
    If,
    Invoke,
    Let,
    LoopKind,
    Module,
    ParallelInvoke,
    Prefetch,
    PrefetchHint,
    Slice,
    Stmt,
    Storage,
    Store,
    Var,
    While,
)
from .printer import BRGEMM_NUMBERS

_LOOP_KINDS: dict[str, LoopKind] = {
    "range": "serial", "parallel": "parallel", "unrolled": "unrolled", "vector": "vector",
}  # fmt: skip


def parse_module(text: str) -> Module:
    """Parse the text of a program. UserError naming the line that is not Tensor IR."""
    try:
        tree = ast.parse(text)
        return _module(tree)
    except SyntaxError as error:
        raise UserError(f"Tensor IR text, line {error.lineno}: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise UserError(
            "Tensor IR text: expressions and blocks must be nested less deeply"
        ) from None
    except ValueError as error:  # a null character
        raise UserError(f"Tensor IR text: {error}") from None


def parse_function(text: str) -> Function:
    """Parse a text of one function. Raise UserError if there is not exactly one."""
    functions = parse_module(text).functions
    if len(functions) != 1:
        raise UserError(f"Tensor IR text: one function is expected, got {len(functions)}")
    return functions[0]


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
                raise error_at(node, "a function definition is expected")
    return Module(tuple(functions), entry)


class _Parser(ExpressionParser):
    """Reads one function."""

    def function(self, node: ast.FunctionDef) -> Function:
        """A whole definition."""
        for arg in node.args.args:  # shapes may name them
            if isinstance(arg.annotation, ast.Name):
                self._declaration(arg.arg, arg.annotation, "param", arg)
        params = tuple(
            self._declaration(arg.arg, arg.annotation, "param", arg) for arg in node.args.args
        )
        body, note = node.body, ""
        match body[0]:
            case ast.Expr(value=ast.Constant(value=str(note))):
                body = body[1:]
        match node.decorator_list:
            case []:
                in_order = False
            case [ast.Name(id="in_order")]:
                in_order = True
            case _:
                raise error_at(node, "a function may be @in_order, and nothing else")
        return Function(node.name, params, Block(self._statements(body)), note, in_order)

    def _declaration(
        self, name: str, kind: ast.expr | None, storage: Storage, at: ast.AST
    ) -> Buffer | Var:
        named: Buffer | Var
        match kind:
            case ast.Name(id=dtype):
                named = Var(name, self.dtype(dtype, at))
            case ast.Subscript(value=ast.Name(id=dtype), slice=shape):
                sizes = tuple(self._size(size) for size in elements(shape))
                named = Buffer(name, self.dtype(dtype, at), sizes, storage)
            case _:
                raise error_at(at, f"'{name}' needs a type such as f32[4, 8] or s64")
        self.scope[name] = named
        return named

    def _size(self, node: ast.expr) -> int | Expr:
        """A literal, or an expression of sizes."""
        value = literal(node)
        return value if isinstance(value, int) else self.expr(node)

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
            case ast.Assign(targets=[ast.Subscript() as element]):
                return Store(*self.element(element), self.expr(node.value))
            case ast.AnnAssign(target=ast.Name(id=name), value=None):
                buffer = self._declaration(name, node.annotation, "local", node)
                if not isinstance(buffer, Buffer):
                    raise error_at(node, f"'{name}' needs a shape")
                return Allocate(buffer)
            case ast.Expr(value=ast.Call(func=ast.Name(id=name)) as call):
                return self._call_statement(name, call)
            case ast.For(target=ast.Name(), iter=ast.Call(func=ast.Name()), orelse=[]):
                return self._for(node)
            case ast.If():
                otherwise = self._suite(node.orelse) if node.orelse else None
                return If(self.expr(node.test), self._suite(node.body), otherwise)
            case ast.While(orelse=[]):
                return While(self.expr(node.test), self._suite(node.body))
            case ast.With(items=[item]):
                return self._with(node, item)
        raise error_at(node, f"a statement of Tensor IR is expected, got {type(node).__name__}")

    def _for(self, node: ast.For) -> Stmt:
        call, target = node.iter, node.target
        assert (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and isinstance(target, ast.Name)
        )
        kind = _LOOP_KINDS.get(call.func.id)
        if kind is None or len(call.args) not in (2, 3) or call.keywords:
            raise error_at(
                node,
                f"a loop must go over one of {', '.join(_LOOP_KINDS)} with (begin, end) or (begin, end, step)",
            )
        begin, end = self.expr(call.args[0]), self.expr(call.args[1])
        step = self.integer(call.args[2]) if len(call.args) == 3 else 1
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
        raise error_at(node, "with takes block, or brgemm(...) as (row, col, acc)")

    def _brgemm(
        self, call: ast.Call, names: Sequence[ast.expr], body: Sequence[ast.stmt]
    ) -> Brgemm:
        given = {keyword.arg or "": keyword.value for keyword in call.keywords}
        missing = [name for name in BRGEMM_NUMBERS if name not in given]
        if len(call.args) != 3 or missing:
            raise error_at(call, f"brgemm takes C, A, B and {', '.join(BRGEMM_NUMBERS)}")
        c, a, b = (self._slice(arg) for arg in call.args)
        numbers: dict[str, Any] = {name: literal(given[name]) for name in BRGEMM_NUMBERS}
        numbers |= {n: self.expr(given[n]) for n, value in numbers.items() if value is None}
        prefetch = self._prefetch_hints(given.get("prefetch"))
        group = self.integer(given["k_group"]) if "k_group" in given else 1
        numbers["a_tile"] = self.integer(given["a_tile"]) if "a_tile" in given else 0
        epilogue = self._epilogue(call, given.get("acc"), names, body) if names else None
        match given.get("multiply"):
            case ast.Name(id=multiply):
                numbers["multiply"] = multiply
        return brgemm(c, a, b, **numbers, epilogue=epilogue, prefetch=prefetch, k_group=group)

    def _prefetch_hints(self, node: ast.expr | None) -> tuple[PrefetchHint, ...]:
        match node:
            case None:
                return ()
            case ast.Dict(keys=keys, values=values):
                addresses = [self._slice(key) for key in keys if key is not None]
                sizes = [self.integer(value) for value in values]
                return tuple([PrefetchHint(*pair) for pair in zip(addresses, sizes, strict=True)])
        raise error_at(node, "prefetch must map addresses to numbers of elements: {x.at(64): 32}")

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
            raise error_at(
                call,
                "an epilogue must be `with brgemm(..., acc=f32) as (row, col, acc):` and ends in return",
            )
        row, col, acc = Var(named[0]), Var(named[1]), Var(named[2], self.dtype(kind.id, call))
        outer = dict(self.scope)
        self.scope.update({var.name: var for var in (row, col, acc)})
        lets = [let for let in self._statements(body[:-1]) if isinstance(let, Let)]
        value = self.expr(last.value)
        self.scope = outer
        if len(lets) != len(body) - 1:
            raise error_at(call, "an epilogue must hold nothing but bindings and a return")
        return Epilogue(row, col, acc, value, tuple(lets))

    def _call_statement(self, name: str, call: ast.Call) -> Stmt:
        if name == "brgemm":
            return self._brgemm(call, (), ())
        if name == "store":
            match call:
                case ast.Call(
                    args=[ast.Subscript() as element, value],
                    keywords=[ast.keyword(arg="active", value=n)],
                ):
                    return Store(*self.element(element), self.expr(value), self.integer(n))
            raise error_at(call, "store takes an address, a value and active=")
        if call.keywords:
            raise error_at(call, f"the arguments of '{name}' must be given without names")
        if name == "prefetch":
            match call.args:
                case [address]:
                    return Prefetch(self._slice(address))
                case [address, ast.Constant(value=int(level))] if level in (0, 1):
                    return Prefetch(self._slice(address), level)
            raise error_at(
                call, "prefetch takes one address, and 1 for a line in L1, 0 for one to write to"
            )
        if name == "parallel_invoke":
            match call.args:
                case [count, ast.Name(id=function), *args]:
                    return ParallelInvoke(function, self._arguments(args), self._size(count))
            raise error_at(call, "parallel_invoke takes a count, a function and its arguments")
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
                buffer = self.buffer(name, node)
                return Slice(buffer, (ZERO,) * len(buffer.shape))
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="at"), args=indices, keywords=[]
            ):
                return Slice(
                    self.buffer(name, node), tuple([self.expr(index) for index in indices])
                )
        raise error_at(node, "a buffer or an address in it, such as x.at(4, 0), is expected")
