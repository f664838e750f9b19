"""Models that need more memory than there is are refused before anything is allocated."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import graphc
from graphc import cli
from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.base.memory_limit import MemoryLimit
from graphc.base.options import CompileOptions
from graphc.driver import memory_check
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor

HUGE = 40 << 28
"""Elements of a tensor of 40 GiB."""


@pytest.fixture(autouse=True)
def sixteen(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = MemoryLimit(16 << 30, "the memory of this machine")
    monkeypatch.setattr(memory_check, "memory_limit", lambda: limit)


def broadcast_sum() -> Graph:
    """A scalar broadcast to 40 GiB and added to an input."""
    graph = Graph("huge")
    x = graph.make_input(LogicalTensor(F32, (1,)), "x")
    one = graph.make_constant(np.ones(1, np.float32))
    wide = graph.make("broadcast", [one], {"shape": (HUGE,)}).outputs[0]
    graph.make_output(graph.make("add", [wide, x]).outputs[0], "y")
    return graph


def test_results_are_added_up_before_constants_are_folded() -> None:
    tracemalloc.start()
    with pytest.raises(UserError) as error:
        compile_stages(broadcast_sum())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert str(error.value) == (
        "model 'huge' needs 40 GiB of memory to run (inputs 4 B, results 40 GiB, constants 4 B), "
        "the memory of this machine allows 16 GiB; compile for a larger machine with --max-memory"
    )
    assert peak < 32 << 20


def test_for_a_larger_machine_it_compiles_without_40_gib() -> None:
    options = CompileOptions(max_memory=MemoryLimit(1 << 40, "--max-memory"))
    assert compile_stages(broadcast_sum(), options=options).lowered.arena_bytes == 0


def test_a_sum_of_two_implicit_constants_stays_implicit() -> None:
    graph = Graph("implicit")
    x = graph.make_input(LogicalTensor(F32, (1,)), "x")
    wide = [
        graph.make("broadcast", [graph.make_constant(np.ones(1, np.float32))], {"shape": (HUGE,)})
        for _ in range(2)
    ]
    both = graph.make("add", [op.outputs[0] for op in wide]).outputs[0]
    total = graph.make("reduce_sum", [both], {"axes": (0,), "keep_dims": True}).outputs[0]
    graph.make_output(graph.make("add", [total, x]).outputs[0], "y")
    assert compile_stages(graph).lowered.arena_bytes < 1 << 20


def test_intermediate_values_count_once_they_are_planned() -> None:
    graph = Graph("middle")
    x = graph.make_input(LogicalTensor(F32, (64, 64)), "x")
    w = graph.make_constant(np.eye(64, dtype=np.float32))
    for _ in range(2):
        x = graph.make("matmul_core", [x, w]).outputs[0]
    graph.make_output(x)
    options = CompileOptions(max_memory=MemoryLimit(3 * 64 * 64 * 4, "--max-memory"))
    with pytest.raises(UserError, match=r"constants 16 KiB, intermediate values 16 KiB\)"):
        compile_stages(graph, options=options)


def test_the_system_is_requested_more_than_any_process_has(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[int] = []

    def limit() -> MemoryLimit | None:
        requested.append(len(requested))
        return None

    monkeypatch.setattr(memory_check, "memory_limit", limit)
    memory_check.check_memory(small())
    assert not requested
    memory_check.check_memory(small(), arena_bytes=1 << 30)
    assert requested


def test_the_api_takes_a_size() -> None:
    with pytest.raises(UserError, match="--max-memory allows 15 B"):
        graphc.compile(small(), cache=False, max_memory="15")
    assert graphc.compile(small(), cache=False, max_memory="1M")(np.float32([-1, 2])).tolist() == [
        0,
        2,
    ]


def small() -> Graph:
    graph = Graph("small")
    x = graph.make_input(LogicalTensor(F32, (2,)), "x")
    graph.make_output(graph.make("relu", [x]).outputs[0])
    return graph


def test_a_command_without_memory_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none_left(*_: object) -> None:
        raise MemoryError("Unable to allocate 96.0 GiB")

    monkeypatch.setattr("graphc.cli.doctor.facts", none_left)
    assert cli.main(["doctor"]) == 2
    assert capsys.readouterr().err == (
        "graphc: error: not enough memory (Unable to allocate 96.0 GiB); use a smaller model\n"
    )
