"""The stages of one compilation, in order: optimize the graph, lower it, compile its kernels, make the artifact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from ..base.heap import trim_heap
from ..base.options import CompileOptions
from ..base.records import dataclass
from ..codegen.kernel_parts import CompiledPart, Part, link, split_program, total_seconds
from ..codegen.kernel_pool import KernelPool
from ..codegen.module import emit_module
from ..graph_ir.ir.graph import Graph
from ..graph_ir.ir.verifier import verify
from ..graph_ir.lowering.lower_graph import LoweredModel, lower_graph
from ..graph_ir.passes import pipeline as graph_pipeline
from ..graph_ir.text.printer import print_graph, print_op
from ..runtime.artifact import Artifact
from ..targets.isa import Target
from ..tensor_ir import pipeline as loop_pipeline
from ..tensor_ir.nodes import Module
from ..tensor_ir.passes.outline_parallel import has_parallel_loops
from ..tensor_ir.printer import print_module
from ..tensor_ir.without_tiles import uses_tiles, without_tiles
from .artifact import ModelCode, body_of, make_artifact, support_object
from .cache_key import kernel_key
from .dump import StageDump
from .memory_check import check_memory
from .phases import Phases
from .request import CompileRequest

_WORTH_TRIMMING = 1 << 20
"""Bytes of constants from which memory goes back to the system between stages, which takes it anew page by page."""

MANY_OPS = 64
"""Ops of a model from which it pays to compile kernels in several processes: one takes a third of a second to start."""


@dataclass(frozen=True, eq=False)
class Compilation:
    """The results of one compilation, stage by stage.

    `source` is the graph as read, `graph` as optimized. `module` and `llvm_ir` show the program of all kernels; they
    are made when first requested, as kernels are compiled one at a time.
    """

    request: CompileRequest
    graph: Graph
    lowered: LoweredModel
    artifact: Artifact
    phases: Phases

    @property
    def source(self) -> Graph:
        """The graph as read."""
        return self.request.source

    @property
    def target(self) -> Target:
        """The target of the compilation."""
        return self.request.target

    @property
    def options(self) -> CompileOptions:
        """The options of the compilation."""
        return self.request.options

    @cached_property
    def module(self) -> Module:
        """The final Tensor IR."""
        return loop_pipeline.run(self.lowered.module, self.target)

    @cached_property
    def llvm_ir(self) -> str:
        """The LLVM IR of `module`."""
        return emit_module(self.module, self.target)


def run_stages(request: CompileRequest, phases: Phases, consume: bool = False) -> Compilation:
    """Compile a request. May raise UserError or UnsupportedError.

    `consume`: nobody reads the optimized graph afterwards, so it gives up its large constants as they are packed.
    """
    with phases("read"):
        source = request.source
    jobs = request.jobs if len(body_of(source)) >= MANY_OPS else 1
    with KernelPool(jobs) as pool:  # early: the others start while this process optimizes
        dump = StageDump(request.options.dump_dir)
        graph, lowered = _lowered(request, phases, dump, consume)
        if dump.folder:
            _dump_loops(lowered.module, request.target, dump)
        with phases("kernels"):
            triple = request.target.triple
            parts = split_program(lowered.module, triple)
            compiled = _compiled(parts, request, pool, phases)
            code = ModelCode(
                link(parts, compiled, triple), *_on_vectors(parts, compiled, request, phases)
            )
            is_parallel = any(map(has_parallel_loops, lowered.module.functions))
            support = support_object(request.cache) if is_parallel and not triple else b""
    phases.kernel_seconds, phases.processes = total_seconds(compiled), jobs
    artifact = make_artifact(request, graph, lowered, code, support)
    return Compilation(request, graph, lowered, artifact, phases)


def _on_vectors(
    parts: list[Part], compiled: list[CompiledPart], request: CompileRequest, phases: Phases
) -> tuple[bytes, ...]:
    """The program for processes that may not use tile registers, if it uses them; the other kernels are the same."""
    target = request.target
    chosen = [n for n, part in enumerate(parts) if any(map(uses_tiles, part.module.functions))]
    if not chosen:
        return ()
    others = list(parts)
    for number in chosen:
        module = without_tiles(parts[number].module, target)
        others[number] = replace(parts[number], module=module)
    made = _compiled([others[n] for n in chosen], request, KernelPool(1), phases)
    by_number = dict(zip(chosen, made, strict=True))
    return (link(others, [by_number.get(n, one) for n, one in enumerate(compiled)]),)


def _lowered(
    request: CompileRequest, phases: Phases, dump: StageDump, consume: bool
) -> tuple[Graph, LoweredModel]:
    """The optimized graph and its program."""
    source, ctx = request.source, request.context
    check_memory(source, 0, ctx.options.max_memory)
    dump.write("read", lambda: print_graph(source))
    with phases("optimize"):
        graph = source.copy()
        if request.optimized:
            _check_optimized(graph)
        else:
            graph_pipeline.run(
                graph,
                ctx,
                lambda _, name, g, changed: dump.write(name, lambda: print_graph(g), changed),
            )
    with phases("lower"):
        if _constant_bytes(source) >= _WORTH_TRIMMING:
            trim_heap()  # of what packing weights left behind, as they are now packed once more
        lowered = lower_graph(
            graph, ctx, lambda done, total: phases.progress("lower", done, total), consume
        )
        dump.write("lower", lambda: print_module(lowered.module))
    check_memory(source, lowered.arena_bytes, ctx.options.max_memory)
    return graph, lowered


def _constant_bytes(graph: Graph) -> int:
    return sum(int(op.outputs[0].details.size_bytes) for op in graph.ops if op.is_constant)


def _check_optimized(graph: Graph) -> None:
    """Raise UserError for a graph that passes must still change."""
    graph.sort()
    verify(graph, print_op)
    for op in graph.ops:
        if op.kind == "composite":
            rule = "an optimized graph has only ops that are kernels"
            found, remedy = f"the composite op {op.op_name}", "compile it without optimized=True"
            raise op.rule(rule, found, remedy)


def _dump_loops(module: Module, target: Target, dump: StageDump) -> None:
    """Write the stages that each kernel goes through, as those of the whole program."""
    final = loop_pipeline.run(
        module,
        target,
        lambda _, name, m, changed: dump.write(name, lambda: print_module(m), changed),
    )
    dump.write("llvm", lambda: emit_module(final, target))


def _compiled(
    parts: Sequence[Part], request: CompileRequest, pool: KernelPool, phases: Phases
) -> list[CompiledPart]:
    """The object of every part: kernels from the cache where it has them, all others compiled and kept there."""
    cache, found = request.cache, dict[int, CompiledPart]()
    keys = {
        number: kernel_key(part.module.functions[0], request.target)
        for number, part in enumerate(parts)
        if part.kernel and cache is not None and not part.module.checked  # whose code names its ops
    }
    if cache is not None:
        for number, key in keys.items():
            code = cache.get_kernel(key)
            if code is not None:
                found[number] = CompiledPart(code)
    missing = [number for number in range(len(parts)) if number not in found]
    made = pool.compile(
        [parts[number] for number in missing],
        request.target,
        request.options.verify,
        lambda done, _: phases.progress("kernels", len(found) + done, len(parts)),
    )
    if cache is not None:
        cache.put_kernels(
            {keys[i]: one.object_code for i, one in zip(missing, made, strict=True) if i in keys}
        )
    found.update(zip(missing, made, strict=True))
    return [found[number] for number in range(len(parts))]
