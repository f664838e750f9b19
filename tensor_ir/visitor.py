"""Traversal (`walk`), rewriting (`Rewriter`, which returns the same object where nothing changed), and substitution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, Union

from .builder import block_of
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
    Epilogue,
    Expr,
    For,
    Function,
    If,
    Invoke,
    Let,
    Load,
    Matrices,
    Module,
    ParallelInvoke,
    Prefetch,
    PrefetchHint,
    Ramp,
    Select,
    Shuffle,
    Slice,
    Stmt,
    Store,
    Stride,
    Unary,
    Var,
    While,
)

Node = Union[Expr, Stmt, Slice, Matrices, Epilogue, PrefetchHint, Function, Module]

_CHILDREN: dict[type, Callable[[Any], tuple[Node, ...]]] = {
    Load: lambda n: n.indices,
    Unary: lambda n: (n.operand,),
    Binary: lambda n: (n.left, n.right),
    Compare: lambda n: (n.left, n.right),
    Select: lambda n: (n.condition, n.then, n.otherwise),
    Cast: lambda n: (n.operand,),
    Broadcast: lambda n: (n.operand,),
    Ramp: lambda n: (n.base,),
    Shuffle: lambda n: (n.left, n.right),
    Call: lambda n: n.args,
    Store: lambda n: (*n.indices, n.value),
    Let: lambda n: (n.value,),
    Block: lambda n: n.body,
    For: lambda n: (n.begin, n.end, n.body),
    If: lambda n: (
        (n.condition, n.then) if n.otherwise is None else (n.condition, n.then, n.otherwise)
    ),
    While: lambda n: (n.condition, n.body),
    Slice: lambda n: n.indices,
    Epilogue: lambda n: (*n.lets, n.value),
    PrefetchHint: lambda n: (n.address,),
    Matrices: lambda n: (n.address, *(x for x in n.strides if not isinstance(x, int))),
    Brgemm: lambda n: (
        *(n.c, n.a, n.b, *n.dynamic, *n.prefetch),
        *(() if n.epilogue is None else (n.epilogue,)),
    ),
    Prefetch: lambda n: (n.address,),
    Invoke: lambda n: n.args,
    ParallelInvoke: lambda n: n.args if isinstance(n.count, int) else (*n.args, n.count),
    Function: lambda n: (n.body,),
    Module: lambda n: n.functions,
}


def children(node: Node) -> Iterable[Node]:
    """The nodes directly inside `node`, in order. Bound variables (of loops, lets, epilogues) are not among them."""
    below = _CHILDREN.get(type(node))
    return below(node) if below else ()


def walk(node: Node) -> Iterator[Node]:
    """`node` and everything inside it, outside before inside, in order; no recursion."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        below = _CHILDREN.get(type(current))
        if below:
            stack.extend(below(current)[::-1])


_STATEMENTS_IN: dict[type, Callable[[Any], tuple[Node, ...]]] = {
    Block: lambda n: n.body,
    For: lambda n: (n.body,),
    If: lambda n: (n.then,) if n.otherwise is None else (n.then, n.otherwise),
    While: lambda n: (n.body,),
    Brgemm: lambda n: () if n.epilogue is None else (n.epilogue,),
    Epilogue: lambda n: n.lets,
    Function: lambda n: (n.body,),
    Module: lambda n: n.functions,
}


