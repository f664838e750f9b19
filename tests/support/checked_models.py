"""The suite with `-X check-bounds`: every model that tests compile checks each of its accesses."""

from __future__ import annotations

from typing import Any

from graphc.base.options import CompileOptions
from graphc.codegen import kernel_parts

_counts = [0]


def turn_on() -> None:
    """Have all options ask for checks, and count the modules emitted with them."""
    made, emitted = CompileOptions.__init__, kernel_parts.emit_module

    def checking(self: CompileOptions, *args: Any, **named: Any) -> None:
        made(self, *args, **named)
        object.__setattr__(self, "check_bounds", True)

    def counting(program: Any, *args: Any, **named: Any) -> Any:
        add(int(program.checked))
        return emitted(program, *args, **named)

    CompileOptions.__init__ = checking  # type: ignore[method-assign]
    kernel_parts.emit_module = counting  # type: ignore[assignment]


def add(count: int) -> None:
    """Count some more."""
    _counts[0] += count


def count() -> int:
    """Modules emitted with checks in this process, and those that others told of."""
    return _counts[0]
