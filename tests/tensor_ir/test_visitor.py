from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphc.base.dtypes import F32, S64
from graphc.tensor_ir.names import Names
from graphc.tensor_ir.nodes import (
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
    Store,
    Var,
)
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.printer import print_module, print_stmt
from graphc.tensor_ir.substitution import RenamedCopy, renamed_copy, substitute, substitute_expr
from graphc.tensor_ir.verifier import verify
from graphc.tensor_ir.visitor import (
    Rewriter,
    bound_names,
    buffers_in,
    map_functions,
    vars_in,
    walk,
    walk_statements,
)
from support.random_loops import random_module

EXAMPLE = """def f(a: f32[8], c: f32[8], n: s64):
    for i in range(0, n):
        t = a[i]
        with block:
            x: f32[2]
            x[0] = t
            c[i] = x[0] + f32(n)
"""


def example() -> Function:
    return parse_module(EXAMPLE).functions[0]


class _Rebuild(Rewriter):
    """Gives every leaf back as a new equal object, so that everything above is rebuilt."""

    def expr(self, e: Expr) -> Expr:
        return Const(e.value, e.dtype) if isinstance(e, Const) else super().expr(e)

    def var(self, e: Var) -> Expr:
        return Var(e.name, e.dtype, e.lanes)

    def buffer(self, buffer: Buffer) -> Buffer:
        return Buffer(buffer.name, buffer.dtype, buffer.shape, buffer.storage)


@given(st.integers(0, 1 << 32))
def test_a_rewriter_that_changes_nothing_gives_the_same_object(seed: int) -> None:
    module = random_module(seed)
    assert map_functions(module, Rewriter().function) is module


@given(st.integers(0, 1 << 32))
def test_a_rebuilt_tree_is_equal(seed: int) -> None:
    module = random_module(seed)
    rebuilt = map_functions(module, _Rebuild().function)
    assert print_module(rebuilt) == print_module(module)


def test_walk_goes_outside_in_and_in_order() -> None:
    kinds = [type(n).__name__ for n in walk(example().body)]
    assert kinds[:6] == ["Block", "For", "Const", "Var", "Block", "Let"]
    assert [n.indices for n in walk(example()) if isinstance(n, Load)] == [
        (Var("i"),),
        (Const(0, S64),),
    ]


def test_walk_takes_long_blocks() -> None:
    lets = tuple(Let(Var(f"x{i}"), Const(i, S64)) for i in range(100_000))
    assert sum(isinstance(n, Let) for n in walk(Block(lets))) == 100_000
    assert Rewriter().stmt(Block(lets)) is not None


@given(st.integers(0, 1 << 32))
def test_statements_are_walked_in_the_same_order(seed: int) -> None:
    module = random_module(seed)
    kinds = (
        Function,
        Module,
        Epilogue,
        Store,
        Let,
        Allocate,
        Block,
        For,
        If,
        Brgemm,
        Prefetch,
        Invoke,
        ParallelInvoke,
    )
    everything = [n for n in walk(module) if isinstance(n, kinds)]
    assert all(a is b for a, b in zip(walk_statements(module), everything, strict=True))


def test_names_found() -> None:
    function = example()
    assert list(buffers_in(function)) == ["a", "x", "c"]
    assert list(vars_in(function)) == ["n", "i", "t"]
    assert sorted(bound_names(function)) == ["a", "c", "i", "n", "t", "x"]


def test_the_epilogue_of_a_brgemm_is_visited() -> None:
    module = random_module(3)
    seed = 3
    while not any(isinstance(n, Brgemm) and n.epilogue for n in walk(module)):
        seed += 1
        module = random_module(seed)
    brgemm = next(n for n in walk(module) if isinstance(n, Brgemm) and n.epilogue)
    end = brgemm.epilogue
    assert end is not None and end in list(walk(brgemm)) and end.value in list(walk(brgemm))
    assert {end.row.name, end.col.name, end.acc.name} <= set(bound_names(brgemm))
    assert all(part.address in list(walk(brgemm)) for part in (brgemm.c, brgemm.a, brgemm.b))


def test_substitution_replaces_uses() -> None:
    body = example().body
    new = substitute(body, {"n": Const(3, S64)}, {"a": Buffer("b", F32, (8,))})
    expected = EXAMPLE.splitlines()[1:]
    text = "\n".join(line.strip() for line in expected)
    text = text.replace("0, n", "0, 3").replace("f32(n)", "cast(f32, 3)").replace("a[", "b[")
    assert "\n".join(line.strip() for line in print_stmt(new).splitlines()[1:]) == text
    assert substitute(body, {"other": Const(3, S64)}) is body
    assert substitute_expr(Var("n"), {"n": Var("m")}) == Var("m")


def test_a_copy_binds_fresh_names() -> None:
    function = example()
    copy = renamed_copy(function.body, Names(bound_names(function)))
    assert set(bound_names(copy)).isdisjoint(bound_names(function.body))
    both = Function(function.name, function.params, Block((*function.body.body, copy)))
    verify(Module((both,)))
    assert sorted(bound_names(copy)) == ["i_1", "t_1", "x_1"]


def test_a_copy_keeps_names_of_different_scopes_apart() -> None:
    text = (
        "def f(n: s64):\n    with block:\n        t = n + 1\n        u = t * 2\n"
        "    with block:\n        t = f32(n)\n        u = t * 2.0\n"
    )
    function = parse_module(text).functions[0]
    copy = RenamedCopy(Names(["n", "t", "u"]), {}).stmt(function.body)
    assert isinstance(copy, Block)
    verify(Module((Function("f", function.params, copy),)))
    assert sorted(bound_names(copy)) == ["t_1", "t_2", "u_1", "u_2"]
