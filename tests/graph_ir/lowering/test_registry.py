"""get_func: how an op becomes loops is found by its class, those of one's own too."""

from __future__ import annotations

import pytest

from graphc.base.errors import InternalError, UserError
from graphc.graph_ir.ir import registry
from graphc.graph_ir.ir.graph import Array, Op
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.operands import Operand
from graphc.graph_ir.lowering.registry import LOWERINGS, get_func
from graphc.graph_ir.schedule.context import LowerContext
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Buffer, Module
from support.check_op import make_op, random_array
from support.lowered import build, check_interpreted, context


class Reversal(Op):
    """x from its end, by a loop that nothing in the package knows."""

    kind = "loop"
    x = Operand()

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        return list(inputs)

    def reference(self, inputs: list[Array]) -> list[Array]:
        return [inputs[0][::-1].copy()]


@pytest.fixture(autouse=True)
def own_op(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._CLASSES, "test_reversal", Reversal)
    monkeypatch.setattr(LOWERINGS, "_entries", dict(LOWERINGS._entries))


def test_an_op_without_a_lowering_is_named() -> None:
    op = make_op("test_reversal", [random_array("f32", (5,))])
    with pytest.raises(UserError) as caught:
        get_func(op, context())
    assert str(caught.value) == (
        "test_reversal 'x': a kernel must accept it, got f32[5]; add one with graphc.kernel, or give graphc.ops.define "
        "a compose="
    )


def test_an_op_of_the_package_without_a_lowering_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LOWERINGS, "_entries", {})
    with pytest.raises(InternalError, match="op 'relu' cannot be lowered"):
        get_func(make_op("relu", [random_array("f32", (5,))]), context())


def test_a_fusible_op_is_lowered_by_its_computation() -> None:
    (function,) = get_func(make_op("relu", [random_array("f32", (4,))]), context()).functions
    assert "relu" in function.name


def test_an_op_of_ones_own_runs_inside_a_graph() -> None:
    @LOWERINGS.register(Reversal)
    def reversal(op: Reversal, ctx: LowerContext) -> Module:
        details = op.inputs[0].details
        (size,) = details.plain_dims
        x, y = (Buffer(name, details.dtype, (size,)) for name in "xy")
        b = t.LoopBuilder()
        with b.loop("i", 0, size) as i:
            b.store(y, (i,), x[size - 1 - i])
        return Module((b.function("own_reversal", (x, y), op.name),))

    graph = build({"x": (6,)}, lambda make, x: make("test_reversal", make("relu", x["x"])))
    lowered = check_interpreted(graph, context())
    assert "own_reversal" in [call.kernel for call in lowered.calls]
