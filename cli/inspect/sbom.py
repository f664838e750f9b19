"""`graphc inspect sbom`: the software bill of materials of a compiled model."""

from __future__ import annotations

import argparse
import json

from ...base.whole_file import write_file
from ..file_kinds import ARTIFACT
from ..model_arguments import add_file_argument, add_options
from ..terminal import say

HELP = "Write what a compiled model is made of, as CycloneDX JSON"
KEYWORDS = ("bom", "cyclonedx", "spdx")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_file_argument(parser, "artifact", (ARTIFACT,), "compiled model (.gcm)")
    parser.add_argument("-o", "--output", metavar="FILE", help="the file to write (default: print)")
    add_options(parser, "signature")


def run(args: argparse.Namespace) -> int:
    """Check the artifact, and print or write the document."""
    from ...tools.sbom import bill_of_materials

    text = json.dumps(bill_of_materials(args.artifact, args.require_signature), indent=2) + "\n"
    if not args.output:
        say(text.rstrip())
        return 0
    write_file(args.output, text)
    say(f"wrote {args.output}")
    return 0