def walk_statements(node: Node) -> Iterator[Node]:
    """Iterate over statements only, a fraction of the nodes of `walk`."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        inside = _STATEMENTS_IN.get(type(current))
        if inside:
            stack.extend(inside(current)[::-1])


_WITH_BUFFER = frozenset((Load, Store, Slice, Allocate))
READING = frozenset((Load, Slice))


def buffers_in(node: Node, kinds: frozenset[type] = _WITH_BUFFER) -> dict[str, Buffer]:
    """Every buffer read, written, passed or allocated inside `node`, by name, in order of appearance.

    `kinds`: of the nodes that count, such as `READING`.
    """
    found: dict[str, Buffer] = {}
    stack: list[Any] = [node]
    while stack:  # as in `vars_in`
        current = stack.pop()
        kind = type(current)
        if kind in kinds and current.buffer.name not in found:
            found[current.buffer.name] = current.buffer
        below = _CHILDREN.get(kind)
        if below:
            stack.extend(below(current)[::-1])
    return found


def vars_in(node: Node) -> dict[str, Var]:
    """Every variable read inside `node`, by name, in order of appearance."""
    found: dict[str, Var] = {}
    stack = [node]
    while stack:  # not by `walk`: this is the most frequent traversal
        current = stack.pop()
        if type(current) is Var:
            found[current.name] = current
            continue
        below = _CHILDREN.get(type(current))
        if below:
            stack.extend(below(current)[::-1])
    return found


def add_vars(node: Node, names: set[str]) -> None:
    """Add the name of every variable read inside `node` to `names`."""
    stack = [node]
    while stack:  # as in `vars_in`
        current = stack.pop()
        if type(current) is Var:
            names.add(current.name)
            continue
        below = _CHILDREN.get(type(current))
        if below:
            stack.extend(below(current))


def bound_names(node: Node) -> Iterator[str]:
    """Names of the variables and buffers that `node` and what is inside it introduce."""
    for inner in walk_statements(node):
        kind = type(inner)
        if kind is Let or kind is For:
            yield inner.var.name  # type: ignore[union-attr]
        elif kind is Allocate:
            yield inner.buffer.name  # type: ignore[union-attr]
        elif isinstance(inner, Epilogue):
            yield from (inner.row.name, inner.col.name, inner.acc.name)
        elif isinstance(inner, Function):
            yield from (param.name for param in inner.params)


class Rewriter:
    """Rebuilds a tree bottom-up. A subclass overrides `<kind>` methods (`binary`, `for_`, ...) or `expr`/`stmt`.

    A statement may become a tuple of statements, spliced into the enclosing block; () removes it. Unchanged nodes are
    returned as the same object.
    """

    _methods: ClassVar[dict[type, Callable[[Any, Any], Any] | None]]
    """Rewrite method of each kind of node; None for kinds that are kept."""

    def __init_subclass__(cls) -> None:
        cls._methods = _methods_of(cls)

    def expr(self, e: Expr) -> Expr:
        """Rewrite one expression."""
        method = self._methods[type(e)]
        return e if method is None else method(self, e)

    def stmt(self, s: Stmt) -> Stmt | tuple[Stmt, ...]:
        """Rewrite one statement."""
        return self._methods[type(s)](self, s)  # type: ignore[misc]

    def exprs(self, many: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Rewrite each."""
        if len(many) == 1:  # an index of a 1-D buffer, as most are
            one = self.expr(many[0])
            return many if one is many[0] else (one,)
        new = [self.expr(e) for e in many]
        for a, b in zip(new, many, strict=True):
            if a is not b:
                return tuple(new)
        return many

    def body(self, s: Stmt) -> Stmt:
        """Rewrite the body of a loop or branch, which is one statement before and after."""
        new = self.stmt(s)
        if isinstance(new, Block) and isinstance(s, Block) and len(new.body) != len(s.body):
            new = new.body  # a block that has shrunk to one statement is unwrapped
        return block_of(new) if isinstance(new, tuple) else new

    def buffer(self, buffer: Buffer) -> Buffer:
        """Rewrite a buffer where it is named."""
        return buffer

    def var(self, e: Var) -> Expr:
        """Rewrite a variable that is read."""
        return e

    def load(self, e: Load) -> Expr:
        """Rewrite a load."""
        buffer, indices = self.buffer(e.buffer), self.exprs(e.indices)
        same = buffer is e.buffer and indices is e.indices
        return e if same else Load(buffer, indices, e.lanes, e.active)

    def unary(self, e: Unary) -> Expr:
        """Rewrite a unary operation."""
        operand = self.expr(e.operand)
        return e if operand is e.operand else Unary(e.op, operand)

    def binary(self, e: Binary) -> Expr:
        """Rewrite a binary operation."""
        left, right = self.expr(e.left), self.expr(e.right)
        return e if left is e.left and right is e.right else Binary(e.op, left, right)

    def compare(self, e: Compare) -> Expr:
        """Rewrite a comparison."""
        left, right = self.expr(e.left), self.expr(e.right)
        return e if left is e.left and right is e.right else Compare(e.op, left, right)

    def select(self, e: Select) -> Expr:
        """Rewrite a selection."""
        parts = (self.expr(e.condition), self.expr(e.then), self.expr(e.otherwise))
        same = parts[0] is e.condition and parts[1] is e.then and parts[2] is e.otherwise
        return e if same else Select(*parts)

    def cast(self, e: Cast) -> Expr:
        """Rewrite a conversion."""
        operand = self.expr(e.operand)
        return e if operand is e.operand else Cast(operand, e.dtype)

    def broadcast(self, e: Broadcast) -> Expr:
        """Rewrite a broadcast."""
        operand = self.expr(e.operand)
        return e if operand is e.operand else Broadcast(operand, e.lanes)

    def ramp(self, e: Ramp) -> Expr:
        """Rewrite a ramp."""
        base = self.expr(e.base)
        return e if base is e.base else Ramp(base, e.lanes)

    def shuffle(self, e: Shuffle) -> Expr:
        """Rewrite a choice of lanes."""
        left, right = self.expr(e.left), self.expr(e.right)
        return e if left is e.left and right is e.right else Shuffle(left, right, e.pattern)

    def call(self, e: Call) -> Expr:
        """Rewrite the call of an intrinsic."""
        args = self.exprs(e.args)
        return e if args is e.args else Call(e.name, args, e.dtype, e.lanes)

    def store(self, s: Store) -> Stmt | tuple[Stmt, ...]:
        """Rewrite a store."""
        buffer, indices, value = self.buffer(s.buffer), self.exprs(s.indices), self.expr(s.value)
        same = buffer is s.buffer and indices is s.indices and value is s.value
        return s if same else Store(buffer, indices, value, s.active)

    def let(self, s: Let) -> Stmt | tuple[Stmt, ...]:
        """Rewrite a binding."""
        value = self.expr(s.value)
        return s if value is s.value else Let(s.var, value)

    def allocate(self, s: Allocate) -> Stmt | tuple[Stmt, ...]:
        """Rewrite an allocation."""
        buffer = self.buffer(s.buffer)
        return s if buffer is s.buffer else Allocate(buffer)

    def block(self, s: Block) -> Block:
        """Rewrite the statements of a block."""
        new: list[Stmt] = []
        same = True
        for inner in s.body:
            result = self.stmt(inner)
            same = same and result is inner
            if isinstance(result, tuple):
                new.extend(result)
            else:
                new.append(result)
        return s if same else Block(tuple(new))

    def for_(self, s: For) -> Stmt | tuple[Stmt, ...]:
        """Rewrite a loop."""
        begin, end, body = self.expr(s.begin), self.expr(s.end), self.body(s.body)
        same = begin is s.begin and end is s.end and body is s.body
        return s if same else For(s.var, begin, end, body, s.kind, s.step)

    def if_(self, s: If) -> Stmt | tuple[Stmt, ...]:
        """Rewrite a branch."""
        condition, then = self.expr(s.condition), self.body(s.then)
        otherwise = None if s.otherwise is None else self.body(s.otherwise)
        same = condition is s.condition and then is s.then and otherwise is s.otherwise
        return s if same else If(condition, then, otherwise)

    def while_(self, s: While) -> Stmt | tuple[Stmt, ...]:
        """Rewrite a loop of unknown length."""
        condition, body = self.expr(s.condition), self.body(s.body)
        same = condition is s.condition and body is s.body
        return s if same else While(condition, body)

    def slice_(self, s: Slice) -> Slice:
        """Rewrite the indices of a slice."""
        buffer, indices = self.buffer(s.buffer), self.exprs(s.indices)
        return s if buffer is s.buffer and indices is s.indices else Slice(buffer, indices)

    def epilogue(self, e: Epilogue) -> Epilogue:
        """Rewrite what a `Brgemm` does to each element."""
        lets, value = [self.let(let) for let in e.lets], self.expr(e.value)
        if value is e.value and all(a is b for a, b in zip(lets, e.lets, strict=True)):
            return e
        kept = tuple(let for let in lets if isinstance(let, Let))
        return Epilogue(e.row, e.col, e.acc, value, kept)

    def brgemm(self, s: Brgemm) -> Stmt | tuple[Stmt, ...]:
        """Rewrite a batch-reduce GEMM."""
        new: dict[str, Any] = {name: self.matrices(getattr(s, name)) for name in "cab"}
        new |= {x: self.stride(getattr(s, x)) for x in ("m", "k", "tile_rows")}
        new["epilogue"] = s.epilogue and self.epilogue(s.epilogue)
        hints = tuple(map(self.prefetch_hint, s.prefetch))
        if any(x is not y for x, y in zip(hints, s.prefetch, strict=True)):
            new["prefetch"] = hints
        return s if all(x is getattr(s, name) for name, x in new.items()) else replace(s, **new)

    def matrices(self, s: Matrices) -> Matrices:
        """Rewrite an operand of a `Brgemm`."""
        address, (batch, row, col) = self.slice_(s.address), map(self.stride, s.strides)
        same = address is s.address and batch is s.batch and row is s.row and col is s.col
        return s if same else replace(s, address=address, row=row, col=col, batch=batch)

    def stride(self, value: Stride) -> Stride:
        """Rewrite a number that may be an expression."""
        return value if isinstance(value, int) else self.expr(value)

    def prefetch_hint(self, s: PrefetchHint) -> PrefetchHint:
        """Rewrite a hint of a `Brgemm`."""
        address = self.slice_(s.address)
        return s if address is s.address else PrefetchHint(address, s.elements)

    def prefetch(self, s: Prefetch) -> Stmt | tuple[Stmt, ...]:
        """Rewrite a hint."""
        address = self.slice_(s.address)
        return s if address is s.address else replace(s, address=address)

    def arguments(self, many: tuple[Slice | Expr, ...]) -> tuple[Slice | Expr, ...]:
        """Rewrite the arguments of a call."""
        new = tuple([self.slice_(a) if isinstance(a, Slice) else self.expr(a) for a in many])
        return many if all(a is b for a, b in zip(new, many, strict=True)) else new

    def invoke(self, s: Invoke) -> Stmt | tuple[Stmt, ...]:
        """Rewrite a call."""
        args = self.arguments(s.args)
        return s if args is s.args else Invoke(s.function, args)

    def parallel_invoke(self, s: ParallelInvoke) -> Stmt | tuple[Stmt, ...]:
        """Rewrite an outlined parallel loop."""
        args = self.arguments(s.args)
        count = s.count if isinstance(s.count, int) else self.expr(s.count)
        same = args is s.args and count is s.count
        return s if same else ParallelInvoke(s.function, args, count)

    def function(self, f: Function) -> Function:
        """Rewrite the body of a function."""
        body = self.body(f.body)
        if body is f.body:
            return f
        return replace(f, body=body if isinstance(body, Block) else Block((body,)))


