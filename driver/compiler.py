"""The driver: a model file to a `CompiledModel`, one call per arrow of docs/architecture.md. Nothing clever."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import UserError
from ..base.options import CompileOptions
from ..base.target import Target
from ..codegen.aot import compile_to_object
from ..codegen.host import target_for
from ..codegen.kernel_parts import split_program, total_seconds
from ..codegen.kernel_pool import KernelPool
from ..codegen.llvm_info import process_triple
from ..codegen.module import emit_module
from ..codegen.object_merge import merge_objects
from ..codegen.support import thread_pool_module
from ..frontend import load as load_graph
from ..graph_ir.inspect.reorders import has_layouts, remaining_reorders
from ..graph_ir.ir.graph import Graph, Op
from ..graph_ir.lowering.lower_graph import LoweredModel, lower_graph, total_gflop
from ..graph_ir.passes import pipeline as graph_pipeline
from ..graph_ir.schedule.context import LowerContext
from ..graph_ir.schedule.matmul_tile import MatmulBlocking
from ..graph_ir.text.printer import print_graph
from ..runtime.artifact import Artifact
from ..runtime.executor import CompiledModel
from ..runtime.metadata import Metadata, TensorSpec
from ..runtime.threadpool import available_cpus, resolve_threads
from ..tensor_ir import pipeline as loop_pipeline
from ..tensor_ir.nodes import Module
from ..tensor_ir.printer import print_module
from ..tensor_ir.verifier import verify as verify_module
from .compile_cache import CompileCache, cache_key, default_cache, file_key
from .tuning import TuningFile, default_file
from .versions import versions

Model = Any
"""A path, the bytes of a file, an onnx.ModelProto or a Graph."""

OnPhase = Callable[[str, int, int], None]
"""Progress: (phase, steps done, steps in all). Called when a phase starts (0 done) and as it goes."""


MANY_OPS = 64
"""Ops of a model from which it pays to compile kernels in several processes: one takes a third of a second to start."""

_LOG = logging.getLogger("graphc.compiler")


@dataclass
class Compilation:
    """Everything one compilation made, stage by stage.

    `source` is the graph as read, `graph` as optimised; `module` is the final Tensor IR, `llvm_ir` its LLVM text.
    """

    target: Target
    options: CompileOptions
    source: Graph
    graph: Graph
    lowered: LoweredModel
    module: Module
    llvm_ir: str
    artifact: Artifact


@dataclass(frozen=True)
class Outcome:
    """An artifact: compiled, or `from_cache`. `read` gives the graph it was made of, reading it if it was not yet."""

    target: Target
    options: CompileOptions
    artifact: Artifact
    from_cache: bool
    read: Callable[[], Graph]


@dataclass
class _Phases:
    """Times phases and reports them."""

    on_phase: OnPhase | None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self.progress(name, 0, 1)
        start = time.perf_counter()
        yield
        spent = time.perf_counter() - start
        self.seconds[name] = self.seconds.get(name, 0.0) + spent
        _LOG.info("%s: %.1f ms", name, spent * 1e3)
        self.progress(name, 1, 1)

    def progress(self, name: str, done: int, total: int) -> None:
        if self.on_phase:
            self.on_phase(name, done, total)


class _Dump:
    """Writes every stage that changed to `NN_name.txt` in the dump folder."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.number = 0
        if folder:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(f"cannot make '{folder}' ({error.strerror})") from error

    def write(self, name: str, text: Callable[[], str], changed: bool = True) -> None:
        """Count the stage; write its text if it changed anything."""
        if self.folder and changed:
            path = self.folder / f"{self.number:02d}_{name}.txt"
            try:
                path.write_text(text(), encoding="utf-8")
            except OSError as error:
                raise UserError(f"cannot write '{path}' ({error.strerror})") from error
        self.number += 1


