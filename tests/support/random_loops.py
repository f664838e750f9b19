"""Random legal Tensor IR that uses every kind of node, from a seed."""

from __future__ import annotations

import math
import random

from graphc.base.dtypes import ALL, BOOL, F32, F64, S32, S64, DType
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.intrinsics import INTRINSICS, WIDEST_ZERO
from graphc.tensor_ir.nodes import (
    COMPARE_OPS,
    Allocate,
    Binary,
    Block,
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
)

_COMPUTED = [dtype for dtype in ALL if not dtype.is_storage]
_FLOATS = [dtype for dtype in _COMPUTED if dtype.is_float]
_INTEGERS = [dtype for dtype in _COMPUTED if dtype.kind in ("int", "uint")]


def random_module(seed: int) -> Module:
    """A caller and a callee."""
    rnd = random.Random(seed)
    callee = _Generator(rnd, "callee").function([])
    return Module((callee, _Generator(rnd, "main").function([callee])), rnd.choice(["", "main"]))


def random_expr(
    seed: int, variables: list[Var], dtype: DType, lanes: int = 1, depth: int = 4
) -> Expr:
    """An expression over constants and `variables`, without loads."""
    generator = _Generator(random.Random(seed), "")
    generator.vars = list(variables)
    return generator.expr(dtype, lanes, depth)


