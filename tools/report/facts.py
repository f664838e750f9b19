"""The facts that the report shows about each node, kernel and pass, as plain values."""

from __future__ import annotations

from typing import Any

from ...base.durations import shown_time
from ...base.memory_limit import shown_bytes
from ...driver.stages import Compilation
from ...graph_ir.ir.graph import Graph, Op
from ...graph_ir.passes import pipeline
from ...graph_ir.schedule.context import LowerContext
from ...graph_ir.text.printer import print_graph, print_op
from ..explain import Explanation
from ..kernel_code import CodeMap
from ..profile import KernelTime, Profile

Facts = dict[str, Any]


def node_facts(explanation: Explanation, profile: Profile) -> dict[str, Facts]:
    """Return what each node is, why, and how fast, by node name, except constants."""
    times, busy = {k.node: k for k in profile.kernels}, profile.busy()
    return {
        op.name: {
            "text": print_op(op),
            "rows": _rows(times[op.name], busy.get(op.name, 0.0)) if op.name in times else [],
            "decisions": _decisions(explanation, op.name, times),
            "kernel": times[op.name].kernel if op.name in times else "",
            "candidates": _candidates(explanation, op) if op.name in times else [],
        }
        for op in explanation.graph.ops
        if not op.is_constant
    }


def kernel_texts(compilation: Compilation) -> dict[str, dict[str, str]]:
    """Return the code of each kernel at every stage, by kernel."""
    code = CodeMap(compilation.lowered, compilation.target)
    return {kernel: code.of(kernel).texts for kernel in code.kernels}


def pass_facts(compilation: Compilation, ctx: LowerContext) -> list[Facts]:
    """Each pass over the graph with what it removed and added, and the graph after it where it changed anything."""
    graph = compilation.source.copy()
    graph.sort()  # as the compiler does
    texts: dict[int, str] = {0: print_graph(compilation.source)}

    def keep(number: int, name: str, graph: Graph, changed: bool) -> None:
        if changed:
            texts[number] = print_graph(graph)

    pipeline.run(graph, ctx, keep)
    stages = Explanation(compilation.source, graph, compilation.lowered, ctx).passes()
    count = len(compilation.source.ops)
    keys = ("number", "pass", "before", "after", "removed", "added")
    read = dict(zip(keys, (0, "read", count, count, [], []), strict=True))
    return [
        {**{key: stage[key] for key in keys}, "text": texts.get(stage["number"], "")}
        for stage in (read, *stages)
    ]


def _rows(kernel: KernelTime, busy: float) -> list[tuple[str, str]]:
    """Name and value of each figure of a kernel."""
    seconds = max(kernel.seconds, 1e-12)
    return [
        ("kernel", kernel.kernel),
        *kernel.properties(),
        ("time", shown_time(kernel.seconds)),
        ("work", f"{kernel.gflop:.4g} GFLOP, {kernel.gflop / seconds:.1f} GFLOP/s"),
        ("operands", f"{shown_bytes(kernel.nbytes)}, {kernel.nbytes / 1e9 / seconds:.1f} GB/s"),
        ("roof", f"{100 * kernel.of_roof:.0f} % of {kernel.roof}"),
        ("threads busy", f"{100 * busy:.0f} %"),
    ]


def _decisions(explanation: Explanation, node: str, times: dict[str, KernelTime]) -> list[str]:
    """The decisions about a node and about the ops of the model it came from, in order."""
    names = [node, *(times[node].source if node in times else ())]
    found = {id(d) for name in names for d in explanation.log.story(name)}
    return [f"{d.pass_name}: {d}" for d in explanation.log.decisions if id(d) in found]


def _candidates(explanation: Explanation, op: Op) -> list[str]:
    """The candidate formats and schedules, `*` for the chosen one, and the location of the result in memory."""
    body = op.attr("graph").ops if op.kind == "fused" else [op]
    tuned = [inner.name for inner in body if inner.kind == "tunable"]
    lines, memory = [], []
    for name in tuned or [op.name]:
        facts = explanation.node(name)
        for choice in facts["layouts"]:
            formats = f"{', '.join(choice['inputs'])} -> {', '.join(choice['outputs'])}"
            lines.append(f"{_mark(choice)} {name}: {formats}, {choice['cost']:.0f} bytes")
        for choice in facts["schedules"]:
            cycles = "" if choice["cycles"] is None else f", {choice['cycles']} cycles"
            lines.append(f"{_mark(choice)} {choice['problem']}: {choice['schedule']}{cycles}")
        memory += facts["memory"]
    return [*lines, *dict.fromkeys(memory)]


def _mark(choice: Facts) -> str:
    return "*" if choice["chosen"] else "-"
