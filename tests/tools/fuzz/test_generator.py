"""Random graphs: every op can come up, the same seed is the same graph, and values are those of the references."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.graph_ir.ir.registry import names
from graphc.graph_ir.ir.verifier import verify
from graphc.tools.fuzz.generator import random_graph
from graphc.tools.fuzz.plan import EVERYTHING, Plan
from graphc.tools.fuzz.recipes import NOT_MADE, RECIPES
from graphc.tools.fuzz.scope import Scope


def test_every_op_has_a_recipe_or_a_reason() -> None:
    ours = {name for name in names() if not name.startswith("test_")}
    assert ours - set(RECIPES) == set(NOT_MADE)
    assert all(reason for reason in NOT_MADE.values())


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_makes_what_it_is_called(name: str) -> None:
    """Some seed out of a few does; what a recipe refuses, it refuses with a sentence."""
    made: set[str] = set()
    for seed in range(20):
        scope = Scope(EVERYTHING, f"{name}/{seed}")
        with suppress(UserError):
            RECIPES[name](scope)
            made |= {op.op_name for op in scope.graph.ops if op.kind != "source"}
    assert name in made or (name not in names() and len(made) > 1)


def test_the_same_seed_is_the_same_graph_and_inputs() -> None:
    for seed in range(30):
        (one, arrays), (other, again) = random_graph(f"s/{seed}"), random_graph(f"s/{seed}")
        assert one.hash_contents() == other.hash_contents()
        assert [a.tobytes() for a in arrays] == [a.tobytes() for a in again]
    assert random_graph("s/0")[0].hash_contents() != random_graph("s/1")[0].hash_contents()


def test_the_seed_means_the_same_next_year() -> None:
    """The case of a seed must not depend on the order of sets, on addresses or on the process."""
    graph, arrays = random_graph("fixed", Plan(ops=frozenset(("add", "transpose", "matmul_core"))))
    known = [op.op_name for op in graph.ops if op.kind not in ("source", "sink")]
    assert set(known) <= {"add", "transpose", "matmul_core"} and len(arrays) == len(graph.inputs)


def test_graphs_are_legal_and_all_of_them_matters() -> None:
    for seed in range(150):
        graph, arrays = random_graph(f"legal/{seed}")
        verify(graph)
        assert graph.outputs and len(arrays) == len(graph.inputs)
        assert all(y.uses for op in graph.ops for y in op.outputs[:1] if op.kind == "source")
        graph.attrs.pop("checks", None)  # which do not always hold
        with np.errstate(all="ignore"):
            graph.evaluate(arrays)


def test_limits_are_kept() -> None:
    plan = Plan(max_elements=50, max_rank=2, sizes=((7, 1),))
    for seed in range(60):
        graph, _ = random_graph(f"small/{seed}", plan)
        details = [op.outputs[0].details for op in graph.inputs]
        assert all(d.elements <= 50 * 7 for d in details)


def test_a_graph_of_nothing_but_a_recipe_that_failed_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The recipe leaves inputs that may be larger than any op may return; the graph then copies one that is not."""

    def refused(scope: Scope) -> None:
        scope.input(F32, (scope.plan.max_elements, 3))
        raise UserError("refused")

    monkeypatch.setitem(RECIPES, "copy", refused)
    plan = Plan(ops=frozenset(("copy",)))
    for seed in range(20):
        graph, arrays = random_graph(f"nothing/{seed}", plan)
        assert [op.op_name for op in graph.ops if op.kind not in ("source", "sink")] == ["copy"]
        assert len(arrays) == len(graph.inputs)
