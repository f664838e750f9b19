"""`graphc serve`: a compiled model behind MLServer, with the Open Inference Protocol."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..base.errors import UserError
from .file_kinds import ARTIFACT
from .model_arguments import add_file_argument, add_options

HELP = "Serve a compiled model over HTTP and gRPC, with MLServer"
KEYWORDS = ("server", "mlserver", "http", "grpc")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_file_argument(parser, "artifact", (ARTIFACT,), "compiled model (.gcm)")
    add_options(parser, "threads")
    parser.add_argument("--name", metavar="NAME", help="the model's name (default: of the file)")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1)"
    )
    parser.add_argument("--http-port", type=int, default=8080, help="default: 8080")
    parser.add_argument("--grpc-port", type=int, default=8081, help="default: 8081")
    parser.add_argument(
        "--max-batch", type=int, default=0, metavar="ROWS",
        help="join concurrent requests up to this number of rows (default: no batching)",
    )  # fmt: skip
    parser.add_argument(
        "--max-delay", type=float, default=5.0, metavar="MS",
        help="milliseconds to wait for other requests (default: 5)",
    )  # fmt: skip
    add_options(parser, "signature")


def run(args: argparse.Namespace) -> int:
    """Serve until the process is told to stop."""
    try:
        from ..integrations.mlserver_runtime import serve
    except ImportError as error:
        raise UserError(
            f"serving needs the package mlserver ({error}); install graphc[serve]"
        ) from error
    for option, port in (("--http-port", args.http_port), ("--grpc-port", args.grpc_port)):
        if not 0 < port < 1 << 16:
            raise UserError(f"{option} must be from 1 to 65535, got {port}")
    if args.max_batch < 0 or args.max_delay < 0:
        raise UserError(
            "--max-batch and --max-delay must be at least 0; leave them out for no batching"
        )
    extra = {"threads": args.threads, "require_signature": args.require_signature}
    batch = args.max_batch, args.max_delay / 1e3 if args.max_batch else 0.0
    name = args.name or Path(args.artifact).stem
    serve(args.artifact, name, args.host, args.http_port, args.grpc_port, batch, extra)
    return 0