def compile(
    model: Model,
    target: str | Target = "native",
    threads: int | None = None,
    inputs: Mapping[str, str] | None = None,
    *,
    disabled: Iterable[str] = (),
    dump_dir: str | os.PathLike[str] | None = None,
    tuning: str | os.PathLike[str] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    attrs: Mapping[str, str] | None = None,
    cache: bool = True,
    jobs: int | None = None,
) -> CompiledModel:
    """Compile a model for this machine and load it.

    `model`: a path, the bytes of a file, an onnx.ModelProto or a Graph. `target`: native, avx512, avx2 or generic.
    `threads`: None takes GRAPHC_NUM_THREADS, OMP_NUM_THREADS or the CPUs this process may use. `inputs`: shapes the
    file leaves open, such as {"x": "f32[8,13]"}. `disabled`: optimisations to leave out (`options.SWITCHES`).
    `constants`: arrays the file leaves out; `attrs`: attributes it does not tell ({"node.axis": "1"}).
    `tuning`: a file of measured blockings (default: the one `graphc tune` writes, if there is one).
    `cache`: whether to look in the compile cache first and to keep there what is made (`graphc cache status`).
    `jobs`: processes to compile with; None takes GRAPHC_JOBS or the CPUs this process may use.
    UserError, UnsupportedError.
    """
    options = CompileOptions(
        threads=resolve_threads(threads),
        disabled=frozenset(disabled),
        dump_dir=Path(dump_dir) if dump_dir else None,
    )
    resolved = target_for(target) if isinstance(target, str) else target
    blockings = tuned_blockings(resolved, options.threads, tuning)
    kept = default_cache() if cache and options.dump_dir is None else None
    outcome = compile_cached(
        model,
        resolved,
        options,
        inputs,
        None,
        blockings,
        constants,
        attrs,
        kept,
        resolve_jobs(jobs),
    )
    return CompiledModel(outcome.artifact, options.threads)


def resolve_jobs(jobs: int | None, environ: Mapping[str, str] = os.environ) -> int:
    """Processes to compile with: `jobs`, else GRAPHC_JOBS, else the CPUs this process may use. UserError."""
    asked = environ.get("GRAPHC_JOBS", "").strip()
    if jobs is None and not asked:
        return available_cpus()
    value = int(asked) if jobs is None and asked.isdecimal() else jobs
    if type(value) is not int or value < 1:
        who, given = ("GRAPHC_JOBS", asked) if jobs is None else ("jobs", jobs)
        raise UserError(f"{who} must be a whole number from 1, got {given!r}")
    return value


def tuned_blockings(
    target: Target, threads: int, path: str | os.PathLike[str] | None = None
) -> dict[str, MatmulBlocking]:
    """Measured blockings for a target, by problem string, from a tuning file; none where there is no file."""
    return TuningFile(Path(path) if path else default_file(), target, threads).read()


def load(path: str | os.PathLike[str], threads: int | None = None) -> CompiledModel:
    """Load a `.gcm` artifact. UserError if it is damaged or made for another CPU."""
    artifact = Artifact.load(path)
    return CompiledModel(artifact, resolve_threads(threads))


def compile_stages(
    model: Model,
    target: str | Target = "native",
    options: CompileOptions | None = None,
    inputs: Mapping[str, str] | None = None,
    on_phase: OnPhase | None = None,
    blockings: Mapping[str, MatmulBlocking] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    attrs: Mapping[str, str] | None = None,
) -> Compilation:
    """Compile without loading, keeping every stage.

    `blockings` overrules the cost model, by problem string; `constants` and `attrs` are `frontend.load`'s.
    """
    phases = _Phases(on_phase)
    ctx = _context(target, options, blockings)
    with phases("read"):
        source = load_graph(model, inputs, constants, attrs)
    return _compile(source, ctx, phases)


