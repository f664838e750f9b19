"""Patterns of user code in the pipeline; what they may say is tested in tests/extension/test_patterns.py."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from graphc.graph_ir.passes.recompose_user_patterns import recompose_user_patterns
from graphc.graph_ir.rewriting.pattern import Capture, make_instead, node, recipe
from graphc.graph_ir.rewriting.rewrite import Rule
from support.graphs import check_pass, graph_of, run_pass

BEFORE = """
    %x = Node[type=input] () -> f32[4]
    %a = Node[type=neg] (inputs = (x=%x)) -> f32[4]
    %b = Node[type=neg] (inputs = (x=%a)) -> f32[4]
    return (output=%b)
    """


class TwoNegations:
    """neg(neg(x)) is a copy of x."""

    name = "two_negations"

    @property
    def rules(self) -> Mapping[str, Rule]:
        x = Capture("x")
        return {"neg": recipe(node("neg", node("neg", x)), make_instead("copy"))}


def test_without_patterns_nothing_changes() -> None:
    assert not run_pass(recompose_user_patterns, graph_of(BEFORE))


def test_a_pattern_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"two_negations": TwoNegations()}
    monkeypatch.setattr("graphc.graph_ir.passes.recompose_user_patterns.PATTERNS", table)
    after = """
        %x = Node[type=input] () -> f32[4]
        %b.copy = Node[type=copy] (inputs = (x=%x)) -> f32[4]
        return (output=%b.copy)
        """
    check_pass(recompose_user_patterns, BEFORE, after)
