"""A small model, and compiling it with a cache."""

from __future__ import annotations

import numpy as np

from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.codegen.host import target_for
from graphc.driver.compile_cache import CompileCache
from graphc.driver.compiler import Outcome, compile_request, compile_stages
from graphc.driver.request import CompileRequest
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.runtime.artifact import Artifact


def small(factor: float = 2.0, name: str = "y") -> Graph:
    """y = x * factor."""
    graph = Graph("small")
    x = graph.make_input(LogicalTensor(F32, (4,)), "x")
    y = graph.make("mul", [x, graph.make_constant(np.float32([factor]), "factor")], name=name)
    graph.make_output(y.outputs[0])
    return graph


def artifact(factor: float = 2.0) -> Artifact:
    return compile_stages(small(factor)).artifact


def compile_cached(
    model: object, kept: CompileCache, options: CompileOptions | None = None
) -> Outcome:
    request = CompileRequest(model, target_for("native"), options or CompileOptions(), cache=kept)
    return compile_request(request)
