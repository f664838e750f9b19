"""`graphc report`: everything about a compiled model on one HTML page that needs no network."""

from __future__ import annotations

import argparse

from .model_arguments import add_compile_arguments, add_quiet_argument
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
        "-o", "--output", default="report.html", metavar="FILE", help="default: report.html"
    )
    add_quiet_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Compile, profile and write the page."""
    from ..tools.report.page import report_page

    with progress(args.quiet) as report:
        compilation, found = profile_model(args, report)
        report("write", 0, 1)
        write_text(args.output, report_page(compilation, found))
        report("write", 1, 1)
    say(f"wrote {args.output}")
    return 0
