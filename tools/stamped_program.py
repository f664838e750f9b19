"""A model compiled again with timestamps between its kernels, otherwise unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.dtypes import S64
from ..codegen.aot import compile_to_object
from ..codegen.host import target_for
from ..codegen.module import emit_module
from ..codegen.task_trace import FUNCTION_NAME, task_trace_module
from ..driver.stages import Compilation
from ..runtime.artifact import Artifact
from ..runtime.executor import CompiledModel
from ..runtime.metadata import TensorSpec
from ..runtime.sizes import call_sizes
from ..runtime.task_trace import TaskTrace
from ..tensor_ir.nodes import Buffer, Module

STAMPS = "graphc.stamps"


class StampedProgram:
    """A model bound to inputs, with and without stamps. `stamps` is s64[calls + 1]: cycle counts of the last run.

    `plain()` runs the compiled model without stamps, `stamped()` with stamps; `traced()`, which is None where loops run
    serially, records every iteration of its parallel loops in `trace` too. `sizes` are those of dynamic ones, by name.
    """

    def __init__(self, compilation: Compilation, inputs: Mapping[str, Any]) -> None:
        threads = compilation.options.threads
        self._plain = CompiledModel(compilation.artifact, threads)
        self._stamped = CompiledModel(stamped_artifact(compilation), threads)
        self.stamps = np.zeros(len(compilation.lowered.calls) + 1, np.int64)
        results = [np.zeros_like(array) for array in self._plain.allocate(inputs)]
        shapes = tuple(np.shape(inputs[spec.name]) for spec in self._plain.inputs)
        self.sizes = {
            **call_sizes(compilation.artifact.metadata, inputs),
            **self._plain.sized(shapes).chosen,
        }
        self.results = results
        self.plain: Callable[[], int] = self._plain.bind(inputs, results)
        whole = [*results, *self._stamped.allocate(inputs)[len(results) : -1], self.stamps]
        self.stamped: Callable[[], int] = self._stamped.bind(inputs, whole)
        self.trace = self._trace(self._stamped.pool_address)
        self.traced: Callable[[], int] | None = None
        if self.trace is not None:
            self.traced = self._stamped.bind(inputs, whole, self.trace.rt)

    @staticmethod
    def _trace(pool: int | None) -> TaskTrace | None:
        if pool is None:
            return None
        return TaskTrace(
            compile_to_object(task_trace_module(), target_for("generic")), FUNCTION_NAME, pool
        )

    def close(self) -> None:
        """Release the code."""
        self._plain.close()
        self._stamped.close()


def stamped_artifact(compilation: Compilation) -> Artifact:
    """The artifact of a compilation with one more output, `STAMPS`; callers see all of them."""
    artifact = compilation.artifact
    calls = len(compilation.lowered.calls)
    name = f"y{len(artifact.metadata.outputs)}"
    module = with_output(compilation.module, Buffer(name, S64, (calls + 1,)))
    code = compile_to_object(emit_module(module, compilation.target, name), compilation.target)
    outputs = (*artifact.metadata.written, TensorSpec(STAMPS, S64, (calls + 1,)))
    metadata = replace(artifact.metadata, outputs=outputs, counts=(), checks=())
    return replace(artifact, object_code=code, metadata=metadata)


def with_output(module: Module, output: Buffer) -> Module:
    """The module with one more output of its entry, after the others."""
    main = module.function(module.entry)
    at = sum(isinstance(param, Buffer) for param in main.params) - 2
    params = (*main.params[:at], output, *main.params[at:])  # before constants, arena and sizes
    stamped = replace(main, params=params)
    return Module(tuple(stamped if f is main else f for f in module.functions), module.entry)