def compile_cached(
    model: Model,
    target: str | Target = "native",
    options: CompileOptions | None = None,
    inputs: Mapping[str, str] | None = None,
    on_phase: OnPhase | None = None,
    blockings: Mapping[str, MatmulBlocking] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    attrs: Mapping[str, str] | None = None,
    kept: CompileCache | None = None,
    jobs: int = 1,
) -> Outcome:
    """As `compile_stages`, but from the cache `kept` where it is there; what is compiled is put there.

    The kernels of a large model are compiled by `jobs` processes.
    """
    phases = _Phases(on_phase)
    ctx = _context(target, options, blockings)

    @cache
    def read() -> Graph:
        return load_graph(model, inputs, constants, attrs)

    alias = None
    if kept is not None and not constants and not attrs:
        with phases("cache"):
            alias = file_key(model, inputs, ctx)
            key = kept.resolve(alias) if alias else None
            artifact = kept.get(key) if key else None
        if artifact is not None:
            return _found(artifact, ctx, phases, read)
    with phases("read"):
        source = read()
    if kept is None:
        return Outcome(ctx.target, ctx.options, _made(source, ctx, phases, jobs), False, read)
    with phases("cache"):
        key = cache_key(source, ctx)
        artifact = kept.get(key)
    if artifact is None:
        artifact = _made(source, ctx, phases, jobs)
        outcome = Outcome(ctx.target, ctx.options, artifact, False, read)
        with phases("keep"):
            is_kept = kept.put(key, artifact)
    else:
        outcome, is_kept = _found(artifact, ctx, phases, read), True
    if alias and is_kept:
        kept.link(alias, key)
    return outcome


def _found(
    artifact: Artifact, ctx: LowerContext, phases: _Phases, read: Callable[[], Graph]
) -> Outcome:
    """An artifact from the cache, with the time this took in place of the time it took to compile."""
    stats = {**artifact.metadata.stats, "seconds": dict(phases.seconds)}
    artifact = replace(artifact, metadata=replace(artifact.metadata, stats=stats))
    return Outcome(ctx.target, ctx.options, artifact, True, read)


def _context(
    target: str | Target,
    options: CompileOptions | None,
    blockings: Mapping[str, MatmulBlocking] | None,
) -> LowerContext:
    resolved = target_for(target) if isinstance(target, str) else target
    return LowerContext(resolved, options or CompileOptions(), blockings or {})


def _made(source: Graph, ctx: LowerContext, phases: _Phases, jobs: int) -> Artifact:
    """The artifact of a graph, made by several processes where that pays and every stage need not be seen."""
    large = len(_body(source)) >= MANY_OPS and "linux" in process_triple()
    if jobs == 1 or not large or ctx.options.dump_dir is not None:
        return _compile(source, ctx, phases).artifact
    with KernelPool(jobs) as pool:
        graph, lowered = _lowered(source, ctx, phases, _Dump(None))
        with phases("kernels"):
            compiled = pool.compile(
                split_program(lowered.module),
                ctx.target,
                ctx.options.verify,
                lambda done, total: phases.progress("kernels", done, total),
            )
            object_code = merge_objects([part.object_code for part in compiled])
    stats = _stats(source, graph, lowered, phases.seconds)
    stats["processes"] = {"count": jobs, "seconds": total_seconds(compiled)}
    return _artifact(source, lowered, ctx, object_code, support_object(), stats)


def _lowered(
    source: Graph, ctx: LowerContext, phases: _Phases, dump: _Dump
) -> tuple[Graph, LoweredModel]:
    """The optimised graph and its program."""
    dump.write("read", lambda: print_graph(source))
    with phases("optimise"):
        graph = source.copy()
        graph.sort()  # a graph built by hand may have an output before other ops
        graph_pipeline.run(
            graph,
            ctx,
            lambda _, name, g, changed: dump.write(name, lambda: print_graph(g), changed),
        )
    with phases("lower"):
        lowered = lower_graph(graph, ctx, lambda done, total: phases.progress("lower", done, total))
        dump.write("lower", lambda: print_module(lowered.module))
    return graph, lowered