class _Generator:
    def __init__(self, rnd: random.Random, name: str) -> None:
        self.rnd = rnd
        self.name = name
        self.buffers: list[Buffer] = []
        self.vars: list[Var] = []
        self.callees: list[Function] = []
        self.count = 0

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def function(self, callees: list[Function]) -> Function:
        params: list[Buffer | Var] = []
        for _ in range(self.rnd.randint(1, 4)):
            params.append(Buffer(self.fresh("p"), self.rnd.choice(ALL), self.shape()))
        params.append(Buffer(self.fresh("flat"), F32, (640,)))
        params.append(Var(self.fresh("n")))
        self.buffers = [p for p in params if isinstance(p, Buffer)]
        self.vars = [p for p in params if isinstance(p, Var)]
        self.callees = callees
        note = self.rnd.choice(
            ["", "relu -> add", 'says "so"', "back\\slash", "two\nlines", "größer"]
        )
        return Function(self.name, tuple(params), Block(self.statements(3)), note)

    def shape(self) -> tuple[int, ...]:
        return tuple(self.rnd.randint(0, 5) for _ in range(self.rnd.randint(0, 3)))

    # statements

    def statements(self, depth: int) -> tuple[Stmt, ...]:
        buffers, variables = list(self.buffers), list(self.vars)
        made = tuple(self.stmt(depth) for _ in range(self.rnd.randint(0, 4)))
        self.buffers, self.vars = buffers, variables
        return made

    def body(self, depth: int) -> Stmt:
        return Block(self.statements(depth))

    def stmt(self, depth: int) -> Stmt:
        kinds = ["store", "let", "allocate", "invoke", "brgemm"]
        if depth:
            kinds += ["block", "for", "for", "if"]
        made: Stmt = getattr(self, f"make_{self.rnd.choice(kinds)}")(depth)
        return made

    def make_block(self, depth: int) -> Stmt:
        return self.body(depth - 1)

    def make_store(self, depth: int) -> Stmt:
        buffer, lanes = self.rnd.choice(self.buffers), self.lanes()
        indices = self.indices(buffer, lanes)
        return Store(buffer, indices, self.expr(buffer.dtype, lanes, 3), self.active(lanes))

    def make_let(self, depth: int) -> Stmt:
        value = self.expr(self.rnd.choice(ALL), self.lanes(), 3)
        var = Var(self.fresh("x"), value.dtype, value.lanes)
        self.vars.append(var)
        return Let(var, value)

    def make_allocate(self, depth: int) -> Stmt:
        buffer = Buffer(self.fresh("local"), self.rnd.choice(ALL), self.shape(), "local")
        self.buffers.append(buffer)
        return Allocate(buffer)

    def make_for(self, depth: int) -> Stmt:
        var, kind = (
            Var(self.fresh("i")),
            self.rnd.choice(["serial", "parallel", "vector", "unrolled"]),
        )
        begin, end = self.index(1), self.index(1)
        if kind == "unrolled":
            begin, end = t.as_expr(self.rnd.randint(0, 2)), t.as_expr(self.rnd.randint(0, 4))
        self.vars.append(var)
        buffers, variables = list(self.buffers), list(self.vars)
        body = self.rnd.choice([self.body, self.stmt])(depth - 1)
        self.buffers, self.vars = buffers, variables
        self.vars.remove(var)
        return For(var, begin, end, body, kind, self.rnd.choice([1, 1, 2, 16]))  # type: ignore[arg-type]

    def make_if(self, depth: int) -> Stmt:
        otherwise = self.rnd.choice([None, self.body, self.make_if if depth > 1 else None])
        then = self.body(depth - 1)
        return If(self.expr(BOOL, 1, 2), then, otherwise(depth - 1) if otherwise else None)

    def make_invoke(self, depth: int) -> Stmt:
        if not self.callees:
            return self.make_store(depth)
        callee = self.rnd.choice(self.callees)
        args: list[Slice | Expr] = []
        for param in callee.params:
            if isinstance(param, Var):
                args.append(self.expr(param.dtype, 1, 1))
                continue
            fitting = [b for b in self.buffers if b.dtype.name in (param.dtype.name, "u8")]
            if not fitting:
                return self.make_store(depth)
            args.append(self.slice(self.rnd.choice(fitting)))
        if self.rnd.random() < 0.1:
            return Prefetch(next(arg for arg in args if isinstance(arg, Slice)))
        if self.rnd.random() < 0.5:
            return ParallelInvoke(callee.name, tuple(args[:-1]), self.rnd.randint(0, 9))
        return Invoke(callee.name, tuple(args))

    def slice(self, buffer: Buffer) -> Slice:
        if self.rnd.random() < 0.5:
            return t.slice_of(buffer)
        return Slice(buffer, tuple(self.index(1) for _ in buffer.shape))

    def make_brgemm(self, depth: int) -> Stmt:
        flat = [b for b in self.buffers if b.dtype == F32 and len(b.shape) == 1]
        c, a, b = (self.slice(self.rnd.choice(flat)) for _ in range(3))
        epilogue = None
        if self.rnd.random() < 0.6:
            row, col, acc = (
                Var(self.fresh("row")),
                Var(self.fresh("col")),
                Var(self.fresh("acc"), F32),
            )
            before = list(self.vars)
            self.vars += [row, col, acc]
            lets: tuple[Let, ...] = ()
            if self.rnd.random() < 0.5:
                bound = self.expr(self.rnd.choice(ALL), 1, 2)
                lets = (Let(Var(self.fresh("x"), bound.dtype), bound),)
                self.vars.append(lets[0].var)
            epilogue = Epilogue(row, col, acc, self.expr(F32, 1, 2), lets)
            self.vars = before
        names = ("m", "n", "k", "batch", "a_batch", "a_row", "a_col", "b_batch", "b_row", "c_row")
        sizes = {name: self.rnd.randint(0, 9) for name in names}
        return t.brgemm(
            c=c,
            a=a,
            b=b,
            accumulate=self.rnd.random() < 0.5,
            n_padded=sizes["n"] + self.rnd.randint(0, 7),
            epilogue=epilogue,
            **sizes,
        )

    # expressions

    def lanes(self) -> int:
        return self.rnd.choice([1, 1, 1, 2, 8])

    def active(self, lanes: int) -> int | None:
        return self.rnd.randint(1, lanes) if self.rnd.random() < 0.3 else None

    def index(self, depth: int) -> Expr:
        return self.expr(S64, 1, depth)

    def indices(self, buffer: Buffer, lanes: int) -> tuple[Expr, ...]:
        made = [self.index(1) for _ in buffer.shape]
        if made and self.rnd.random() < 0.3:
            made[-1] = self.expr(S64, lanes, 1)
        return tuple(made)

    def expr(self, dtype: DType, lanes: int, depth: int) -> Expr:
        known = [var for var in self.vars if var.dtype == dtype and var.lanes == lanes]
        if depth == 0 or self.rnd.random() < 0.1:
            if known and self.rnd.random() < 0.7:
                return self.rnd.choice(known)
            return t.broadcast(self.const(dtype), lanes)
        if lanes > 1 and self.rnd.random() < 0.2:
            return Broadcast(self.expr(dtype, 1, depth - 1), lanes)
        kinds = ["cast", "load", "select"]
        if dtype in _COMPUTED:
            kinds += ["binary", "binary", "unary", "call"]
        if dtype == BOOL:
            kinds += ["compare", "compare"]
        if lanes > 1:
            kinds += ["shuffle"] + ["ramp"] * (dtype in _INTEGERS)
        made: Expr = getattr(self, f"make_{self.rnd.choice(kinds)}")(dtype, lanes, depth - 1)
        return made

    def const(self, dtype: DType) -> Const:
        if dtype == BOOL:
            return Const(self.rnd.random() < 0.5, dtype)
        if dtype.is_float:
            special = [0.0, -0.0, 1.0, -2.5, 1e30, 1e-7, math.inf, -math.inf, math.nan]
            return Const(self.rnd.choice(special), dtype)
        low, high = dtype.limits
        return Const(self.rnd.choice([0, 1, min(7, high), low, high]), dtype)

    def make_cast(self, dtype: DType, lanes: int, depth: int) -> Expr:
        return Cast(self.expr(self.rnd.choice(ALL), lanes, depth), dtype)

    def make_load(self, dtype: DType, lanes: int, depth: int) -> Expr:
        fitting = [b for b in self.buffers if b.dtype == dtype]
        if not fitting:
            return t.broadcast(self.const(dtype), lanes)
        buffer = self.rnd.choice(fitting)
        return Load(buffer, self.indices(buffer, lanes), lanes, self.active(lanes))

    def make_select(self, dtype: DType, lanes: int, depth: int) -> Expr:
        arms = (self.expr(dtype, lanes, depth), self.expr(dtype, lanes, depth))
        return Select(self.expr(BOOL, lanes, depth), *arms)

    def make_binary(self, dtype: DType, lanes: int, depth: int) -> Expr:
        ops = ["and", "or", "xor"]
        if dtype != BOOL:
            ops = ["add", "sub", "mul", "div", "min", "max"] + (
                [] if dtype.is_float else [*ops, "mod", "shl", "shr"]
            )
        return Binary(
            self.rnd.choice(ops), self.expr(dtype, lanes, depth), self.expr(dtype, lanes, depth)
        )

    def make_unary(self, dtype: DType, lanes: int, depth: int) -> Expr:
        ops = (
            ["not"]
            if dtype == BOOL
            else ["neg", "abs", *(["sqrt", "floor"] if dtype.is_float else ["not"])]
        )
        return Unary(self.rnd.choice(ops), self.expr(dtype, lanes, depth))

    def make_compare(self, dtype: DType, lanes: int, depth: int) -> Expr:
        of = self.rnd.choice(_COMPUTED)
        return Compare(
            self.rnd.choice(COMPARE_OPS), self.expr(of, lanes, depth), self.expr(of, lanes, depth)
        )

    def make_ramp(self, dtype: DType, lanes: int, depth: int) -> Expr:
        return Ramp(self.expr(dtype, 1, depth), lanes)

    def make_shuffle(self, dtype: DType, lanes: int, depth: int) -> Expr:
        left, right = (self.expr(dtype, lanes, depth) for _ in range(2))
        return Shuffle(left, right, tuple(self.rnd.randrange(2 * lanes) for _ in range(lanes)))

    def make_call(self, dtype: DType, lanes: int, depth: int) -> Expr:
        fitting = [
            known
            for known in INTRINSICS.values()
            if (dtype.is_float or not known.float_only)
            and not (known.retypes or known.index or (known.no_f64 and dtype == F64))
            and (not known.group or dtype in [types[2] for types in known.operands])
            and (lanes == 1 or not known.reduces)
            and (not known.reduces or (known.name in ("reduce_and", "reduce_or")) != dtype.is_float)
            and (dtype != BOOL or known.name in ("reduce_and", "reduce_or"))
            and (not known.narrows or (dtype.kind in ("int", "uint") and dtype.bits in (8, 16)))
        ]
        if not fitting:
            return self.make_unary(dtype, lanes, depth)
        known = self.rnd.choice(fitting)
        if known.group:
            pairs = [(a, b) for a, b, acc in known.operands if acc == dtype]
            kinds = self.rnd.choice(pairs)
            acc = self.expr(dtype, lanes, depth)
            a, b = (self.expr(kind, lanes * known.group, depth) for kind in kinds)
            return Call(known.name, (acc, a, b), dtype, lanes)
        if known.narrows:
            zero = t.const(self.rnd.randrange(-WIDEST_ZERO, WIDEST_ZERO), S32, lanes)
            return Call(known.name, (self.expr(F32, lanes, depth), zero), dtype, lanes)
        wide = self.lanes() if known.reduces else lanes
        return Call(
            known.name,
            tuple(self.expr(dtype, wide, depth) for _ in range(known.arity)),
            dtype,
            lanes,
        )
