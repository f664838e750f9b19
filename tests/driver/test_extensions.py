"""What user code adds is never taken from the cache under its old meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphc.driver.extensions import compiler_is_extended
from graphc.graph_ir.lowering.registry import LOWERINGS
from graphc.graph_ir.ops.fused import Fused
from support.process import run_python

SCRIPT = """
import sys
import numpy as np
import graphc
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.elementwise import Row, define
from graphc.tensor_ir import builder as t

factor = float(sys.argv[1])
define(Row("scaled", "x times a factor.", lambda x: t.mul(x, factor), lambda x: x * factor))
graph = graphc.Graph("m")
x = graph.make_input(LogicalTensor(F32, (4,)), "x")
graph.make_output(graph.make("scaled", [x]).outputs[0], "y")
print(graphc.compile(graph)(np.ones(4, np.float32)).tolist())
"""


def test_an_op_that_is_defined_anew_has_its_new_meaning(tmp_path: Path) -> None:
    for factor in ("2.0", "3.0"):
        done = run_python("-c", SCRIPT, factor, env={"GRAPHC_CACHE_DIR": str(tmp_path)})
        assert (done.returncode, done.stdout) == (0, f"{[float(factor)] * 4}\n"), done.stderr


OWN = """
from graphc.driver.extensions import compiler_is_extended, is_foreign_op
from graphc.graph_ir.ir.registry import lookup, names

print(compiler_is_extended(), [name for name in names() if is_foreign_op(lookup(name))])
"""


def test_every_op_pass_and_rule_of_the_package_is_its_own() -> None:
    """In a process of its own: other tests define ops."""
    assert run_python("-c", OWN).stdout == "False []\n"


def test_a_pass_or_lowering_of_user_code_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("graphc.driver.extensions.PIPELINE", ((lambda graph, ctx: False, ""),))
        assert compiler_is_extended()
    own = LOWERINGS._entries[Fused]
    monkeypatch.setitem(LOWERINGS._entries, Fused, lambda op, ctx: own(op, ctx))
    assert compiler_is_extended()
