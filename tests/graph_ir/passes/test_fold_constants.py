from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from graphc.base.errors import InternalError
from graphc.graph_ir.ir.graph import Array, Op
from graphc.graph_ir.passes.fold_constants import GROWTH_BYTES, fold_constants
from support.graphs import CONTEXT, check_pass, graph_of, run_pass


def test_chains_of_constants_become_one() -> None:
    check_pass(
        fold_constants,
        """
        %x = Node[type=input] () -> f32[2]
        %a = Node[type=constant] (attrs = {value: [1.0 2.0]}) -> f32[2]
        %b = Node[type=constant] (attrs = {value: [3.0]}) -> f32[1]
        %c = Node[type=add] (inputs = (a=%a, b=%b)) -> f32[2]
        %d = Node[type=mul] (inputs = (a=%c, b=%a)) -> f32[2]
        %e = Node[type=mul] (inputs = (a=%x, b=%d)) -> f32[2]
        return (y=%e, z=%c)
        """,
        """
        %x = Node[type=input] () -> f32[2]
        %a = Node[type=constant] (attrs = {value: [1.0 2.0]}) -> f32[2]
        %b = Node[type=constant] (attrs = {value: [3.0]}) -> f32[1]
        %d.folded = Node[type=constant] (attrs = {value: [4.0 10.0]}) -> f32[2]
        %e = Node[type=mul] (inputs = (a=%x, b=%d.folded)) -> f32[2]
        %c.folded = Node[type=constant] (attrs = {value: [4.0 5.0]}) -> f32[2]
        return (y=%e, z=%c.folded)
        """,
    )


def test_reorder_of_a_constant_is_a_packed_constant() -> None:
    graph = graph_of(
        """
        %w = Node[type=constant] (attrs = {value: [1 2 3 4 5 6]}) -> s32[2,3]
        %p = Node[type=reorder] (inputs = (x=%w), attrs = {format: MK2k}) -> s32[2,3]{MK2k}
        return (y=%p)
        """
    )
    assert run_pass(fold_constants, graph)
    constant = graph.outputs[0].inputs[0]
    assert constant.producer_owner.op_name == "constant"
    assert str(constant.details) == "s32[2,3]{MK2k}"


def growing(size: int) -> str:
    return f"""
        %c = Node[type=constant] (attrs = {{value: [1]}}) -> u8[1]
        %b = Node[type=broadcast] (inputs = (x=%c), attrs = {{shape: {{{size}}}}}) -> u8[{size}]
        return (y=%b)
        """


def test_growth_is_capped() -> None:
    assert run_pass(fold_constants, graph_of(growing(GROWTH_BYTES)))
    assert not run_pass(fold_constants, graph_of(growing(GROWTH_BYTES + 1)))


def test_evaluate_is_a_parameter() -> None:
    seen = []

    def evaluate(op: Op, arrays: Sequence[Array]) -> list[Array]:
        seen.append(op.name)
        return op.reference(list(arrays))

    graph = graph_of(growing(4))
    assert fold_constants(graph, CONTEXT, evaluate)
    assert seen == ["b"]


def test_a_wrong_reference_is_an_internal_error() -> None:
    def evaluate(op: Op, arrays: Sequence[Array]) -> list[Array]:
        return [np.zeros(4)]

    with pytest.raises(
        InternalError, match=r"broadcast 'b': the reference must give u8\[4\], got float64\[4\]"
    ):
        fold_constants(graph_of(growing(4)), CONTEXT, evaluate)


def test_invalid_arithmetic_folds_without_warnings() -> None:
    graph = graph_of(
        """
        %z = Node[type=constant] (attrs = {value: [0.0 1.0]}) -> f32[2]
        %d = Node[type=div] (inputs = (a=%z, b=%z)) -> f32[2]
        %l = Node[type=log] (inputs = (x=%z)) -> f32[2]
        return (y=%d, v=%l)
        """
    )
    assert run_pass(fold_constants, graph)
    assert np.isnan(graph.outputs[0].inputs[0].producer_owner.attrs["value"][0])


def test_a_broadcast_that_its_readers_repeat_themselves_stays_though_its_value_is_used() -> None:
    check_pass(
        fold_constants,
        """
        %x = Node[type=input] () -> f32[2,2]
        %c = Node[type=constant] (attrs = {value: [3.0]}) -> f32[]
        %b = Node[type=broadcast] (inputs = (x=%c), attrs = {shape: {2, 2}}) -> f32[2,2]
        %n = Node[type=neg] (inputs = (x=%b)) -> f32[2,2]
        %y = Node[type=mul] (inputs = (a=%x, b=%b)) -> f32[2,2]
        return (y=%y, z=%n)
        """,
        """
        %x = Node[type=input] () -> f32[2,2]
        %c = Node[type=constant] (attrs = {value: [3.0]}) -> f32[]
        %b = Node[type=broadcast] (inputs = (x=%c), attrs = {shape: {2, 2}}) -> f32[2,2]
        %y = Node[type=mul] (inputs = (a=%x, b=%b)) -> f32[2,2]
        %n.folded = Node[type=constant] (attrs = {value: [-3.0 -3.0 -3.0 -3.0]}) -> f32[2,2]
        return (y=%y, z=%n.folded)
        """,
    )
