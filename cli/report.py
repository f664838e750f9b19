"""`graphc report`: everything about a compiled model on one HTML page that needs no network."""

from __future__ import annotations

import argparse
import json

from .model_arguments import add_compile_arguments, add_json_argument, add_quiet_argument
from .profile import add_profile_arguments, profile_model, write_text
from .progress import progress
from .terminal import say

HELP = "Write one HTML page: graph, kernels, roofline, memory, code"
KEYWORDS = ("html", "visualize")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_compile_arguments(parser)
    add_profile_arguments(parser)
    parser.add_argument(
        "-o", "--output", default="report.html", metavar="FILE",
        help="page to write (default: report.html)",
    )  # fmt: skip
    add_json_argument(parser)
    add_quiet_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Compile, profile, and write the page or print its facts."""
    from ..tools.report.page import report_facts, report_page

    with progress(args.quiet or args.json) as report:
        compilation, found = profile_model(args, report)
        if args.json:
            say(json.dumps(report_facts(compilation, found)))
            return 0
        report("write", 0, 1)
        write_text(args.output, report_page(compilation, found))
        report("write", 1, 1)
    say(f"wrote {args.output}")
    return 0
