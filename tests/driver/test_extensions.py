"""User code is part of the key of the models compiled with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphc.driver.extensions import loops_are_extended, user_code
from graphc.extension.ops import define
from graphc.graph_ir.ir import registry
from graphc.graph_ir.lowering.registry import LOWERINGS
from graphc.graph_ir.ops.fused import Fused
from graphc.graph_ir.passes import pipeline
from support.process import run_python

SCRIPT = """
import sys
import numpy as np
import graphc
from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.codegen.host import target_for
from graphc.driver.compile_cache import default_cache
from graphc.driver.compiler import compile_request
from graphc.driver.request import CompileRequest
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.elementwise import Row, define
from graphc.runtime.executor import CompiledModel
from graphc.tensor_ir import builder as t

{define}
graph = graphc.Graph("m")
x = graph.make_input(LogicalTensor(F32, (4,)), "x")
graph.make_output(graph.make("scaled", [x]).outputs[0], "y")
request = CompileRequest(graph, target_for("native"), CompileOptions(), cache=default_cache())
outcome = compile_request(request)
print(outcome.from_cache, outcome.not_cached, CompiledModel(outcome.artifact, 1)(np.ones(4, np.float32))[0])
"""

PLAIN = 'define(Row("scaled", "Scaled.", lambda x: x * {0}, lambda x: x * {0}))'
HELPERS = """
FACTOR = {0}
def inner(x): return x * FACTOR
def outer(x): return inner(x)
define(Row("scaled", "Scaled.", lambda x: outer(x), lambda x: x * FACTOR))
"""
CLOSURE = """
def scaled(factor):
    return Row("scaled", "Scaled.", lambda x: x * factor, lambda x: x * factor)
define(scaled({0}))
"""
CLOCK = """
import time
define(Row("scaled", "Scaled.", lambda x: x * ({0} if time.time() else 0.0), lambda x: x * {0}))
"""


def run(define: str, folder: Path) -> str:
    script = SCRIPT.format(define=define)
    done = run_python("-c", script, env={"GRAPHC_CACHE_DIR": str(folder)})
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


@pytest.mark.exhaustive
@pytest.mark.parametrize("define", [PLAIN, HELPERS, CLOSURE], ids=["plain", "helpers", "closure"])
def test_a_definition_is_found_in_the_cache_and_another_one_is_not(
    define: str, tmp_path: Path
) -> None:
    assert run(define.format("2.0"), tmp_path) == "False  2.0"
    assert run(define.format("2.0"), tmp_path) == "True  2.0"
    assert run(define.format("3.0"), tmp_path) == "False  3.0"


def test_how_a_format_spells_an_op_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_CLASSES", dict(registry._CLASSES))
    keys = set()
    for cell in ("com.example::One(x)", "com.example::Two(x)", ""):
        define("spelled", "x.", compose=lambda make, x: make("copy", x), onnx=cell)
        keys.add(user_code().key)
    assert len(keys) == 3


def test_what_has_no_digest_is_compiled_anew_and_why_is_told(tmp_path: Path) -> None:
    why = "op 'scaled': '<lambda>' uses time.time, which may give another result in another process"
    for factor in ("2.0", "3.0", "3.0"):
        assert run(CLOCK.format(factor), tmp_path) == f"False {why} {factor}"


OWN = """
from graphc.driver.extensions import UserCode, is_foreign_op, user_code
from graphc.graph_ir.ir.registry import lookup, names

print(user_code() == UserCode(), [name for name in names() if is_foreign_op(lookup(name))])
"""


def test_every_op_pass_and_rule_of_the_package_is_its_own() -> None:
    """In a separate process: other tests define ops."""
    assert run_python("-c", OWN).stdout == "True []\n"


def test_passes_and_lowerings_of_user_code_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {user_code().key}
    step = lambda graph, ctx: False  # noqa: E731
    monkeypatch.setattr("graphc.driver.extensions.PIPELINE", ((step, ""), *pipeline.PIPELINE))
    keys.add(user_code().key)
    own = LOWERINGS._entries[Fused]
    monkeypatch.setitem(LOWERINGS._entries, Fused, lambda op, ctx: own(op, ctx))
    keys.add(user_code().key)
    assert len(keys) == 3


def test_a_pass_over_loops_of_user_code_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not loops_are_extended()
    monkeypatch.setattr("graphc.tensor_ir.pipeline.PASSES", (lambda module, target: module,))
    assert loops_are_extended()


ADDED = """
import numpy as np
import graphc
from graphc.driver.extensions import user_code
from graphc.graph_ir.rewriting.rewrite import rewrite
from graphc.tensor_ir import builder as t

{constant}

def helper(x):
    return x * FACTOR

def closure(limit):
    return lambda op, target: op.x.details.rank < limit

@graphc.kernel("relu", when=closure({limit}))
def own(b, op, x, y):
    with b.loop("i", 0, x.shape[0]) as i:
        b.store(y, (i,), helper(x[i]))

@graphc.graph_pass({point})
def step(graph, ctx, name={name!r}):
    return rewrite(graph, {{"relu": [lambda graph, op: None]}})

x = graphc.pattern.Capture("x")
graphc.recompose(graphc.pattern.node("mul", x, {number}), "leaky_relu", alpha={alpha})
print(user_code().key, user_code().unknown)
"""
PLAINLY = {
    "constant": "FACTOR = 2.0", "limit": 2, "point": "before='fuse'", "name": "a", "number": 0.5, "alpha": 0.1,
}  # fmt: skip
CHANGES = {
    "constant": "FACTOR = 3.0", "limit": 3, "point": "after='fuse'", "name": "b", "number": 0.25, "alpha": 0.2,
}  # fmt: skip


def test_kernels_passes_and_patterns_are_in_the_key_with_all_they_use() -> None:
    def key(**changes: object) -> str:
        done = run_python("-c", ADDED.format(**{**PLAINLY, **changes}))
        assert done.returncode == 0, done.stderr
        found, _, unknown = done.stdout.partition(" ")
        assert unknown == "\n"
        return found

    plain = key()
    assert key() == plain, "equal definitions of two processes"
    others = [key(**{name: change}) for name, change in CHANGES.items()]
    assert len({plain, *others}) == 1 + len(CHANGES)
