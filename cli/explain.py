"""`graphc explain`: why a model was compiled the way it was: passes, layouts, schedules, fusion, memory."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError
from .model_arguments import add_compile_arguments, add_options, compile_request, model_texts
from .terminal import answer, table, wrapped

if TYPE_CHECKING:
    from ..tools.explain import Explanation

HELP = "Explain layouts, schedules, fusion and memory; print generated code"
KEYWORDS = ("asm", "assembly", "disassemble", "why")

Facts = dict[str, Any]
STAGES = ("tensor-ir", "loops", "llvm", "asm")
"""Tensor IR as lowered and after its passes, LLVM IR, assembly."""
MAX_NAMES = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_compile_arguments(parser)
    parser.add_argument(
        "node",
        nargs="?",
        help="an op of the model, or a kernel, to explain (default: the whole model)",
    )
    parser.add_argument(
        "--passes", action="store_true", help="list the passes: ops before and after, removed ops"
    )
    parser.add_argument(
        "--code", metavar="LIST",
        help=f"print the code of NODE at these stages, of {','.join(STAGES)}, or all",
    )  # fmt: skip
    parser.add_argument(
        "--steps", action="store_true",
        help="print the schedule steps from the definition of a matmul to its kernel, with the loops after each",
    )  # fmt: skip
    add_options(parser, "json")


def run(args: argparse.Namespace) -> int:
    """Optimize and lower the model, then print the decisions."""
    stages = _stages(args.code)
    if stages and args.node is None:
        raise UserError("--code needs a NODE; `graphc explain MODEL` lists the nodes and kernels")
    if args.steps and args.node is None:
        raise UserError("--steps needs a NODE; `graphc explain MODEL` lists the nodes and kernels")
    explanation = _explain(args)
    if args.passes:
        passes = explanation.passes()
        answer(args, passes, _pass_lines(passes), 4)
        return 0
    if args.node is None:
        whole = {
            "kernels": explanation.kernels(),
            "not_fused": explanation.not_fused(),
            "memory": explanation.memory(),
        }
        answer(args, whole, _model_lines(whole), 10)
        return 0
    if args.steps:
        steps = explanation.steps(args.node)
        answer(args, steps, step_lines(steps))
        return 0
    facts = explanation.node(args.node)
    if stages:
        from ..tools.kernel_code import CodeMap

        code = CodeMap(explanation.lowered, explanation.ctx.target)
        names = dict.fromkeys(k["kernel"] for k in facts.get("kernels") or facts["calls"])
        facts["code"] = {name: code.of(name, stages).texts for name in names}
        if "asm" in stages:
            from ..tools.hot_loop.verdict import loop_facts

            lowered, target = explanation.lowered, explanation.ctx.target
            loops = {name: loop_facts(name, lowered, target) for name in names}
            facts["loops"] = {name: loop for name, loop in loops.items() if loop}
    answer(args, facts, chain(wrapped(_node_lines(facts), 10), _code_lines(facts)))
    return 0


def _explain(args: argparse.Namespace) -> Explanation:
    from ..graph_ir.lowering.lower_graph import lower_graph
    from ..graph_ir.passes import pipeline
    from ..tools.explain import Explanation

    request = compile_request(args, model_texts(args))
    source, ctx = request.source, request.context
    graph = source.copy()
    pipeline.run(graph, ctx)
    return Explanation(source, graph, lower_graph(graph, ctx), ctx)


def _stages(text: str | None) -> list[str]:
    """The stages of --code. Raise UserError for one that does not exist."""
    stages = list(STAGES) if text == "all" else text.split(",") if text else []
    unknown = next((stage for stage in stages if stage not in STAGES), None)
    if unknown is not None:
        raise UserError(f"--code must be of {', '.join(STAGES)} or all, got '{unknown}'")
    return stages


def _pass_lines(passes: Iterable[Facts]) -> Iterable[str]:
    yield f"{'':>2} {'pass':<24} {'before':>6} {'after':>6}  removed"
    for stage in passes:
        removed = stage["removed"]
        text = ", ".join(removed[:MAX_NAMES]) + (
            f" and {len(removed) - MAX_NAMES} more" if len(removed) > MAX_NAMES else ""
        )
        text = text or ("" if stage["enabled"] else "(switched off)")
        head = f"{stage['number']:>2} {stage['pass']:<24} {stage['before']:>6} {stage['after']:>6}"
        yield f"{head}  {text}".rstrip()
        for decision in stage["decisions"]:
            yield f"{'':>28}{decision}"


def _type_lines(kernels: list[Facts]) -> Iterable[str]:
    """The kernels and their work by type of op, and the total."""
    from ..tools.profile_summary import type_of

    work: dict[str, list[float]] = defaultdict(list)
    for kernel in kernels:
        work[type_of(kernel["ops"])].append(kernel["gflop"])
    total = sum(map(sum, work.values()))
    rows = [
        (f"{sum(each):.3f}", f"{100 * sum(each) / (total or 1):.1f} %", str(len(each)), name)
        for name, each in sorted(work.items(), key=lambda pair: -sum(pair[1]))
    ]
    yield f"{len(kernels)} kernels, {total:.3f} GFLOP"
    yield ""
    yield from table([("GFLOP", "share", "kernels", "op type"), *rows])
    yield ""


def _model_lines(whole: Facts) -> Iterable[str]:
    yield from _type_lines(whole["kernels"])
    for kernel in whole["kernels"]:
        yield f"{kernel['node']} = {kernel['kernel']}"
        yield f"  ops       {' -> '.join(kernel['ops'])}"
        if kernel["layouts"]:
            yield f"  layouts   {'; '.join(kernel['layouts'])}"
        if kernel["schedule"]:
            yield f"  schedule  {kernel['schedule']}"
        yield f"  from      {', '.join(kernel['source'])}"
    yield from whole["not_fused"]
    memory = whole["memory"]
    yield f"arena {memory['arena_bytes']} bytes, live at once {memory['lower_bound']}"
    yield from (f"  {block['text']}" for block in memory["blocks"])


def _node_lines(facts: Facts) -> Iterable[str]:
    if "node" in facts:
        yield f"{facts['node']}: {facts['op']}({', '.join(facts['inputs'])}) -> {', '.join(facts['outputs'])}"
        yield from _section("became", facts["became"])
        yield from _section("passes", facts["decisions"])
        yield from _section("layouts", [_layout(c) for c in facts["layouts"]])
        yield from _section("schedule", [_schedule(s) for s in facts["schedules"]])
        yield from _section("memory", facts["memory"])
    kernels = facts.get("kernels") or facts.get("calls") or []
    yield from _section("kernel", [f"{k['kernel']}, called for {k['node']}" for k in kernels])
    yield from _section("from", [", ".join(k["source"]) for k in kernels])


def _code_lines(facts: Facts) -> Iterable[str]:
    """Code, which is not wrapped."""
    for kernel, texts in facts.get("code", {}).items():
        for stage, text in texts.items():
            yield f"--- {kernel}: {stage} ---"
            yield text
        if loop := facts.get("loops", {}).get(kernel):
            yield f"--- {kernel}: loop {loop['verdict']}"


def step_lines(steps: list[Facts]) -> Iterable[str]:
    """Each step of a schedule and the loops after it, which are not wrapped."""
    for step in steps:
        yield f"--- {step['step']} ---"
        yield step["code"]


def _section(heading: str, lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        yield f"{heading:<9} {line}"
        heading = ""


def _layout(candidate: Facts) -> str:
    formats = f"{', '.join(candidate['inputs'])} -> {', '.join(candidate['outputs'])}"
    return f"{'*' if candidate['chosen'] else ' '} {formats}  cost {candidate['cost']:.0f} bytes"


def _schedule(schedule: Facts) -> str:
    mark = "*" if schedule["chosen"] else " "
    by = f", by {schedule['by']}, of {schedule['offered']}" if schedule["chosen"] else ""
    cycles = "" if schedule["cycles"] is None else f"  {schedule['cycles']} cycles"
    return f"{mark} {schedule['schedule']}{cycles}{by}"
