"""Decisions of passes with their reasons, as the decision log tells them."""

from __future__ import annotations

import logging
import random

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.rewriting.decisions import KINDS, Decision, DecisionLog, log_of, record
from support.graphs import graph_of
from support.lowered import context


def optimized(graph: Graph, **options: tuple[str, ...]) -> DecisionLog:
    pipeline.run(graph, context(**options))
    return log_of(graph)


def repeated_matmul() -> Graph:
    """Y = matmul(X) + matmul(X), a dead op, and an op of constants."""
    graph = Graph("twice")
    x = graph.make_input(LogicalTensor(F32, (4, 8)), "x")
    w = graph.make_constant(np.ones((8, 8), np.float32), "w")
    first = graph.make("matmul_core", (x, w), {}, "first").outputs[0]
    second = graph.make("matmul_core", (x, w), {}, "second").outputs[0]
    graph.make("exp", (x,), {}, "dead")
    known = graph.make("neg", (w,), {}, "known").outputs[0]
    total = graph.make("add", (first, second), {}, "total").outputs[0]
    graph.make_output(graph.make("matmul_core", (total, known), {}, "third").outputs[0], "y")
    return graph


def test_folded_merged_and_removed_ops_are_named_with_their_pass() -> None:
    log = optimized(repeated_matmul())
    found = {(d.pass_name, d.kind, d.subjects, d.results) for d in log.decisions}
    assert ("remove_dead", "removed", ("dead",), ()) in found
    assert ("fold_constants", "folded", ("known",), ("known.folded",)) in found
    assert ("eliminate_common", "merged", ("second",), ("first",)) in found
    assert {d.kind for d in log.decisions} <= set(KINDS)


def test_a_stage_knows_what_it_removed_and_added() -> None:
    log = optimized(repeated_matmul())
    assert [s.number for s in log.stages] == list(range(1, len(pipeline.PIPELINE) + 1))
    dead = log.stages[0]
    assert (dead.name, dead.enabled, dead.changed) == ("remove_dead", True, True)
    assert (dead.removed, dead.added) == (("exp dead",), ())
    merged = next(s for s in log.stages if s.name == "eliminate_common")
    assert merged.removed == ("matmul_core second",)
    assert len(merged.before) - len(merged.after) == 1
    assert all(a.after == b.before for a, b in zip(log.stages, log.stages[1:], strict=False))


def test_a_switched_off_pass_is_a_stage_that_did_nothing() -> None:
    log = optimized(repeated_matmul(), disabled=("cse",))
    merged = next(s for s in log.stages if s.name == "eliminate_common")
    assert (merged.enabled, merged.changed, merged.removed) == (False, False, ())


def test_the_story_of_an_op_follows_what_became_of_it() -> None:
    log = optimized(repeated_matmul())
    assert [d.kind for d in log.story("second")][:1] == ["merged"]
    assert "third.fused" in log.became("third") or "third" in log.became("third")
    assert log.story("nobody") == []


def test_recomposed_ops_say_what_they_were() -> None:
    graph = graph_of(
        """
        %x = Node[type=input] () -> f32[4,8]
        %n = Node[type=neg] (inputs = (x=%x)) -> f32[4,8]
        %e = Node[type=exp] (inputs = (x=%n)) -> f32[4,8]
        %one = Node[type=constant] (attrs = {value: [1.0]}) -> f32[1]
        %a = Node[type=add] (inputs = (a=%e, b=%one)) -> f32[4,8]
        %y = Node[type=div] (inputs = (a=%one, b=%a)) -> f32[4,8]
        return (y=%y)
        """
    )
    log = optimized(graph)
    (found,) = [d for d in log.decisions if d.pass_name == "recompose_activation"]
    assert found.kind == "rewritten"
    assert set(found.subjects) >= {"n", "e", "a", "y"}
    assert "sigmoid" in found.text


def test_fusion_says_why_and_why_not() -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (4, 8)), "x")
    w = graph.make_input(LogicalTensor(F32, (8, 8)), "w")
    first = graph.make("matmul_core", (x, w), {}, "first").outputs[0]
    relu = graph.make("relu", (first,), {}, "relu").outputs[0]
    graph.make_output(graph.make("matmul_core", (relu, w), {}, "second").outputs[0], "y")
    decisions = optimized(graph).decisions
    (fused,) = [d for d in decisions if d.kind == "fused"]
    assert (fused.subjects, fused.results) == (("first", "relu"), ("relu.fused",))
    assert "anchor first" in fused.text
    assert any(g.op_name == "fused" and g.name in fused.results for g in graph.ops)
    (apart,) = [d for d in decisions if d.kind == "not fused" and d.subjects == ("relu", "second")]
    assert "read many times" in apart.text


def test_every_decision_goes_to_the_logger_of_its_pass(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="graphc.fuse"):
        optimized(repeated_matmul())
    assert {r.name for r in caplog.records} == {"graphc.fuse"}
    assert any("fused" in r.getMessage() for r in caplog.records)


def test_a_pass_that_runs_alone_may_record_too() -> None:
    graph = Graph("g")
    record(graph, "removed", ["x"])
    assert str(log_of(graph).decisions[0]) == "removed x"


def test_following_mentions_is_the_same_as_reading_the_whole_log() -> None:
    for seed in range(200):
        rng, log = random.Random(seed), DecisionLog()
        for _ in range(rng.randrange(12)):
            kind = rng.choice(("fused", "not fused", "merged"))
            subjects, results = (tuple(rng.sample("abcdef", rng.randrange(n))) for n in (4, 3))
            log.decisions.append(Decision(1, "pass", kind, subjects, results, ""))
            log.story("a")  # the index grows with the log
        for name in "abcdef":
            story, known, became = [], {name}, {name}
            for d in log.decisions:
                if known & {*d.subjects, *d.results}:
                    story.append(d)
                known.update(d.results if known & set(d.subjects) else ())
                if d.kind != "not fused":
                    became.update(d.results if became & set(d.subjects) else ())
            assert (log.story(name), log.became(name)) == (story, became)
