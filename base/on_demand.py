"""Functions whose modules are loaded when they are first called: a process that compiles one op loads no other's."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

OFFERED: dict[str, Callable[..., Any]] = {}
"""Public functions that other public names call, by name: lower rooms do not import them."""


def on_demand(name: str, package: str) -> Callable[..., Any]:
    """A function that calls the one that is called `.module:function` in a package, as entry points are written."""
    module, function = name.split(":")

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(module, package), function)(*args, **kwargs)

    return call
