"""The command line: `graphc COMMAND ...`, the same as `python -m gc` and `python -m graphc`.

Each command is a module here with `HELP`, `add_arguments(parser)` and `run(args) -> exit code`; a package with
`SUBCOMMANDS` holds further commands. These files import heavy modules inside `run`, so that `--help` is quick.

Exit codes: 0 success, 1 a result differs from its reference, 2 wrong usage or input, 3 unsupported, 4 a bug in graphc.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from ..base.errors import GraphcError, GraphcWarning, InternalError, UserError, screenful
from ..base.source_files import check_not_source, keep_sources, note_source
from .command_tree import GROUPS, parse
from .file_kinds import require_kind

COMMANDS = tuple(name for names in GROUPS.values() for name in names)

WITHOUT_OPS = ("run", "roofline", "sbom", "serve", "ls", "gc")
"""Commands that make no graph: they need no plugins."""

_MAX_MESSAGE_LINES = 12

EXIT_INTERRUPTED = 130  # as a shell reports a process killed by SIGINT
EXIT_BROKEN_PIPE = 141  # and by SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: this process's) and return its exit code.

    Wrong usage raises SystemExit(2), as argparse does.
    """
    args = parse(_process_words() if argv is None else list(argv))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names in models may contain any text
    try:
        with keep_sources():
            code = _run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The pipe was closed. Buffered output must not raise again when the interpreter closes stdout.
        _discard_output()
        return EXIT_BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - the last line of defense: no traceback unless requested
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            _discard_output()
            error = UserError(
                f"cannot write the output ({error.strerror}); make room on the device"
            )
        if isinstance(error, MemoryError):
            error = UserError(f"not enough memory ({error or 'none is left'}); use a smaller model")
        return _report(error, args.debug)
    return code


def _run(args: argparse.Namespace) -> int:
    """Load what the command needs, check the files it is given, and run it."""
    if log := os.environ.get("GRAPHC_LOG"):
        import_module(".log_levels", __name__).configure_logging(log)
    if args.plugin or args.command.__module__.rpartition(".")[2] not in WITHOUT_OPS:
        plugins = import_module("..driver.plugins", __name__)
        plugins.load_with_ops()
        for name in args.plugin:
            plugins.load_plugin(name)
    for name, takes in getattr(args, "files", {}).items():
        if path := getattr(args, name):
            require_kind(path, takes, args.prog)
            note_source(path)
    check_not_source(getattr(args, "output", None) or "")
    code: int = args.command(args)
    return code


def _show_warning(
    others: Callable[..., None], message: Warning | str, category: type[Warning], *where: Any
) -> None:
    """Print a warning of graphc as errors are printed, and `others` in the way of Python."""
    if issubclass(category, GraphcWarning):
        print(f"graphc: warning: {message}", file=sys.stderr)
    else:
        others(message, category, *where)


def _process_words() -> list[str]:
    """Return the arguments of this process; from here on, Ctrl-C ends it also inside native code."""
    warnings.showwarning = partial(_show_warning, warnings.showwarning)
    import_module(".interrupt", __name__).end_soon_after_interrupt(EXIT_INTERRUPTED)
    return sys.argv[1:]


def _discard_output() -> None:
    """Discard output still buffered for stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(error: Exception, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    if isinstance(error, GraphcError):
        code, message = error.exit_code, str(error)
    else:
        code = InternalError.exit_code
        message = screenful(f"internal error, {type(error).__name__}: {error}", _MAX_MESSAGE_LINES)
        if not debug:
            message += "; run again with --debug for the traceback"
    if code == InternalError.exit_code:
        reproducer = import_module("..driver.reproducer", __name__)
        if reproducer.is_bug(error):
            reproducer.add_reproducer(error)
    print(f"graphc: error: {message}", file=sys.stderr)
    if not debug:
        for note in getattr(error, "__notes__", ()):
            print(note, file=sys.stderr)
    return code