def _compile(source: Graph, ctx: LowerContext, phases: _Phases) -> Compilation:
    """Everything after reading, in this process."""
    dump = _Dump(ctx.options.dump_dir)
    graph, lowered = _lowered(source, ctx, phases, dump)
    with phases("loops"):
        module = loop_pipeline.run(
            lowered.module,
            ctx.target,
            lambda _, name, m, changed: dump.write(name, lambda: print_module(m), changed),
        )
        if ctx.options.verify:
            verify_module(module, "final")
    with phases("emit"):
        llvm_ir = emit_module(module, ctx.target)
        dump.write("llvm", lambda: llvm_ir)
    with phases("llvm"):
        object_code = compile_to_object(llvm_ir, ctx.target)
        support = support_object()
    stats = _stats(source, graph, lowered, phases.seconds)
    artifact = _artifact(source, lowered, ctx, object_code, support, stats)
    return Compilation(ctx.target, ctx.options, source, graph, lowered, module, llvm_ir, artifact)


@cache
def support_object() -> bytes:
    """The thread pool's object code, the same for every model; empty where models run serially."""
    text = thread_pool_module(process_triple())
    return compile_to_object(text, target_for("generic")) if text else b""


def _stats(
    source: Graph, graph: Graph, lowered: LoweredModel, seconds: dict[str, float]
) -> dict[str, Any]:
    plan = graph.attrs["temp.memory_plan"]
    return {
        "ops": len(_body(source)),
        "kernels": len(lowered.module.functions) - 1,
        "calls": [
            {"op": call.op_name, "kernel": call.kernel, "note": call.note, "gflop": call.gflop}
            for call in lowered.calls
        ],
        "layouts": [
            {"op": d.op_name, "formats": [str(f) for f in d.candidates[d.chosen].inputs]}
            for d in graph.attrs["temp.layout_decisions"]
        ],
        "reorders": _reorders(graph),
        "constants_bytes": len(lowered.constants),
        "arena_bytes": plan.arena_bytes,
        "arena_lower_bound": plan.lower_bound,
        "gflop": total_gflop(lowered.calls),
        "seconds": dict(seconds),
    }


def _reorders(graph: Graph) -> dict[str, int] | None:
    """Changes of layout left in the program and their bytes; None where every activation is plain."""
    if not has_layouts(graph):
        return None
    edges, inside = (
        [one.bytes for one in remaining_reorders(graph) if one.at_edge == at]
        for at in (True, False)
    )
    return {
        "inside": len(inside),
        "inside_bytes": sum(inside),
        "edges": len(edges),
        "edge_bytes": sum(edges),
    }


def _body(graph: Graph) -> list[Op]:
    return [op for op in graph.ops if op.kind not in ("source", "sink")]


def _artifact(
    source: Graph,
    lowered: LoweredModel,
    ctx: LowerContext,
    object_code: bytes,
    support: bytes,
    stats: dict[str, Any],
) -> Artifact:
    outputs = tuple(
        TensorSpec(op.attrs.get("temp.result", op.name), x.dtype, x.plain_dims)
        for op in source.outputs
        for x in [op.inputs[0].details]
    )
    inputs = tuple(
        TensorSpec(op.name, op.outputs[0].details.dtype, op.outputs[0].details.plain_dims)
        for op in source.inputs
    )
    metadata = Metadata(
        model=source.name,
        inputs=inputs,
        outputs=outputs,
        arena_bytes=lowered.arena_bytes,
        isa=ctx.target.isa,
        cpu_features=tuple(f[1:] for f in ctx.target.features.split(",") if f.startswith("+")),
        triple=process_triple(),
        threads=ctx.options.threads,
        versions=versions(),
        stats=stats,
        model_hash=source.hash_contents(),
    )
    return Artifact(metadata, np.frombuffer(lowered.constants, np.uint8), object_code, support)
