"""The command line: `graphc COMMAND ...`, the same as `python -m gc` and `python -m graphc`.

Each command is one file here, with `NAME`, `HELP`, `add_arguments(parser)` and `run(args) -> exit code`. These files
import heavy modules inside `run`, so that `--help` is quick.

Exit codes: 0 success, 1 a result differs from its reference, 2 wrong usage or input, 3 unsupported, 4 a bug in graphc.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Protocol, cast

from ..base.errors import GraphcError, InternalError, UserError, screenful
from ..base.version import __version__

COMMANDS = (
    "compile",
    "run",
    "check",
    "verify",
    "bench",
    "kernel",
    "tune",
    "debug",
    "convert",
    "quantize",
    "diff",
    "inspect",
    "explain",
    "compare",
    "profile",
    "asm",
    "report",
    "roofline",
    "fuzz",
    "ulp",
    "cache",
    "version",
)

WITHOUT_OPS = ("run", "roofline", "cache", "version")
"""Commands that make no graph: they need no plugins."""

_MESSAGE_LINES = 12

EXIT_INTERRUPTED = 130  # as a shell reports a process killed by SIGINT
EXIT_BROKEN_PIPE = 141  # and by SIGPIPE


class Command(Protocol):
    """The interface of the modules in this folder."""

    NAME: str
    HELP: str

    @property
    def add_arguments(self) -> Callable[[argparse.ArgumentParser], None]:
        """Declare the arguments of the command."""

    @property
    def run(self) -> Callable[[argparse.Namespace], int]:
        """Do the work; return the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: this process's) and return its exit code.

    Wrong usage raises SystemExit(2), as argparse does.
    """
    words = _own_words() if argv is None else list(argv)
    args = _parser(words).parse_args(words)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names in models may contain any text
    try:
        if log := os.environ.get("GRAPHC_LOG"):
            import_module(".log_levels", __name__).configure_logging(log)
        if args.plugin or args.command.__module__.rpartition(".")[2] not in WITHOUT_OPS:
            plugins = import_module("..driver.plugins", __name__)
            plugins.load_with_ops()
            for name in args.plugin:
                plugins.load_plugin(name)
        code: int = args.command(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The pipe was closed. Buffered output must not raise again when the interpreter closes stdout.
        _forget_output()
        return EXIT_BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - the last line of defence: no traceback reaches a user unasked
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            _forget_output()
            error = UserError(
                f"cannot write the output ({error.strerror}); make room on the device"
            )
        if isinstance(error, MemoryError):
            error = UserError(f"not enough memory ({error or 'none is left'}); use a smaller model")
        return _report(error, args.debug)
    return code


def _own_words() -> list[str]:
    """The words of this process, which is the command's: Ctrl-C ends it whatever it is in."""
    import_module(".interrupt", __name__).end_soon_after_interrupt(EXIT_INTERRUPTED)
    return sys.argv[1:]


def _forget_output() -> None:
    """Discard output still buffered for stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="graphc", description="Compile neural networks to native SIMD code for this CPU."
    )
    parser.add_argument("--version", action="version", version=f"graphc {__version__}")
    _add_debug(parser, default=False)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in _modules(words):
        command = commands.add_parser(module.NAME, help=module.HELP, description=module.HELP)
        _add_debug(command, default=argparse.SUPPRESS)  # keep options given before the command
        command.add_argument(
            "--plugin", action="append", default=[], metavar="FILE",
            help="a Python file or module that adds ops, kernels, passes or patterns (repeatable)",
        )  # fmt: skip
        module.add_arguments(command)
        command.set_defaults(command=module.run)  # `compile` has its own --run
    return parser


def _modules(words: Sequence[str]) -> list[Command]:
    """The module of the requested command; all of them if that is not clear (help, a typing error)."""
    asked = next((word for word in words if not word.startswith("-")), None)
    names = [asked] if asked in COMMANDS else COMMANDS
    return [cast(Command, import_module(f".{name}", __name__)) for name in names]


def _add_debug(parser: argparse.ArgumentParser, default: object) -> None:
    parser.add_argument(
        "--debug", action="store_true", default=default, help="show the traceback of an error"
    )


def _report(error: Exception, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    if isinstance(error, GraphcError):
        code, message = error.exit_code, str(error)
    else:
        code = InternalError.exit_code
        message = screenful(f"internal error, {type(error).__name__}: {error}", _MESSAGE_LINES)
        if not debug:
            message += "; run again with --debug for the traceback"
    if code == InternalError.exit_code:
        reproducer = import_module("..driver.reproducer", __name__)
        if reproducer.is_fault(error):
            reproducer.add_reproducer(error)
    print(f"graphc: error: {message}", file=sys.stderr)
    if not debug:
        for note in getattr(error, "__notes__", ()):
            print(note, file=sys.stderr)
    return code
