"""Kernels of user code take the ops that they accept, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from graphc.graph_ir.passes.call_kernels import call_kernels
from graphc.graph_ir.rewriting.decisions import log_of
from graphc.graph_ir.schedule import user_code
from support.graphs import CONTEXT, graph_of, run_pass

TEXT = """
    %x = Node[type=input] () -> f32[4,8]
    %z = Node[type=input] () -> f32[8]
    %a = Node[type=relu] (inputs = (x=%x)) -> f32[4,8]
    %b = Node[type=relu] (inputs = (x=%z)) -> f32[8]
    %c = Node[type=add] (inputs = (a=%a, b=%b)) -> f32[4,8]
    return (y=%c)
    """


class OnlyRank:
    """A kernel of ops of one rank."""

    def __init__(self, name: str, rank: int, op_name: str = "relu") -> None:
        self.name, self.rank, self.op_name = name, rank, op_name

    def accepts(self, op: Any, ctx: Any) -> bool:
        return bool(op.outputs[0].details.rank == self.rank)

    def function(self, op: Any, inputs: Any, output: Any, ctx: Any) -> Any:
        raise NotImplementedError


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], Any]:
    table: dict[tuple[str, str], Any] = {}
    monkeypatch.setattr("graphc.graph_ir.passes.call_kernels.KERNELS", table)
    monkeypatch.setattr(user_code, "KERNELS", table)
    return table


def test_nothing_changes_without_kernels(kernels: dict[tuple[str, str], Any]) -> None:
    assert not run_pass(call_kernels, graph_of(TEXT))
    kernels["neg", "any"] = OnlyRank("any", 2, "neg")
    assert not run_pass(call_kernels, graph_of(TEXT))


def test_an_op_is_called_by_the_last_kernel_that_accepts_it(
    kernels: dict[tuple[str, str], Any],
) -> None:
    for name, rank in (("first", 2), ("second", 2), ("third", 3)):
        kernels["relu", name] = OnlyRank(name, rank)
    graph = graph_of(TEXT)
    assert run_pass(call_kernels, graph)
    assert [op.op_name for op in graph.ops] == [
        "input",
        "input",
        "relu",
        "kernel_call",
        "add",
        "output",
    ]
    (call,) = (op for op in graph.ops if op.op_name == "kernel_call")
    assert (call.name, call.attr("kernel")) == ("a.second", "second")
    assert [str(d) for d in log_of(graph).decisions] == [
        "form a -> a.second: the kernel 'second' of user code accepts it"
    ]
    assert not call_kernels(graph, CONTEXT)
