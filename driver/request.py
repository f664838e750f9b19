"""The request for one compilation: a value made from the arguments of the Python API or of a command."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np

from ..base.errors import UserError
from ..base.options import CompileOptions
from ..base.records import dataclass
from ..frontend import load as load_graph
from ..graph_ir.ir.graph import Graph
from ..graph_ir.ir.schedule import Schedule
from ..graph_ir.passes.alias_outputs import AUTO, alias_outputs, find_aliases
from ..graph_ir.schedule.context import LowerContext, UserKernel
from ..runtime.threadpool import available_cpus
from ..targets.isa import Target
from .compile_cache import CompileCache

Model = Any
"""A path, the bytes of a file, an onnx.ModelProto, a torch.export.ExportedProgram, a jax.export.Exported or a Graph."""


@dataclass(frozen=True, eq=False)
class CompileRequest:
    """A model, values for what its file does not specify, and how to compile it.

    `inputs`, `constants` and `attrs` are those of `frontend.load`. `tuned` and `requested` are those of `LowerContext`:
    what was measured by problem, and what the user requested by op. `jobs`: processes that compile kernels. `cache`:
    the cache to use; None disables caching. `optimized`: the graph is as the passes leave it, and no pass runs.
    `alias`: the input in whose memory an output is to be, by the output's name; "auto": those where that can be.
    `lowerings`: kernels of user code, as in `LowerContext`.
    """

    model: Model
    target: Target
    options: CompileOptions = CompileOptions()
    inputs: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    attrs: Mapping[str, str] = field(default_factory=dict)
    tuned: Mapping[str, Schedule] = field(default_factory=dict)
    requested: Mapping[str, Schedule] = field(default_factory=dict)
    jobs: int = 1
    cache: CompileCache | None = None
    optimized: bool = False
    alias: Mapping[str, str] | str = field(default_factory=dict)
    lowerings: Mapping[str, UserKernel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Code that checks its accesses has no checks for loads of whole tiles.
        if self.options.check_bounds or not self.options.enabled("amx"):
            object.__setattr__(self, "target", self.target.without_tiles())

    @cached_property
    def source(self) -> Graph:
        """The model as a graph, read on first use. May raise UserError or UnsupportedError."""
        graph = load_graph(self.model, self.inputs, self.constants, self.attrs)
        if not self.alias:
            return graph
        graph = graph.copy()  # the caller's is not changed
        alias = find_aliases(graph) if self.alias == AUTO else self.alias
        if not isinstance(alias, Mapping):
            raise UserError(
                f"alias must map names of outputs to names of inputs, or be '{AUTO}', got {alias!r}"
            )
        alias_outputs(graph, alias)
        return graph

    @cached_property
    def contents(self) -> str:
        """`Graph.hash_contents` of the model as read: a quarter of a second for every 400 MB of weights."""
        return self.source.hash_contents()

    @property
    def context(self) -> LowerContext:
        """The context for passes and lowering."""
        return LowerContext(self.target, self.options, self.tuned, self.requested, self.lowerings)


def resolve_jobs(jobs: int | None, environ: Mapping[str, str] = os.environ) -> int:
    """Processes to compile with: `jobs`, else GRAPHC_JOBS, else the CPUs this process may use. May raise UserError."""
    text = environ.get("GRAPHC_JOBS", "").strip()
    if jobs is None and not text:
        return available_cpus()
    value = int(text) if jobs is None and text.isdecimal() else jobs
    if type(value) is not int or value < 1:
        who, given = ("GRAPHC_JOBS", text) if jobs is None else ("jobs", jobs)
        raise UserError(f"{who} must be an integer from 1, got {given!r}")
    return value
