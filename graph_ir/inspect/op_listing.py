"""The registered ops as text, for docs/ops.md: operands, kind, meaning, attributes with types and defaults."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable, Iterator

from ..ir.op import Op
from ..ir.registry import lookup, names, schema_of

_WIDTH = 116


def op_listing(op_names: Iterable[str] | None = None) -> str:
    """A paragraph per op, sorted by name; all registered ops unless some are named."""
    listed = names() if op_names is None else sorted(op_names)
    return "\n".join(line for name in listed for line in _paragraph(name))


def _paragraph(op_name: str) -> Iterator[str]:
    cls, schema = lookup(op_name), schema_of(op_name)
    operands = ", ".join(operand.text() for operand in schema.operands)
    yield from _wrapped(f"{op_name}({operands})", f"{cls.kind}: {_meaning(cls)}", indent=2)
    for key, attribute in schema.attributes.items():
        default = attribute.default_text()
        shown = default if default == "required" else f"default {default}"
        yield from _wrapped(
            f"  {key}: {attribute.type_text()}, {shown}", attribute.meaning, indent=6
        )


def _meaning(cls: type[Op]) -> str:
    """The first sentence, or paragraph, that the class says about itself."""
    return " ".join(inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].split())


def _wrapped(head: str, text: str, indent: int) -> list[str]:
    line = f"{head}  {text}" if text else head
    return textwrap.wrap(line, _WIDTH, subsequent_indent=" " * indent) or [head]
