"""The artifact of a compiled program: its metadata, compiler statistics, and the code of the thread pool."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from ..base.size_queries import typical
from ..codegen.aot import compile_to_object
from ..codegen.host import target_for
from ..codegen.llvm_info import host_cpu_name, process_triple
from ..codegen.support import thread_pool_module
from ..graph_ir.inspect.reorders import has_layouts, remaining_reorders
from ..graph_ir.ir.graph import Graph, Op
from ..graph_ir.lowering.lower_graph import LoweredModel, graph_symbols, total_gflop
from ..graph_ir.ops.dynamic_sizes import Count, largest_counts
from ..graph_ir.passes.alias_outputs import ALIASES
from ..graph_ir.passes.plan_memory import MEMORY_PLAN
from ..graph_ir.passes.propagate_layouts import LAYOUT_DECISIONS
from ..graph_ir.text.printer import print_graph
from ..runtime.artifact import Artifact
from ..runtime.loader import host_features
from ..runtime.metadata import Metadata, TensorSpec
from ..targets.detection import DETECTION
from ..targets.isa import Target, tile_features
from .cache_key import support_key
from .compile_cache import CompileCache
from .request import CompileRequest
from .versions import versions


class ModelCode(NamedTuple):
    """The object code of a model; `on_vectors`: for processes that may not use tile registers, if it uses them."""

    object_code: bytes
    on_vectors: bytes = b""


def _needed_features(target: Target) -> tuple[str, ...]:
    """Features without which a CPU cannot run the model: there is other code for those of tile registers.

    For this CPU by its name, LLVM uses every feature of it that the target does not exclude.
    """
    flags = target.features.split(",")
    features = dict.fromkeys(flag[1:] for flag in flags if flag.startswith("+"))
    detection = DETECTION.get(process_triple().partition("-")[0])
    if detection and target.cpu == host_cpu_name():
        excluded = {flag[1:] for flag in flags if flag.startswith("-")}
        own = host_features() & detection.bits.keys() - excluded
        features |= dict.fromkeys(sorted(own))
    return tuple(feature for feature in features if feature not in tile_features())


def make_artifact(
    request: CompileRequest,
    graph: Graph,
    lowered: LoweredModel,
    code: ModelCode,
    support: bytes,
) -> Artifact:
    """The artifact of a lowered program and its object code. The same request gives the same bytes."""
    source, target = request.source, request.target
    most = largest_counts(source)
    metadata = Metadata(
        model=source.name,
        inputs=input_specs(source),
        outputs=output_specs(source),
        arena_bytes=lowered.arena_bytes,
        isa=target.isa,
        cpu_features=_needed_features(target),
        uses_tiles=bool(code.on_vectors),
        triple=target.triple or process_triple(),
        threads=request.options.threads,
        versions=versions(),
        options={"target": target.isa, **request.options.as_text()},
        stats=_stats(source, graph, lowered),
        model_hash=request.contents,
        checks=source.checks,
        sizes=graph_symbols(source),
        aliases=ALIASES.of(source),
        counts=tuple((op.symbol, most[op.symbol.name]) for op in _counts(source)),
        rooms=tuple(symbol.name for symbol in source.rooms),
    )
    text = print_graph(graph, full=True, stored=lowered.offsets)
    derived = lowered.derived
    return Artifact(
        metadata, lowered.constants, code.object_code, support, text, vector_code=code.on_vectors,
        derivations=derived.derivations, sources=tuple(derived.sources),
    )  # fmt: skip


def support_object(kept: CompileCache | None = None) -> bytes:
    """The thread pool's object code, the same for every model; empty where models run serially.

    LLVM takes longer for it than for most kernels: processes find it in the cache of kernels, if they may use one.
    """
    text = thread_pool_module(process_triple())
    if kept is None or not text:
        return _compiled_support(text)
    key = support_key(text)
    code = kept.get_kernel(key)
    if code is None:
        code = _compiled_support(text)
        kept.put_kernels({key: code})
    return code


@cache
def _compiled_support(text: str) -> bytes:
    return compile_to_object(text, target_for("generic")) if text else b""


def input_specs(graph: Graph) -> tuple[TensorSpec, ...]:
    """Name, element type and shape of each input."""
    return tuple(
        TensorSpec(op.name, op.outputs[0].details.dtype, op.outputs[0].details.plain_dims)
        for op in graph.inputs
    )


def output_specs(graph: Graph) -> tuple[TensorSpec, ...]:
    """Name, element type and shape of each output."""
    return tuple(
        TensorSpec(op.attr("temp.result"), x.dtype, x.plain_dims)
        for op in graph.outputs
        for x in [op.inputs[0].details]
    )


def _counts(graph: Graph) -> list[Count]:
    """The ops whose results the outputs are that hold counted sizes, in their order."""
    found = graph.outputs[len(graph.results) :][: graph.count_outputs]
    return [op.inputs[0].producer_owner for op in found]  # type: ignore[misc]


def body_of(graph: Graph) -> list[Op]:
    """The ops that compute something."""
    return [op for op in graph.ops if op.kind not in ("source", "sink")]


def _stats(source: Graph, graph: Graph, lowered: LoweredModel) -> dict[str, Any]:
    plan = MEMORY_PLAN.of(graph)
    return {
        "ops": len(body_of(source)),
        "kernels": len(lowered.module.functions) - 1,
        "calls": [
            {"op": call.op_name, "kernel": call.kernel, "note": call.note, "gflop": call.gflop}
            for call in lowered.calls
        ],
        "layouts": [
            {"op": d.op_name, "formats": [str(f) for f in d.candidates[d.chosen].inputs]}
            for d in LAYOUT_DECISIONS.of(graph)  # a graph that was parsed has none
        ],
        "reorders": _reorders(graph),
        "constants_bytes": len(lowered.constants),
        "arena_bytes": typical(plan.arena_bytes),
        "arena_lower_bound": plan.lower_bound,
        "gflop": total_gflop(lowered.calls),
    }


def _reorders(graph: Graph) -> dict[str, int] | None:
    """Layout changes left in the program and their bytes; None if every activation is plain."""
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
