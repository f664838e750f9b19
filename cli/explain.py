"""`graphc explain`: why a model was compiled the way it was: passes, layouts, schedules, fusion, memory."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .model_arguments import (
    add_compile_arguments,
    add_schedule_arguments,
    compile_request,
    model_texts,
)

if TYPE_CHECKING:
    from ..tools.explain import Explanation
from .terminal import say

NAME = "explain"
HELP = "Say why a model was compiled as it was: passes, layouts, schedules, fusion, memory."

Facts = dict[str, Any]
MOST_NAMES = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_compile_arguments(parser)
    parser.add_argument(
        "node", nargs="?", help="an op of the model or a kernel: everything about it"
    )
    parser.add_argument(
        "--passes", action="store_true", help="list passes: ops before and after, removed ops"
    )
    parser.add_argument(
        "--tensor-ir",
        action="store_true",
        help="with NODE: also print the Tensor IR of its kernels",
    )
    add_schedule_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def run(args: argparse.Namespace) -> int:
    """Optimise and lower the model, then print what was decided."""
    from ..tensor_ir.printer import print_function

    explanation = _explanation(args)
    if args.passes:
        passes = explanation.passes()
        say(json.dumps(passes) if args.json else "\n".join(_pass_lines(passes)))
        return 0
    if args.node is None:
        whole = {
            "kernels": explanation.kernels(),
            "not_fused": explanation.not_fused(),
            "memory": explanation.memory(),
        }
        say(json.dumps(whole) if args.json else "\n".join(_model_lines(whole)))
        return 0
    facts = explanation.node(args.node)
    if args.tensor_ir:
        names = dict.fromkeys(k["kernel"] for k in facts.get("kernels") or facts["calls"])
        module = explanation.lowered.module
        facts["tensor_ir"] = [print_function(module.function(name)) for name in names]
    say(json.dumps(facts) if args.json else "\n".join(_node_lines(facts)))
    return 0


def _explanation(args: argparse.Namespace) -> Explanation:
    from ..graph_ir.lowering.lower_graph import lower_graph
    from ..graph_ir.passes import pipeline
    from ..tools.explain import Explanation

    request = compile_request(args, model_texts(args))
    source, ctx = request.source, request.context
    graph = source.copy()
    pipeline.run(graph, ctx)
    return Explanation(source, graph, lower_graph(graph, ctx), ctx)


def _pass_lines(passes: Iterable[Facts]) -> Iterable[str]:
    yield f"{'':>2} {'pass':<24} {'before':>6} {'after':>6}  removed"
    for stage in passes:
        removed = stage["removed"]
        text = ", ".join(removed[:MOST_NAMES]) + (
            f" and {len(removed) - MOST_NAMES} more" if len(removed) > MOST_NAMES else ""
        )
        text = text or ("" if stage["enabled"] else "(switched off)")
        head = f"{stage['number']:>2} {stage['pass']:<24} {stage['before']:>6} {stage['after']:>6}"
        yield f"{head}  {text}".rstrip()
        for decision in stage["decisions"]:
            yield f"{'':>28}{decision}"


def _model_lines(whole: Facts) -> Iterable[str]:
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
    yield from facts.get("tensor_ir", ())


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
