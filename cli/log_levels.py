"""`GRAPHC_LOG`: selects which of graphc's loggers print to stderr, and at which level.

`GRAPHC_LOG="fuse=debug,codegen"` is a list of NAME, NAME=LEVEL or LEVEL: a name is a graph pass, `compiler`, `lower`,
`loops`, `codegen`, `cache`, `roofline` or `ge`, and means the logger `graphc.NAME`; the default level is `debug`; a
level without a name applies to all loggers.
"""

from __future__ import annotations

import logging

from ..base.errors import UserError
from ..base.suggestion import suggestion

VARIABLE = "GRAPHC_LOG"
LEVELS = ("debug", "info", "warning", "error")
OTHERS = ("compiler", "lower", "loops", "codegen", "cache", "roofline", "ge")
"""Loggers other than those of the graph passes."""

FORMAT = "%(name)s: %(message)s"


def parse_levels(text: str) -> dict[str, int]:
    """Level by logger name. Raise UserError for a level or a name that does not exist."""
    known = logger_names()
    found: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, level = part.partition("=")
        if not equals:
            name, level = ("", part) if part in LEVELS else (part, "debug")
        if level not in LEVELS:
            raise UserError(
                f"{VARIABLE}: a level must be one of {', '.join(LEVELS)}, got '{part}'; "
                'write for example GRAPHC_LOG="fuse=debug,codegen"'
            )
        if name and name not in known:
            meant = suggestion(name, known) or f"known are {', '.join(known)}"
            raise UserError(f"{VARIABLE}: '{name}' is neither a pass nor a logger; {meant}")
        found[f"graphc.{name}".rstrip(".")] = logging.getLevelNamesMapping()[level.upper()]
    return found


def logger_names() -> list[str]:
    """Every name that the variable may contain."""
    from ..graph_ir.passes.pipeline import steps

    return sorted({*OTHERS, *(step.__name__ for step, _ in steps())})


def configure_logging(text: str) -> None:
    """Print the records selected by the text to stderr; an empty text changes nothing."""
    levels = parse_levels(text)
    if not levels:
        return
    handler = logging.StreamHandler()  # the current stderr
    handler.setFormatter(logging.Formatter(FORMAT))
    logging.getLogger("graphc").handlers = [handler]
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
