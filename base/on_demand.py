"""Modules that are loaded by name: of a function when it is first called, so that a process that compiles one op loads
no other's; all of a package whose modules register what they define."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

OFFERED: dict[str, Callable[..., Any]] = {}
"""Public functions that other public names call, by name: lower rooms do not import them."""


def on_demand(name: str, package: str) -> Callable[..., Any]:
    """A function that calls the one that is called `.module:function` in a package, as entry points are written."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return loaded(name, package)(*args, **kwargs)

    return call


def loaded(name: str, package: str) -> Any:
    """The function itself, whose module is imported now."""
    module, function = name.split(":")
    return getattr(import_module(module, package), function)


def load_modules(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, given its `__name__` and `__path__`."""
    for module in iter_modules(path):
        import_module(f"{package}.{module.name}")
