"""Plugins: Python files and modules that add ops, kernels, passes and patterns when they are loaded.

A command loads those that `--plugin` names. Packages offer theirs as entry points of the group `graphc.plugins`, a
module or a function without arguments; they are loaded when the first op is made, unless GRAPHC_PLUGINS is empty.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.errors import GraphcError, UserError
from ..graph_ir.ir import registry

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "graphc.plugins"
VARIABLE = "GRAPHC_PLUGINS"
_loaded: set[str] = set()  # the entry points that were loaded
_is_requested = False  # whether those of installed packages will be loaded


def load_plugin(name: str) -> None:
    """Load a file (`my_ops.py`) or a module (`package.my_ops`). Raise UserError if it is missing or raises."""
    is_file = name.endswith(".py") or os.sep in name
    if is_file and not Path(name).is_file():
        raise UserError(
            f"plugin '{name}' must be a Python file or a module, and there is none; check its path"
        )
    try:
        _run_file(Path(name)) if is_file else import_module(name)
    except GraphcError as error:
        raise UserError(f"plugin '{name}': {error}") from error
    except Exception as error:
        raise UserError(
            f"plugin '{name}' raised {type(error).__name__}: {error}; fix it"
        ) from error


def _run_file(path: Path) -> None:
    """Run a file as a module; what lies beside it may be imported."""
    name = f"graphc_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def load_with_ops(environ: Mapping[str, str] = os.environ) -> None:
    """Have the plugins of installed packages loaded together with graphc's ops."""
    global _is_requested
    if not _is_requested and environ.get(VARIABLE) != "":
        _is_requested = True
        registry.load_with(load_installed)


def load_installed() -> None:
    """Load the plugins of installed packages. UserError naming the one that cannot be loaded, and its package."""
    if not _any_installed():
        return
    from importlib.metadata import entry_points  # takes 10 ms

    for entry in entry_points(group=GROUP):
        if entry.value not in _loaded:
            _load_entry(entry)
            _loaded.add(entry.value)


def _load_entry(entry: EntryPoint) -> None:
    package = entry.dist.name if entry.dist is not None else "unknown"
    try:
        found = entry.load()
        if entry.attr:
            found()
    except Exception as error:
        what = f"{error}" if isinstance(error, GraphcError) else f"{type(error).__name__}: {error}"
        raise UserError(
            f"plugin '{entry.name}' of package {package} cannot be loaded ({what}); uninstall it, or set {VARIABLE}= "
            "to load none"
        ) from error


def _any_installed() -> bool:
    """Return whether a package on the module path offers a plugin: much quicker than to ask for it."""
    for folder in sys.path:
        try:
            found = [
                name
                for name in os.listdir(folder or ".")
                if name.endswith((".dist-info", ".egg-info"))
            ]
        except OSError:
            continue
        for name in found:
            try:
                text = Path(folder, name, "entry_points.txt").read_bytes()
            except OSError:
                continue
            if f"[{GROUP}]".encode() in text:
                return True
    return False
