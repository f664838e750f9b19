"""The first addend of an epilogue, and when accumulators may start with it."""

from __future__ import annotations

import pytest

from graphc.base.dtypes import S32
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.first_addend import first_addend
from graphc.tensor_ir.nodes import Buffer, Expr, Let, Load, Var

ACC, ROW, COL = Var("acc", S32), Var("row"), Var("col")
BIAS = Buffer("bias", S32, (64,))


def bias(*index: Expr) -> Load:
    return Load(BIAS, index)


def test_the_bias_of_a_column() -> None:
    at = Let(Var("at"), COL + 3)
    loaded = Let(Var("loaded", S32), bias(at.var))
    other = Let(Var("other"), ROW * 5)
    total = Let(Var("total", S32), ACC + loaded.var)
    found = first_addend((at, other, loaded, total), t.maximum(total.var, 0), ACC, ("row",))
    assert found is not None
    assert (found.value, found.lets) == (loaded.var, (at, loaded))
    assert found.rest == (at, other, loaded, Let(total.var, ACC))


@pytest.mark.parametrize(
    ("lets", "value"),
    [
        ((), ACC),
        ((), ACC + bias(COL)),
        ((Let(Var("y", S32), ACC * bias(COL)),), Var("y", S32)),
        ((Let(Var("y", S32), ACC + bias(ROW)),), Var("y", S32)),
        ((Let(Var("y", S32), ACC + ACC),), Var("y", S32)),
        ((Let(Var("y", S32), ACC + bias(COL)),), Var("y", S32) + ACC),
        (
            (Let(Var("at"), ROW + COL), Let(Var("y", S32), ACC + bias(Var("at")))),
            Var("y", S32),
        ),
    ],
    ids=["none", "unnamed", "matmul", "row", "twice", "again", "row before"],
)
def test_where_there_is_none(lets: tuple[Let, ...], value: Expr) -> None:
    assert first_addend(lets, value, ACC, ("row",)) is None
