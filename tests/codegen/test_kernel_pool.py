"""Kernels compiled in other processes: the same results, and what happens when one of them fails or dies."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from graphc.base.errors import InternalError, UserError
from graphc.base.options import CompileOptions
from graphc.bench.networks import NETWORKS
from graphc.codegen import kernel_parts, kernel_pool
from graphc.codegen.aot import CALLS_LEVEL, OPT_LEVEL, compile_to_part
from graphc.codegen.host import target_for
from graphc.codegen.kernel_parts import (
    KERNEL,
    Failure,
    compile_part,
    link,
    split_program,
    total_seconds,
)
from graphc.codegen.kernel_pool import KernelPool
from graphc.codegen.kernel_worker import receive, send
from graphc.driver.compiler import compile as compile_model
from graphc.driver.compiler import compile_stages
from graphc.driver.request import CompileRequest, resolve_jobs
from graphc.runtime.executor import CompiledModel
from graphc.targets.isa import Target
from graphc.tensor_ir.nodes import Module
from support.lowered import build, context, lower


def program() -> Module:
    """Three kernels and the function that calls them."""
    graph = build(
        {"a": (7, 9), "b": (9, 5)},
        lambda make, x: make(
            "reduce_sum",
            make("softmax", make("matmul_core", x["a"], x["b"]), axis=1),
            axes=(0,),
            keep_dims=False,
        ),
    )
    return lower(graph, context("generic")).module


def test_a_program_is_cut_at_its_calls() -> None:
    module = program()
    *kernels, callers = split_program(module)
    names = [f.name for f in module.functions if f.name != module.entry]
    assert [part.label for part in kernels] == names and len(names) >= 2
    assert callers.declared == set(names) and callers.module.entry == module.entry
    assert {f.name for part in kernels for f in part.module.functions} == {KERNEL}
    assert callers.label == module.entry


def test_only_what_calls_kernels_is_compiled_in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[int] = []

    def recorded(text: str, target: Target, level: int) -> bytes:
        levels.append(level)
        return compile_to_part(text, target, level)

    monkeypatch.setattr(kernel_parts, "compile_to_part", recorded)
    parts = split_program(program())
    for part in parts:
        compile_part(part, target_for("generic"), False)
    assert levels == [OPT_LEVEL] * (len(parts) - 1) + [CALLS_LEVEL]


def test_workers_make_the_objects_this_process_makes() -> None:
    parts = split_program(program())
    target = target_for("generic")
    here = [compile_part(part, target, True) for part in parts]
    seen: list[tuple[int, int]] = []
    with KernelPool(3) as pool:
        made = pool.compile(parts, target, True, lambda *step: seen.append(step))
    assert [part.object_code for part in made] == [part.object_code for part in here]
    assert seen == [(i + 1, len(parts)) for i in range(len(parts))]
    assert set(total_seconds(made)) == {"loops", "emit", "llvm"}


def test_a_network_is_the_same_whoever_compiles_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_pool, "compile_part", compile_part)  # not what tests share
    case = NETWORKS["shufflenet"](image=32, width=0.125).case()
    image = case.arrays()["x"]
    alone = CompileRequest(case.model, target_for("native"), CompileOptions(2))
    together = replace(alone, jobs=2)
    made = [compile_stages(request) for request in (alone, together)]
    assert [one.phases.processes for one in made] == [1, 2]
    assert made[0].artifact.object_code == made[1].artifact.object_code
    results = [CompiledModel(one.artifact, 2)(image) for one in made]
    np.testing.assert_array_equal(*results)


def test_what_a_worker_cannot_compile_is_raised_here() -> None:
    *_, callers = split_program(program())
    broken = replace(callers, module=Module(callers.module.functions[-1:], callers.module.entry))
    with KernelPool(2) as pool, pytest.raises(InternalError, match="is not in the module|calls"):
        pool.compile([broken] * 4, target_for("generic"), False)


def test_a_failure_comes_back_from_the_worker() -> None:
    """Called directly, so that it is not this process that finds the error."""
    *_, callers = split_program(program())
    broken = replace(callers, module=Module(callers.module.functions[-1:], callers.module.entry))
    with KernelPool(2) as pool:
        (worker,) = pool._workers
        assert worker.stdin and worker.stdout
        send(worker.stdin, (broken, target_for("generic"), False))
        answer = receive(worker.stdout)
    assert isinstance(answer, Failure) and "is not in the module" in answer.message


def test_a_worker_that_dies_is_named() -> None:
    parts = split_program(program())
    with KernelPool(2) as pool:
        (worker,) = pool._workers
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        with pytest.raises(InternalError, match=r"the process that compiled .* ended with code -9"):
            pool.compile(parts * 8, target_for("generic"), False)


def test_workers_end_with_the_pool() -> None:
    with KernelPool(2) as pool:
        (worker,) = pool._workers
    assert worker.returncode is not None


def test_merged_parts_are_a_program() -> None:
    graph = build({"a": (5, 6)}, lambda make, x: make("relu", make("softmax", x["a"], axis=1)))
    lowered = lower(graph, context("generic"))
    parts = split_program(lowered.module)
    made = [compile_part(part, target_for("generic"), True) for part in parts]
    whole = compile_stages(graph, "generic").artifact
    merged = replace(whole, object_code=link(parts, made))
    value = np.random.default_rng(0).standard_normal((5, 6), dtype=np.float32)
    np.testing.assert_array_equal(CompiledModel(merged)(value), CompiledModel(whole)(value))


def test_how_many_processes() -> None:
    assert resolve_jobs(3, {"GRAPHC_JOBS": "5"}) == 3
    assert resolve_jobs(None, {"GRAPHC_JOBS": " 5 "}) == 5
    assert resolve_jobs(None, {}) >= 1
    for jobs, environ, sentence in (
        (0, {}, "jobs must be an integer from 1, got 0"),
        (None, {"GRAPHC_JOBS": "many"}, "GRAPHC_JOBS must be an integer from 1, got 'many'"),
    ):
        with pytest.raises(UserError) as error:
            resolve_jobs(jobs, environ)
        assert str(error.value) == sentence
    with pytest.raises(UserError):
        compile_model(b"", jobs=0)
