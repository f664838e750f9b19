"""Formulas of elementwise ops and reductions."""

from __future__ import annotations

import pytest

from graphc.base.dtypes import BF16, F32
from graphc.base.errors import InternalError
from graphc.graph_ir.inspect.formula import Term, elementwise_formula, reduction_formula
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor


def test_elementwise_in_the_accumulator_type() -> None:
    graph = Graph()
    x = graph.make_input(LogicalTensor(BF16, (2,)))
    formula = elementwise_formula(graph.make("relu", [x]))
    operand = Term("operand", "0", F32)
    assert formula == Term("binary", "max", F32, (operand, Term("const", "", F32, value=0)))
    square = elementwise_formula(graph.make("square", [x]))
    assert square.parts[0] is square.parts[1]


def test_reduction() -> None:
    graph = Graph()
    x = graph.make_input(LogicalTensor(F32, (2, 3)))
    formula = reduction_formula(graph.make("reduce_l2", [x], {"axes": (1,)}), 3)
    assert formula.combine == "add"
    assert (formula.element.kind, formula.element.name) == ("binary", "mul")
    assert (formula.finish.kind, formula.finish.name) == ("unary", "sqrt")


def test_other_ops_have_none() -> None:
    graph = Graph()
    x = graph.make_input(LogicalTensor(F32, (2, 3)))
    op = graph.make("transpose", [x], {"perm": (1, 0)})
    with pytest.raises(InternalError, match="op 'transpose' is not elementwise"):
        elementwise_formula(op)
    with pytest.raises(InternalError, match="op 'transpose' is not a reduction"):
        reduction_formula(op, 1)
