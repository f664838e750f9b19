"""Checked code finds the first access outside of its buffer, says which, and touches nothing there."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from graphc.base.errors import InternalError
from graphc.base.options import CompileOptions
from graphc.codegen.host import target_for
from graphc.driver import stages
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.text.parser import parse_graph
from graphc.runtime.abi import RT_BYTES, VIOLATED, Runtime
from graphc.runtime.executor import CompiledModel
from graphc.tensor_ir.nodes import Module
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.pipeline import run as run_passes
from graphc.tensor_ir.printer import print_module
from support.native_functions import SHAPES, NativeModule, runnable_target


def run(body: str, shape: str = "avx2", sizes: tuple[int, int] = (40, 40)) -> tuple[int, str, int]:
    """Return the error of a function of two s64 arrays, x and y: the code, the access and its index."""
    head = f'def f(x: s64[{sizes[0]}], y: s64[{sizes[1]}]):\n    """op1 [plain]"""\n'
    module = parse_module(head + "\n".join(f"    {line}" for line in body.splitlines()))
    target = runnable_target(shape)
    native = NativeModule(run_passes(replace(module, checked=True), target), target)
    rt = Runtime()
    arrays = [np.arange(size, dtype=np.int64) for size in sizes]
    native.call("f", arrays, ctypes.addressof(rt))
    # Before the code and its texts are gone.
    return (
        rt.stopped,
        (rt.error or b"").decode(),
        rt.error_index,
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("body", "site", "index"),
    [
        ("for i in range(0, 41):\n    y[i] = 1", "writes 1 of 'y'", 40),
        ("for i in range(0, 40):\n    y[i] = x[i - 1]", "reads 1 of 'x'", -1),
        ("for i in range(0, 40):\n    y[i] = x[x[i] * 3]", "reads 1 of 'x'", 42),
        ("for i in parallel(0, 44):\n    y[i] = 1", "writes 1 of 'y'", 40),
        ("for i in range(0, 2):\n    for j in vector(0, 32):\n        y[i * 32 + j] = 1", None, 32),
        ("for i in vector(0, 40):\n    y[i] = x[x[i] + 4]", None, None),
    ],
)
def test_the_first_wrong_access_is_reported(
    body: str, site: str | None, index: int | None, shape: str
) -> None:
    stopped, error, at = run(body, shape)
    assert stopped == VIOLATED
    assert error.startswith(f"op1: {site or ''}".rstrip())
    assert index is None or index <= at < 44 or index == at == -1


@pytest.mark.parametrize("shape", SHAPES)
def test_code_that_is_right_runs_to_its_end(shape: str) -> None:
    body = "for i in vector(0, 40):\n    y[i] = x[39 - x[i]]\nfor i in parallel(0, 40):\n    y[i] = y[i] + 1"
    assert run(body, shape) == (0, "", 0)


def test_rt_is_as_large_as_the_interface_says() -> None:
    assert ctypes.sizeof(Runtime) == RT_BYTES


GRAPH = """graph("g"):
  %x : [#users=1] = Node[type=input] () -> f32[40,5]
  %loss : [#users=1] = Node[type=tanh] (inputs = (x=%x)) -> f32[40,5]
  return (y=%loss)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_a_model_with_a_wrong_kernel_raises_and_names_the_op(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lower = stages.lower_graph

    def wrong(*args: object) -> object:
        lowered = lower(*args)  # type: ignore[arg-type]
        text = print_module(lowered.module)
        shifted = text.replace("out0[", "out0[7 + ")
        assert shifted != text
        module: Module = parse_module(shifted)
        return replace(lowered, module=replace(module, checked=lowered.module.checked))

    monkeypatch.setattr(stages, "lower_graph", wrong)
    options = CompileOptions(threads, check_bounds=True)
    artifact = compile_stages(parse_graph(GRAPH), target_for("native"), options).artifact
    with CompiledModel(artifact, threads) as model:
        for _ in range(2):  # the model can be called again
            with pytest.raises(
                InternalError,
                match=r"model 'g': loss: writes \d+ of 'out0' from 199 on is out of bounds",
            ):
                model(np.zeros((40, 5), np.float32))


def test_checked_models_give_the_same_bits() -> None:
    x = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)
    results = []
    for checked in (False, True):
        options = CompileOptions(2, check_bounds=checked)
        compilation = compile_stages(parse_graph(GRAPH), target_for("native"), options)
        assert ("graphc_violated" in compilation.llvm_ir) == checked
        with CompiledModel(compilation.artifact, 2) as model:
            results.append(model(x).tobytes())
    assert results[0] == results[1]