_EXPR_METHODS: dict[type, str | None] = {
    Const: None,
    Var: "var",
    Load: "load",
    Unary: "unary",
    Binary: "binary",
    Compare: "compare",
    Select: "select",
    Cast: "cast",
    Broadcast: "broadcast",
    Ramp: "ramp",
    Shuffle: "shuffle",
    Call: "call",
}
_STMT_METHODS: dict[type, str] = {
    Store: "store",
    Let: "let",
    Allocate: "allocate",
    Block: "block",
    For: "for_",
    If: "if_",
    While: "while_",
    Brgemm: "brgemm",
    Prefetch: "prefetch",
    Invoke: "invoke",
    ParallelInvoke: "parallel_invoke",
}


def _methods_of(cls: type[Rewriter]) -> dict[type, Callable[[Any, Any], Any] | None]:
    names = {**_EXPR_METHODS, **_STMT_METHODS}
    found = {kind: getattr(cls, name) if name else None for kind, name in names.items()}
    if found[Var] is Rewriter.var:
        found[Var] = None
    return found


Rewriter._methods = _methods_of(Rewriter)


def map_functions(module: Module, rewrite: Callable[[Function], Function]) -> Module:
    """The module with every function rewritten; the same object when none changed."""
    functions = tuple([rewrite(f) for f in module.functions])
    if all(new is old for new, old in zip(functions, module.functions, strict=True)):
        return module
    return Module(functions, module.entry, module.checked)
