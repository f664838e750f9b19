"""The imports of each shipped file, read from its syntax tree, and the cycles of such imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

NOT_SHIPPED = ("tests", "docs", "examples", "build", "build_backend")
PACKAGING = ("setup.py",)

DYNAMIC = ("import_module", "__import__")
LOADER = "base/on_demand.py"  # its callers name what they load: that is counted as theirs


def sources(root: Path) -> Iterator[Path]:
    for path in sorted(root.glob("**/*.py")):
        inside = path.relative_to(root)
        hidden = any(part.startswith(".") for part in inside.parts)
        if not hidden and inside.parts[0] not in NOT_SHIPPED and inside.as_posix() not in PACKAGING:
            yield path


def imports(path: Path, root: Path) -> tuple[tuple[int, str], ...]:
    """(line, module) of each import; modules of this package start with `graphc`."""
    return _imports(path, root, path.read_bytes())


@cache  # three tests read the whole tree
def _imports(path: Path, root: Path, source: bytes) -> tuple[tuple[int, str], ...]:
    return tuple(_read_imports(path, root, source))


def _read_imports(path: Path, root: Path, source: bytes) -> Iterator[tuple[int, str]]:
    inside = path.relative_to(root)
    package = ("graphc", *inside.parent.parts)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            for alias in node.names:
                # `from ..codegen import jit` and `from ..errors import UserError` look alike: keep the longest.
                yield node.lineno, f"{module}.{alias.name}"
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            name = node.func.id if isinstance(node.func, ast.Name) else name
            if name in DYNAMIC and path != root / LOADER:
                yield node.lineno, f"{name}()"
            elif name == "on_demand" and inside.parts[0] not in NOT_SHIPPED:
                yield node.lineno, _on_demand(node, package)


def _on_demand(call: ast.Call, package: tuple[str, ...]) -> str:
    """Return the module that `on_demand(".module:function", __package__)` will import."""
    name, anchor = call.args
    assert isinstance(name, ast.Constant) and isinstance(name.value, str)
    assert isinstance(anchor, ast.Name) and anchor.id == "__package__"
    outer = re.fullmatch(r"(\.+)([\w.]+):(\w+)", name.value)
    assert outer, f"'{name.value}' is not '.module:function'"
    return ".".join((*package[: len(package) - len(outer[1]) + 1], outer[2], outer[3]))


def import_graph(root: Path) -> dict[str, set[str]]:
    """Module -> the modules of the package it imports, a package as its `__init__`; relative to `graphc`."""
    names = {module_name(path, root) for path in sources(root)}
    found: dict[str, set[str]] = {name: set() for name in names}
    for path in sources(root):
        for _, module in imports(path, root):
            if module == "graphc" or module.startswith("graphc."):
                inside = module.removeprefix("graphc").removeprefix(".")
                while inside and inside not in names:  # a name inside a module
                    inside = inside.rpartition(".")[0]
                found[module_name(path, root)].add(inside)
    return {name: imported - {name} for name, imported in found.items()}


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def circles(root: Path) -> list[tuple[str, ...]]:
    """Sets of modules that import each other, in a circle of any length: strongly connected components (Tarjan)."""
    graph = import_graph(root)
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []
    for start in sorted(graph):
        path = [(start, iter(sorted(graph[start])))] if start not in number else []
        while path:
            node, successors = path[-1]
            if node not in number:
                number[node] = low[node] = len(number)
                stack.append(node)
            following = next(successors, None)
            if following is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == number[node]:
                    cut = stack.index(node)
                    found += [tuple(sorted(stack[cut:]))] if len(stack) > cut + 1 else []
                    del stack[cut:]
            elif following not in number:
                path.append((following, iter(sorted(graph[following]))))
            elif following in stack:
                low[node] = min(low[node], number[following])
    return sorted(found)
