from __future__ import annotations

import pytest

from graphc.base.dtypes import BF16, BOOL, F32, F64, S32, S64, U8, DType
from graphc.base.errors import InternalError
from graphc.targets.isa import Target
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import pipeline
from graphc.tensor_ir.nodes import (
    Allocate,
    Binary,
    Block,
    Broadcast,
    Buffer,
    Call,
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
from graphc.tensor_ir.verifier import verify
from support.loop_programs import PROGRAMS

a, b16 = Buffer("a", F32, (4, 8)), Buffer("b", BF16, (8,))
flat, n = Buffer("flat", F32, (64,)), Var("n")
x, v = Var("x", F32), Var("v", F32, 8)
zero, one = t.as_expr(0), t.as_expr(1)
yes = Const(True, BOOL)
empty = Block(())
BUFFERS = (a, b16, flat, n)


def const(value: float, dtype: DType) -> Expr:
    return t.const(value, dtype)


def let(value: Expr) -> Stmt:
    return Let(Var("bound", value.dtype, value.lanes), value)


def brgemm(**changed: object) -> Stmt:
    element = Slice(flat, (zero,))
    names = ("m", "n", "k", "batch", "a_batch", "a_row", "a_col", "b_batch", "b_row", "c_row")
    numbers = dict(zip(names, (2, 4, 2, 1, 0, 2, 1, 0, 4, 4), strict=True))
    fields = {
        "c": element,
        "a": element,
        "b": element,
        **numbers,
        "accumulate": False,
        "n_padded": 4,
        **changed,
    }
    return t.brgemm(**fields)  # type: ignore[arg-type]


def epilogue(value: Expr) -> Stmt:
    return brgemm(epilogue=Epilogue(Var("r"), Var("q"), Var("acc", F32), value))


f32_1 = const(1, F32)
ILLEGAL: dict[str, Stmt] = {
    "'y' is not bound": let(Var("y")),
    "'n' is used as f32 but bound as another type": let(Var("n", F32)),
    "operands must agree, got s64 and f32": let(Binary("add", n, f32_1)),
    "operands must agree, got f32 and f32 x 8": let(Binary("add", f32_1, Broadcast(f32_1, 8))),
    "bf16 is computed with as f32": let(Binary("add", Load(b16, (n,)), Load(b16, (n,)))),
    "'power' is not a binary operator": let(Binary("power", n, n)),
    "and does not take f32": let(Binary("and", f32_1, f32_1)),
    "add does not take bool": let(Binary("add", yes, yes)),
    "'minus' is not a unary operator": let(Unary("minus", n)),
    "sqrt does not take s64": let(Unary("sqrt", n)),
    "neg does not take bool": let(Unary("neg", yes)),
    "not does not take f32": let(Unary("not", f32_1)),
    "'is' is not a comparison": let(Compare("is", n, n)),
    "the condition of a select must be bool in 1 lanes, got s64": let(Select(n, n, n)),
    "arms must agree, got s64 and f32": let(Select(yes, n, f32_1)),
    "a broadcast takes a scalar to at least 1 lane, got f32 x 4 to 8": let(
        Broadcast(t.const(1, F32, 4), 8)
    ),
    "a ramp starts at an integer scalar, got f32": let(Ramp(f32_1, 4)),
    "a shuffle takes and gives vectors, got f32 to 2": let(Shuffle(f32_1, f32_1, (0, 1))),
    "a shuffle chooses among 8 lanes, got [0, 8]": let(
        Shuffle(t.const(1, F32, 4), t.const(2, F32, 4), (0, 8))
    ),
    "'gamma' is not an intrinsic of 1 arguments": let(Call("gamma", (f32_1,), F32)),
    "'exp' is not an intrinsic of 2 arguments": let(Call("exp", (f32_1, f32_1), F32)),
    "exp does not take s64": let(Call("exp", (n,), S64)),
    "arguments of exp must be f64": let(Call("exp", (f32_1,), F64)),
    "lanes of exp do not agree": let(Call("exp", (f32_1,), F32, 4)),
    "lanes of reduce_add do not agree": let(Call("reduce_add", (t.const(1, F32, 4),), F32, 4)),
    "constant 256 does not fit u8": let(Const(256, U8)),
    "'bound' is s32, its value s64": Let(Var("bound", S32), n),
    "name 'n' is bound twice": Let(n, zero),
    "name '%' must be an identifier": Let(Var("%"), zero),
    "buffer 'z' is not declared": let(Load(Buffer("z", F32, (8,)), (n,))),
    "buffer 'flat' is declared otherwise": let(Load(Buffer("flat", F32, (8,)), (n,))),
    "buffer 'a' takes 2 indices, got 1": let(Load(a, (n,))),
    "an index must be a scalar s64, got f32": let(Load(a, (f32_1, n))),
    "the last index is f32": let(Load(flat, (f32_1,))),
    "the last index is s64 x 4": let(Load(flat, (Ramp(n, 4),), 8)),
    "active must be 1 to 8, got 9": let(Load(flat, (n,), 8, 9)),
    "active must be 1 to 1, got 0": Store(flat, (n,), f32_1, 0),
    "a s64 is stored to a buffer of f32": Store(flat, (n,), n),
    "buffer 'p' must have storage 'local'": Allocate(Buffer("p", F32, (1,))),
    "buffer 'p' has a negative size": Allocate(Buffer("p", F32, (-1,), "local")),
    "loop variable 'i' must be a scalar s64": For(Var("i", S32), zero, one, empty),
    "loop 'i' must have a step of at least 1, got 0": For(Var("i"), zero, one, empty, "serial", 0),
    "bounds of 'i' must be constants": For(Var("i"), zero, n, empty, "unrolled"),
    "loop 'i' must not be sideways": For(Var("i"), zero, one, empty, "sideways"),  # type: ignore[arg-type]
    "a condition must be a scalar bool": If(n, empty),
    "a condition must be a scalar bool, in `while n:`": While(n, empty),
    "'g' is not a function of the module": Invoke("g", ()),
    "'callee' takes 2 arguments, got 1": Invoke("callee", (n,)),
    "the argument for 'p' of 'callee' has another type": Invoke("callee", (Slice(b16, (n,)), n)),
    "the argument for 'k' of 'callee'": Invoke("callee", (Slice(flat, (n,)), f32_1)),
    "'callee' takes 2 arguments, got 3": ParallelInvoke("callee", (Slice(flat, (n,)), n), 3),
    "a parallel call must not have a negative count": ParallelInvoke(
        "callee", (Slice(flat, (n,)),), -1
    ),
    "brgemm takes 1-D buffers, 'a' is not": brgemm(c=Slice(a, (zero, zero))),
    "brgemm sizes must not be negative, nor n_padded below n": brgemm(n_padded=3),
    "an epilogue must give an element of C": epilogue(n),
    "'accu' is not bound": epilogue(Var("accu", F32)),
}


def module_of(*statements: Stmt) -> Module:
    target = Function("callee", (Buffer("p", F32, (4,)), Var("k")), empty)
    return Module((target, Function("f", BUFFERS, Block(statements))))


@pytest.mark.parametrize("message", ILLEGAL)
def test_illegal_forms(message: str) -> None:
    with pytest.raises(InternalError) as caught:
        verify(module_of(ILLEGAL[message]))
    assert message in str(caught.value)
    assert str(caught.value).startswith("function 'f': ")
    assert caught.value.__notes__[0].startswith("def f(a: f32[4, 8]")


def test_names_end_with_their_block() -> None:
    inner = Block((Let(x, f32_1), Allocate(Buffer("l", F32, (1,), "local"))))
    verify(module_of(inner, inner, For(Var("i"), zero, one, inner), If(yes, inner, inner)))
    for use in (let(x), let(Load(Buffer("l", F32, (1,), "local"), (zero,)))):
        with pytest.raises(InternalError):
            verify(module_of(inner, use))


@pytest.mark.parametrize(
    ("functions", "entry", "message"),
    [
        (("f", "f"), "", "function 'f': a name must be a unique identifier"),
        (("f.1",), "", "function 'f.1': a name must be a unique identifier"),
        (
            ("store",),
            "",
            "function 'store': a name must be a unique identifier, and no word of the language",
        ),
        (("f",), "main", "module: entry 'main' is not a function of it"),
    ],
)
def test_modules(functions: tuple[str, ...], entry: str, message: str) -> None:
    with pytest.raises(InternalError) as caught:
        verify(Module(tuple(Function(name, (), empty) for name in functions), entry))
    assert message in str(caught.value)


@pytest.mark.parametrize("storage", ["local", "param"])
def test_parameters(storage: str) -> None:
    buffer = Buffer("p", F32, (1,), storage)  # type: ignore[arg-type]
    module = Module((Function("f", (buffer, v), empty),))
    with pytest.raises(
        InternalError, match="must have storage 'param'" if storage == "local" else "must be scalar"
    ):
        verify(module)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (For(Var("i"), zero, one, empty, "vector"), "loop 'i' must not be vector at this stage"),
        (
            For(Var("i"), zero, one, empty, "parallel"),
            "loop 'i' must not be parallel at this stage",
        ),
        (brgemm(), "brgemm must be expanded at this stage"),
        (Allocate(Buffer("p", F32, (1, 1), "local")), "buffer 'p' must be 1-D at this stage"),
    ],
)
def test_the_final_stage_is_stricter(statement: Stmt, message: str) -> None:
    module = Module((Function("f", (flat,), Block((statement,))),))
    verify(module)
    with pytest.raises(InternalError) as caught:
        verify(module, "final")
    assert message in str(caught.value)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_pipeline_ends_in_the_final_stage(program) -> None:  # type: ignore[no-untyped-def]
    before = program(19)
    assert verify(before) is before
    verify(pipeline.run(before, Target("avx512")), "final")
