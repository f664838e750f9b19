"""The registered ops as Markdown, for docs/reference/ops.md: operands, kind, meaning, and the attributes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator

from ..ir.op import Op
from ..ir.registry import lookup, names, schema_of

_HEAD = ("| attribute | type | default | meaning |", "|---|---|---|---|")


def op_listing(op_names: Iterable[str] | None = None) -> str:
    """Return a section per op, sorted by name; of all registered ops unless some are named."""
    listed = names() if op_names is None else sorted(op_names)
    return "\n".join(line for name in listed for line in _section(name)).rstrip()


def _section(op_name: str) -> Iterator[str]:
    cls, schema = lookup(op_name), schema_of(op_name)
    operands = ", ".join(operand.text() for operand in schema.operands)
    yield from (f"### {op_name}", "")
    yield from (f"`{op_name}({operands})`, {cls.kind}. {_escaped(_meaning(cls))}".rstrip(), "")
    if schema.attributes:
        yield from _HEAD
        for key, attribute in schema.attributes.items():
            texts = (attribute.type_text(), attribute.default_text(), attribute.meaning)
            yield f"| `{key}` | {' | '.join(map(_escaped, texts))} |"
        yield ""


def _meaning(cls: type[Op]) -> str:
    """The first sentence, or paragraph, that the class says about itself."""
    return " ".join(inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].split())


def _escaped(text: str) -> str:
    """A text in which Markdown sees no table cells, emphasis or HTML, code spans aside."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"([|*<])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)
