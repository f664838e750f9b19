"""The epilogue: the elementwise graph that finished accumulators pass through before they are stored."""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import DType
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Let
from ..ir.computation import Index

EpilogueValue = Callable[[Index, Expr], tuple[list[Let], Expr]]
"""(index of the free axes, accumulator) -> (bindings, value to store)."""


def storing(epilogue: EpilogueValue | None, sums: DType, result: DType) -> EpilogueValue | None:
    """The epilogue, or where there is none a cast to the result's type; None for sums that are stored as they are."""
    if epilogue is not None or sums == result:
        return epilogue
    return lambda index, acc: ([], t.cast(acc, result))


def store_result(
    b: t.LoopBuilder,
    result: Buffer,
    at: Expr,
    index: Index,
    acc: Expr,
    epilogue: EpilogueValue | None,
) -> None:
    """Store the epilogue of an accumulator as the element of `result` at offset `at`; `index` is its plain index."""
    with b.block():
        lets, value = epilogue(index, acc) if epilogue else ([], acc)
        b.emit(*lets)
        b.store(result, (at,), value)
