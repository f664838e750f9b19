"""Registry of op classes by op name."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from ...base.errors import UnsupportedError
from .op import Op
from .schema import OpSchema

_CLASSES: dict[str, type[Op]] = {}
_own: frozenset[str] = frozenset()  # the names of graphc's own ops
_loaders: list[Callable[[], object]] = []
OpClass = TypeVar("OpClass", bound="type[Op]")


def register(op_name: str, *, again: bool = False) -> Callable[[OpClass], OpClass]:
    """Class decorator: instances are made by `Graph.make(op_name, ...)`. `again`: another class may have the name."""

    def decorate(cls: OpClass) -> OpClass:
        if op_name in _CLASSES and not again:
            raise ValueError(f"op '{op_name}' is registered twice")
        _CLASSES[op_name] = cls
        return cls

    return decorate


def load_with(loader: Callable[[], object]) -> None:
    """Have `loader` register more ops when one is first requested."""
    _loaders.append(loader)


def _load() -> None:
    while _loaders:
        loader = _loaders.pop()  # before it runs: what it loads may ask for ops
        try:
            loader()
        except BaseException:
            _loaders.append(loader)  # so that the next who asks for an op is told too
            raise


def seal() -> None:
    """Say that the ops registered so far are graphc's own."""
    global _own
    _own = frozenset(_CLASSES)


def is_own(op_name: str) -> bool:
    """Return whether an op is graphc's own; those that are registered later are of user code."""
    _load()
    return op_name in _own


def lookup(op_name: str) -> type[Op]:
    """The class of an op name. Raise UnsupportedError if there is none."""
    _load()
    if op_name not in _CLASSES:
        raise UnsupportedError(
            f"op '{op_name}' is not in the registry", "define it (`graphc.ops.define`)"
        )
    return _CLASSES[op_name]


def schema_of(op_name: str) -> OpSchema:
    """Operands and attributes of an op name. Raise UnsupportedError if there is none."""
    return lookup(op_name).schema


def names_where(holds: Callable[[type[Op]], bool]) -> tuple[str, ...]:
    """The op names whose class `holds` is true of, sorted: one function, as what is found for it is kept."""
    _load()
    return _names_where(holds, tuple(_CLASSES.items()))


@lru_cache(maxsize=16)
def _names_where(
    holds: Callable[[type[Op]], bool], classes: tuple[tuple[str, type[Op]], ...]
) -> tuple[str, ...]:
    return tuple(sorted(name for name, cls in classes if holds(cls)))


def names() -> tuple[str, ...]:
    """Every registered op name, sorted."""
    _load()
    return tuple(sorted(_CLASSES))
