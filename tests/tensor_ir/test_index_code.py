"""Index arithmetic as Python functions: the values and the errors of evaluating node by node."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from graphc.base.dtypes import S32, S64
from graphc.base.errors import InternalError
from graphc.tensor_ir.builder import S64_MAX, S64_MIN, wrap_s64
from graphc.tensor_ir.evaluate import compile_expr, compile_index
from graphc.tensor_ir.index_code import flat_index_function, index_function
from graphc.tensor_ir.nodes import Binary, Buffer, Const, Expr, Load, Var

ROW, COL, SIZE = Var("i"), Var("j\n'"), Var("n")
"""Names of models are not names of Python."""

EXACT: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: wrap_s64(a + b),
    "sub": lambda a, b: wrap_s64(a - b),
    "mul": lambda a, b: wrap_s64(a * b),
    "div": lambda a, b: wrap_s64(a // b),
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
}


def value(e: Expr, env: dict[str, int]) -> int:
    """Every operator wrapped by itself."""
    if isinstance(e, Binary):
        return EXACT[e.op](value(e.left, env), value(e.right, env))
    return env[e.name] if isinstance(e, Var) else int(e.value)


def expression(rng: random.Random, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.2:
        numbers = (0, 1, -3, 16, 1 << 40, S64_MAX)
        leaves: list[Expr] = [ROW, COL, Const(rng.choice(numbers), S64)]
        return rng.choice(leaves)
    op = rng.choice(list(EXACT))
    left = expression(rng, depth - 1)
    if op in ("div", "mod"):
        return Binary(op, left, Const(rng.choice([1, 2, 7, 1 << 62]), S64))
    return Binary(op, left, expression(rng, depth - 1))


def test_values_wrap_as_every_operator_would() -> None:
    rng = random.Random(0)
    for _ in range(300):
        e = expression(rng, rng.randrange(1, 6))
        found = index_function(e)
        assert found is not None
        for i in (0, 5, -1, S64_MIN, S64_MAX):
            env = {ROW.name: i, COL.name: rng.randrange(S64_MIN, S64_MAX)}
            assert found(env) == value(e, env), e


def test_what_has_no_text_is_evaluated_node_by_node() -> None:
    loaded = Load(Buffer("b", S64, (4,)), (ROW,))
    deep: Expr = ROW
    for _ in range(100):
        deep = Binary("add", deep, Const(1, S64))
    for e in (Binary("add", loaded, ROW), Binary("div", ROW, COL), Var("x", S32), deep):
        assert index_function(e) is None
    assert compile_expr(Binary("div", ROW, COL))({ROW.name: 7, COL.name: 0}) == 0
    assert compile_expr(deep)({ROW.name: 7}) == 107


@pytest.mark.parametrize("touched", [0, 1, 4])
@pytest.mark.parametrize("shape", [(10,), (3, 5), (2, 3, 4), (0, 3)])
def test_indices_are_inside_or_an_error(shape: tuple[int, ...], touched: int) -> None:
    names = [Var(f"i{axis}") for axis in range(len(shape))]
    flat_index = compile_index(Buffer("b", S64, shape), names, touched)
    rng, count = random.Random(1), math.prod(shape)
    for _ in range(200):
        at = [rng.randrange(-1, extent + 2) for extent in shape]
        flat = 0
        for i, extent in zip(at, shape, strict=True):
            flat = flat * extent + i
        inside = all(i >= 0 and (i < e or not touched) for i, e in zip(at, shape, strict=True))
        env = {name.name: i for name, i in zip(names, at, strict=True)}
        if inside and flat + touched <= count:
            assert flat_index(env) == flat
        else:
            with pytest.raises(InternalError, match="is out of bounds"):
                flat_index(env)


def test_sums_that_leave_64_bits_and_dynamic_sizes() -> None:
    """An index beyond 64 bits wraps, as natively, before it is compared."""
    around = ROW + COL - SIZE
    flat_index = compile_index(Buffer("b", S64, (SIZE,)), [around], 1)
    assert flat_index({ROW.name: S64_MAX - 1, COL.name: 9, SIZE.name: S64_MAX}) == 8
    env = {ROW.name: S64_MIN, COL.name: S64_MIN, SIZE.name: 5}
    with pytest.raises(InternalError, match="out of bounds"):
        flat_index(env)
    wrapped = compile_index(Buffer("b", S64, (7,)), [ROW + COL], 1)
    assert wrapped({ROW.name: S64_MIN, COL.name: S64_MIN}) == 0


def test_an_index_without_a_text_is_evaluated_otherwise() -> None:
    buffer = Buffer("b", S64, (4,))
    index = Load(buffer, (ROW,))
    assert flat_index_function((4,), [index], 1, lambda env: -1) is None
    assert flat_index_function((), [], 1, lambda env: -1) is None
    beyond = flat_index_function((4,), [ROW], 1, lambda env: -1)
    assert beyond is not None and beyond({ROW.name: 3}) == 3 and beyond({ROW.name: 4}) == -1
