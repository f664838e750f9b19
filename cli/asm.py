"""`graphc asm`: the code of a node's kernels at every stage, and the nodes of a kernel."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..base.errors import UserError
from .model_arguments import (
    add_compile_arguments,
    add_schedule_arguments,
    compile_request,
    model_texts,
)
from .terminal import say

NAME = "asm"
HELP = "Show the code of a node or kernel: Tensor IR, loops, LLVM IR, assembly."
STAGES = ("tensor-ir", "loops", "llvm", "asm")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_compile_arguments(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--node", metavar="NAME", help="an op of the model: the kernels it is in")
    which.add_argument("--kernel", metavar="NAME", help="a kernel: the ops it computes")
    parser.add_argument(
        "--stage", default="asm", metavar="LIST",
        help=f"stages to print, of {','.join(STAGES)}, or all (default asm)",
    )  # fmt: skip
    add_schedule_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def run(args: argparse.Namespace) -> int:
    """Print the map from nodes to kernels, or the code of the requested kernels."""
    from ..tools.kernel_code import CodeMap

    stages = _stages(args.stage)
    compilation, explanation = _compile(args)
    calls = explanation.kernels()
    wanted = args.node or args.kernel
    if wanted is None:
        _print_map(calls, args.json)
        return 0
    facts = explanation.node(wanted)
    chosen = facts["calls"] if "kernel" in facts else facts["kernels"]
    if ("kernel" in facts) != bool(args.kernel):
        kind = "kernel" if args.kernel else "node"
        raise UserError(f"there is no {kind} '{wanted}'; run `graphc asm MODEL` for the list")
    code = CodeMap(compilation)
    found = []
    for name in dict.fromkeys(call["kernel"] for call in chosen):
        mine, texts = [c for c in calls if c["kernel"] == name], code.of(name).texts
        found.append(
            {
                "kernel": name,
                "nodes": [c["node"] for c in mine],
                "source": sorted({op for c in mine for op in c["source"]}),
                "code": {stage: texts[stage] for stage in stages},
            }
        )
    say(json.dumps(found) if args.json else "\n\n".join(map(_text, found)) or _no_code(wanted))
    return 0


def _compile(args: argparse.Namespace) -> tuple[Any, Any]:
    from ..driver.compiler import compile_stages
    from ..tools.explain import Explanation

    request = compile_request(args, model_texts(args))
    c = compile_stages(request)
    return c, Explanation(c.source, c.graph, c.lowered, request.context)


def _stages(text: str) -> list[str]:
    stages = list(STAGES) if text == "all" else text.split(",")
    unknown = next((stage for stage in stages if stage not in STAGES), None)
    if unknown is not None:
        raise UserError(f"--stage must be of {', '.join(STAGES)} or all, got '{unknown}'")
    return stages


def _print_map(calls: list[dict[str, Any]], as_json: bool) -> None:
    rows = [{key: call[key] for key in ("node", "kernel", "source")} for call in calls]
    if as_json:
        say(json.dumps(rows))
        return
    for row in rows:
        say(f"{', '.join(row['source'])} -> {row['node']} -> {row['kernel']}")


def _text(found: dict[str, Any]) -> str:
    head = [f"kernel {found['kernel']}", f"nodes  {', '.join(found['nodes'])}"]
    head.append(f"from   {', '.join(found['source'])}")
    texts = [f"--- {stage} ---\n{text}" for stage, text in found["code"].items()]
    return "\n".join([*head, *texts])


def _no_code(node: str) -> str:
    return f"{node}: no code runs for it; `graphc explain MODEL {node}` tells why"
