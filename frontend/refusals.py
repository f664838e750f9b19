"""Refusals of importers: all unsupported parts of a model at once, with remedies."""

from __future__ import annotations

from collections.abc import Mapping

from ..base.errors import UnsupportedError

WITHOUT = "export the model without it"
FOR_INFERENCE = "export the model for inference (`model.eval()`)"
FIXED = "fix the inputs that decide it (`--constant`)"
HOST = "a model is one call: pass the values as inputs and outputs"
NUMBERS = "give numbers in place of texts"
OTHER_TYPE = "convert the model to another type, such as float32"
DEFINED = "use others (docs/reference/operators.md lists those that are read) or define them (`graphc.ops.define`)"


def counted(found: Mapping[str, int]) -> str:
    """`Foo (2x), Bar (1x)` of what was found how often."""
    return ", ".join(f"{name} ({count}x)" for name, count in sorted(found.items()))


def foreign_ops(label: str, found: Mapping[str, int], what: str = "ops") -> UnsupportedError:
    """The error for operators that no table has."""
    return UnsupportedError(f"{label}: these {what} are not supported: {counted(found)}", DEFINED)
