"""dequantize_constants: weights that no integer matmul takes are floats when the model runs."""

from __future__ import annotations

from graphc.graph_ir.passes.dequantize_constants import dequantize_constants
from graphc.graph_ir.passes.fold_constants import fold_constants
from support.graphs import check_pass, graph_of, run_pass

BEFORE = """
    %x = Node[type=input] () -> f32[2]
    %q = Node[type=constant] (attrs = {value: [3 5]}) -> s8[2]
    %s = Node[type=constant] (attrs = {value: [0.5]}) -> f32[]
    %w = Node[type=dequantize] (inputs = (x=%q, scale=%s)) -> f32[2]
    %y = Node[type=add] (inputs = (a=%x, b=%w)) -> f32[2]
    return (output=%y)
    """


def test_constants_are_dequantized() -> None:
    check_pass(
        dequantize_constants,
        BEFORE,
        """
        %x = Node[type=input] () -> f32[2]
        %w.folded = Node[type=constant] (attrs = {value: [1.5 2.5]}) -> f32[2]
        %y = Node[type=add] (inputs = (a=%x, b=%w.folded)) -> f32[2]
        return (output=%y)
        """.replace("\n        ", "\n"),
    )


def test_not_before_matmuls_have_been_looked_at() -> None:
    assert not run_pass(fold_constants, graph_of(BEFORE))


def test_what_is_computed_stays() -> None:
    graph = graph_of(BEFORE.replace("[type=constant] (attrs = {value: [3 5]})", "[type=input] ()"))
    assert not run_pass(dequantize_constants, graph)
