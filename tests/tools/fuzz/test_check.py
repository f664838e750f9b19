"""One case: right results are right, wrong ones, exceptions and refusals are called what they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import InternalError, UnsupportedError
from graphc.graph_ir.ir.graph import Array
from graphc.graph_ir.ir.registry import lookup
from graphc.runtime import executor
from graphc.tools.error_bound import CAREFUL, Expected
from graphc.tools.fuzz import check as checking
from graphc.tools.fuzz.case import Case, Setting, random_case
from graphc.tools.fuzz.certainty import Certainty
from graphc.tools.fuzz.check import check, compare, compare_carefully
from graphc.tools.fuzz.outcome import INTERNAL, REFUSED, RIGHT, WRONG
from support.graphs import graph_of

CHUNKS, CHUNK = 2, 20
"""Number of cases, of the 2,000 that `make check` runs: enough to notice at once."""


def tanh_case(**setting: Any) -> Case:
    graph = graph_of("""
        %x = Node[type=input] () -> f32[2,3]
        %t = Node[type=tanh] (inputs = (x=%x)) -> f32[2,3]
        return (output=%t)
    """)
    return Case(graph, [np.full((2, 3), 0.5, np.float32)], Setting(**setting))


@pytest.mark.exhaustive
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.filterwarnings("ignore")
def test_random_graphs_are_right(chunk: int) -> None:
    """The same graphs in every run; `graphc dev fuzz` makes as many as one likes."""
    for index in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        outcome = check(random_case(16, index))
        assert not outcome.is_failure, f"graphc dev fuzz --seed 16: case {index}: {outcome}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["native", "avx512", "avx2", "generic"])
@pytest.mark.parametrize("route", ["gcm", "onnx", "hlo", "pnnx", "tvm", "ge"])
def test_every_target_and_route_is_taken(target: str, route: str) -> None:
    outcome = check(tanh_case(target=target, routes=(route,), threads=2))
    assert (outcome.kind, outcome.refusals) == (RIGHT, ())


def test_what_has_a_pole_may_reach_it_where_terms_cancel() -> None:
    """The sum is 5e-9 exactly, or 0 if the large terms are not added first."""
    graph = graph_of("""
        %x = Node[type=input] () -> f32[1,3]
        %c = Node[type=constant] (attrs = {value: [-3 3 2]}) -> f32[3,1]
        %s = Node[type=matmul_core] (inputs = (a=%x, b=%c)) -> f32[1,1]
        %e = Node[type=constant] (attrs = {value: [-4]}) -> f32[1,1]
        %y = Node[type=pow] (inputs = (a=%s, b=%e)) -> f32[1,1]
        return (output=%y)
    """)
    outcome = check(Case(graph, [np.array([[0.5, 0.5, 2.5554694e-9]], np.float32)], Setting()))
    assert outcome.kind == RIGHT, outcome
    expected = Expected(np.array([2.0]), np.array([1.0]))
    compare([np.array([2.5])], [expected], [Certainty.ROUGH])
    with pytest.raises(Exception, match="inf instead of 2.0"):
        compare([np.array([np.inf])], [expected], [Certainty.ROUGH])


def test_a_bound_that_is_narrow_by_chance_is_measured_again() -> None:
    def expected(walks: int) -> list[Expected]:
        return [Expected(np.array([2.0]), np.array([0.3 if walks == CAREFUL else 0.1]))]

    compare_carefully([np.array([2.2])], expected, [Certainty.ROUGH])
    with pytest.raises(Exception, match="error 0.4 where 0.3 is allowed"):
        compare_carefully([np.array([2.4])], expected, [Certainty.ROUGH])


def test_a_wrong_reference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(self: Any, arrays: list[Array]) -> list[Array]:
        return [np.tanh(arrays[0]) * np.float32(1.0001)]

    monkeypatch.setattr(lookup("tanh"), "reference", off)
    outcome = check(tanh_case())
    assert (outcome.kind, outcome.stage) == (WRONG, "run")
    assert "result 0 is rough, and has 0.46" in outcome.message


def test_conditions_of_a_run_end_it_or_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = tanh_case().graph
    x = graph.inputs[0].outputs[0]
    within = graph.make("lt", [x, graph.make_constant(np.float32(0.5))]).outputs[0]
    graph.make_check(graph.make("reduce_all", [within]).outputs[0], "x must be small")
    graph.sort()
    for value in (0.25, 0.5):
        case = Case(graph, [np.full((2, 3), value, np.float32)], Setting(routes=("gcm",)))
        assert check(case).kind == RIGHT, check(case)
    monkeypatch.setattr(executor, "without_checks", lambda model, results, checks: results)
    outcome = check(case)
    assert (outcome.kind, outcome.stage) == (WRONG, "conditions")
    assert outcome.message == "a call ends with '', not with 'model 'g': x must be small'"


@pytest.mark.parametrize(
    ("error", "kind"),
    [(InternalError("a bug"), INTERNAL), (KeyError("k"), INTERNAL), (UnsupportedError("no"), REFUSED)],
)  # fmt: skip
def test_errors_are_sorted_by_blame(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: str
) -> None:
    def fails(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(checking, "compile_stages", fails)
    outcome = check(tanh_case())
    assert (outcome.kind, outcome.stage) == (kind, "compile")


def test_other_bits_on_other_threads_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    real = checking.run_guarded

    def noisy(model: Any, arrays: Sequence[Array], at: Any, is_serial: bool = False) -> list[Array]:
        results = real(model, arrays, at, is_serial)
        return [np.nextafter(y, np.float32(1)) for y in results] if at == "start" else results

    monkeypatch.setattr(checking, "run_guarded", noisy)
    assert (check(tanh_case(threads=2)).stage, check(tanh_case()).stage) == ("threads", "run again")


def test_a_refusal_of_a_format_is_no_failure() -> None:
    graph = graph_of("""
        %x = Node[type=input] () -> u16[3]
        %t = Node[type=popcount] (inputs = (x=%x)) -> u16[3]
        return (output=%t)
    """)
    case = Case(graph, [np.arange(3, dtype=np.uint16)], Setting(routes=("pnnx",)))
    outcome = check(case)
    assert outcome.kind == RIGHT and outcome.refusals[0].startswith("pnnx: ")


@pytest.mark.parametrize(
    ("op", "attrs"), [("leaky_relu", "alpha: 0.16666666666666666"), ("selu", "alpha: 1.7")]
)
def test_numbers_that_a_format_rounds_are_not_called_wrong(op: str, attrs: str) -> None:
    """GE's text has six decimals: a slope of 1/6 is not the same afterwards, nor is selu's default scale, and that is
    no failure."""
    graph = graph_of(f"""
        %x = Node[type=input] () -> f64[1]
        %y = Node[type={op}] (inputs = (x=%x), attrs = {{{attrs}}}) -> f64[1]
        return (output=%y)
    """)
    case = Case(graph, [np.full(1, -0.69634205)], Setting(routes=("ge",)))
    outcome = check(case)
    assert (outcome.kind, outcome.refusals) == (RIGHT, ())


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_what_a_format_says_in_other_ops_may_round_as_those_do(dtype: str) -> None:
    """HLO has no gelu: 1 - erf cancels where gelu is next to 0."""
    graph = graph_of(
        f"""
        %x = Node[type=input] () -> {dtype}[4]
        %y = Node[type=gelu] (inputs = (x=%x)) -> {dtype}[4]
        return (y=%y)
        """
    )
    x = np.array([-5.5, -4, -3.04, 1], dtype.replace("f", "float"))
    outcome = check(Case(graph, [x], Setting(routes=("hlo",))))
    assert outcome.kind == RIGHT, outcome.message


def test_cases_survive_as_text() -> None:
    for index in range(60):
        case = random_case(3, index)
        twin = Case.from_json(case.to_json())
        assert twin.graph.compare_contents(case.graph) and twin.setting == case.setting
        assert [a.tobytes() for a in twin.arrays] == [a.tobytes() for a in case.arrays]
        assert [a.dtype for a in twin.arrays] == [a.dtype for a in case.arrays]
