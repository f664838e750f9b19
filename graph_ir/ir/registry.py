"""Which class implements which op name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...base.errors import UnsupportedError
from .op import Op

_CLASSES: dict[str, type[Op]] = {}
OpClass = TypeVar("OpClass", bound="type[Op]")


def register(op_name: str) -> Callable[[OpClass], OpClass]:
    """Class decorator: instances are made by `Graph.make(op_name, ...)`."""

    def decorate(cls: OpClass) -> OpClass:
        if op_name in _CLASSES:
            raise ValueError(f"op '{op_name}' is registered twice")
        _CLASSES[op_name] = cls
        return cls

    return decorate


def lookup(op_name: str) -> type[Op]:
    """The class of an op name. UnsupportedError when there is none."""
    if op_name not in _CLASSES:
        raise UnsupportedError(f"op '{op_name}' is not in the registry")
    return _CLASSES[op_name]


def names() -> tuple[str, ...]:
    """Every registered op name, sorted."""
    return tuple(sorted(_CLASSES))
