"""Definitions identified by name: those of graphc, NumPy and the pure part of the standard library.

Their versions, or the sources of the compiler, are in every key; what they return depends on their arguments alone.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

OURS = __name__.partition(".")[0]
ROOMS = (
    "base", "codegen", "driver", "extension", "frontend", "graph_ir", "runtime", "targets", "tensor_ir",
)  # fmt: skip
"""Rooms that take part in compiling: their sources are in every key."""

_PURE = frozenset(
    ("builtins", "math", "cmath", "operator", "_operator", "functools", "_functools", "itertools", "collections")
    + ("dataclasses", "typing", "types", "abc", "enum", "fractions", "numbers", "copy", "re", "string", "textwrap")
    + ("statistics", "bisect", "_bisect", "heapq", "_heapq", "contextlib", "keyword", "logging", "warnings")
    + ("ml_dtypes", "__future__", "_collections_abc", "struct", "_struct")
)  # fmt: skip
_NUMPY_IMPURE = (
    "random",
    "load",
    "fromfile",
    "loadtxt",
    "genfromtxt",
    "memmap",
    "DataSource",
    "ctypeslib",
)
_BUILTINS_IMPURE = (
    ("open", "input", "exec", "eval", "compile", "globals", "locals", "vars", "__import__", "id", "hash")
    + ("breakpoint",)
)  # fmt: skip


def is_trusted_name(module: str) -> bool:
    """Return whether a module of this name is trusted, except for the parts that `is_trusted` refuses."""
    top, _, rest = module.partition(".")
    if top == OURS:
        return rest.partition(".")[0] in ROOMS
    return module in _PURE or top in ("numpy", "collections")


def is_outside(module: str) -> bool:
    """Return whether a module of the standard library is not trusted: it may depend on the world outside
    the program."""
    return module.partition(".")[0] in sys.stdlib_module_names and not is_trusted_name(module)


def is_trusted(module: str, name: str) -> bool:
    """Return whether the definition `name` of a module behaves the same in every process."""
    if not is_trusted_name(module):
        return False
    if module == "builtins":
        return name not in _BUILTINS_IMPURE
    if module.partition(".")[0] == "numpy":
        return not any(
            part in _NUMPY_IMPURE for part in (*module.split(".")[1:], name.split(".")[0])
        )
    return True


def is_found(value: Any, module: str, name: str) -> bool:
    """Return whether a value is what its module holds under its qualified name; one made inside a function is not."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def home_of(module: ModuleType) -> str:
    """The name of a module."""
    return module.__spec__.name if module.__spec__ else module.__name__
