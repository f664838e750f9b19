"""A digest of what Python code means: equal for equal definitions in any process, different where results may differ.

A function is hashed with everything its result depends on: bytecode, constants, defaults, closure, and the globals it
reads, recursively. Definitions of graphc, NumPy and the pure part of the standard library are identified by name.
Whatever may behave differently in another process has no digest: the clock, files, random numbers, machine code of
other libraries, objects of unknown types.
"""

from __future__ import annotations

import builtins
import functools
import hashlib
import logging
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

import numpy as np

from .code_names import Chain, imports_of, parts_of, reads_of
from .trusted import home_of, is_found, is_outside, is_trusted, is_trusted_name

MAX_VALUES = 20_000
"""Limit on the values that one digest visits: code that reaches further has no digest."""

_ATOMS = (type(None), bool, int, str, bytes, complex, type(...), type(NotImplemented), range, slice)
_HEAP_TYPE = 1 << 9  # of `type.__flags__`: made by a class statement, not in C
_IGNORED = frozenset(
    ("__module__", "__doc__", "__dict__", "__weakref__", "__qualname__", "__firstlineno__", "__annotations__")
    + ("__static_attributes__", "__dataclass_fields__", "__dataclass_params__", "__abstractmethods__", "_abc_impl")
    + ("__parameters__", "__hash__", "__annotate__", "__annotate_func__", "__annotations_cache__")
)  # fmt: skip
"""Members of classes that do not affect results, or only repeat others."""


class UnknownFingerprintError(Exception):
    """An object without a fingerprint, with the reason as a phrase: "'scale' uses time.time, which ..."."""


def fingerprint(*values: object) -> str:
    """SHA-256 of what values mean. Raise UnknownFingerprintError if that cannot be determined."""
    digest = _Digest()
    for value in values:
        digest.add(value)
    return digest.hexdigest()


Add = Callable[[Any, Any], None]
"""(the digest, a value)."""


class _Digest:
    """One traversal. Objects visited before are identified by their number, which also ends cycles."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        # By id; the objects too, so that no id is used twice.
        self._met: dict[int, tuple[int, object]] = {}
        self._inside: list[str] = []  # the functions and classes that enclose the current value
        self._values = 0

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def add(self, value: Any) -> None:
        """Hash a value of any type."""
        self._values += 1
        if self._values > MAX_VALUES:
            raise self._unknown(f"more than {MAX_VALUES} values of other code")
        if type(value) in _ATOMS:
            self._put(type(value).__name__, repr(value))
        elif type(value) is float:
            self._put("float", value.hex())
        elif type(value) is tuple:
            self._items("tuple", value)
        elif type(value) is frozenset:
            self._set(value)
        elif id(value) in self._met:
            self._put("met", str(self._met[id(value)][0]))
        else:
            self._met[id(value)] = (len(self._met), value)
            self._object(value)

    def _put(self, *words: str) -> None:
        for word in words:
            data = word.encode(errors="surrogatepass")
            self._hash.update(len(data).to_bytes(8, "little") + data)

    def _unknown(self, what: str) -> UnknownFingerprintError:
        where = f"'{self._inside[-1]}' " if self._inside else ""
        return UnknownFingerprintError(f"{where}uses {what}")

    def _items(self, tag: str, values: Iterable[Any]) -> None:
        kept = list(values)
        self._put(tag, str(len(kept)))
        for value in kept:
            self.add(value)

    def _set(self, values: Iterable[Any]) -> None:
        """Hash members in an order that is the same in every process."""
        self._put("set", *sorted(fingerprint(value) for value in values))

    def _pairs(self, tag: str, values: Mapping[Any, Any]) -> None:
        self._items(tag, (item for pair in values.items() for item in pair))

    def _object(self, value: Any) -> None:
        """Hash an object by the first row of the table that fits, else as an instance."""
        for kinds, add in _BY_KIND:
            if isinstance(value, kinds):
                add(self, value)
                return
        if type(value).__module__ == "typing":
            self._shown(value)
        else:
            self._instance(value)

    def _shown(self, value: Any) -> None:
        self._put("shown", repr(value))

    def _array(self, value: np.ndarray[Any, Any]) -> None:
        if type(value) not in (np.ndarray, np.memmap):
            raise self._unknown(f"an array of class {type(value).__qualname__}")
        self._put("array", value.dtype.str, repr(value.dtype), str(value.shape))
        self.add(value.tolist() if value.dtype.hasobject else np.ascontiguousarray(value).tobytes())

    def _scalar(self, value: np.generic) -> None:
        self._put("scalar", repr(value.dtype), repr(value.item()))

    def _mapping(self, value: Mapping[Any, Any]) -> None:
        if type(value) in (dict, types.MappingProxyType):
            self._pairs("dict", value)
        else:
            self._instance(value)

    def _collection(self, value: Any) -> None:
        if type(value) in (list, bytearray):
            self._items(type(value).__name__, value)
        elif type(value) is set:
            self._set(value)
        else:
            self._instance(value)

    # --- functions ---------------------------------------------------------------------------------------------------

    def _function(self, function: types.FunctionType) -> None:
        home, name = function.__module__ or "", function.__qualname__
        if self._named("function", function, home, name):
            return
        self._inside.append(function.__name__)
        self._code(function.__code__)
        self._items("defaults", (function.__defaults__, function.__kwdefaults__))
        self._items("closure", function.__closure__ or ())
        self._pairs("members", vars(function))
        for module in imports_of(function.__code__):
            self._import(module, function.__code__)
        for chain in reads_of(function.__code__):
            self._global(function, chain)
        self._inside.pop()

    def _code(self, code: types.CodeType) -> None:
        """Hash everything but file names and line numbers."""
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        table = getattr(code, "co_exceptiontable", b"")
        self._items("code", (code.co_code, table, counts, *names))
        self._items("constants", code.co_consts)

    def _cell(self, cell: types.CellType) -> None:
        try:
            contents = cell.cell_contents
        except ValueError:
            self._put("empty cell")
        else:
            self._items("cell", (contents,))

    def _import(self, module: str, code: types.CodeType) -> None:
        names = [name for part in parts_of(code) for name in part.co_names]
        if not is_trusted_name(module) or not all(is_trusted(module, name) for name in names):
            raise self._unknown(
                f"an import of '{module}' while it runs; import it at the top of the file"
            )
        self._put("import", module)

    def _global(self, function: types.FunctionType, chain: Chain) -> None:
        """Hash what a chain of names refers to: the first value that is not a module."""
        name, *attributes = chain
        spaces = (function.__globals__, vars(builtins))
        value = next((space[name] for space in spaces if name in space), _MISSING)
        while isinstance(value, types.ModuleType) and attributes:
            self._check_member(value, attributes[0])
            value = getattr(value, attributes.pop(0), _MISSING)
        self._put("global", ".".join(chain))
        if value is not _MISSING:
            self.add(value)

    def _check_member(self, module: types.ModuleType, name: str) -> None:
        home = home_of(module)
        if is_outside(home) or (is_trusted_name(home) and not is_trusted(home, name)):
            raise self._unknown(f"{home}.{name}, {_OUTSIDE}")

    def _module(self, module: types.ModuleType) -> None:
        home = home_of(module)
        if not is_trusted_name(home):
            raise self._unknown(f"the module '{home}' as a value")
        self._put("module", home)

    def _named(self, tag: str, value: Any, home: str, name: str) -> bool:
        """Hash the name of a trusted definition and return True. Raise UnknownFingerprintError if it is not trusted."""
        if is_outside(home) or (is_trusted_name(home) and not is_trusted(home, name)):
            raise self._unknown(f"{home}.{name}, {_OUTSIDE}")
        if not is_trusted_name(home) or not is_found(value, home, name):
            return False
        self._put(tag, home, name)
        return True

    def _c_function(self, value: Any) -> None:
        owner = getattr(value, "__self__", None)
        name = getattr(value, "__qualname__", value.__name__)
        if isinstance(value, np.ufunc):
            home = "numpy" if getattr(np, name, None) is value else "another library"
        elif owner is not None and not isinstance(owner, types.ModuleType):
            self._items("bound", (owner, value.__name__))
            return
        else:
            home = getattr(value, "__module__", None) or value.__objclass__.__module__
        if not is_trusted(home, name):
            raise self._unknown(f"{home}.{name}, {_OUTSIDE if is_outside(home) else _MACHINE_CODE}")
        self._put("builtin", home, name)

    # --- classes and instances ---------------------------------------------------------------------------------------

    def _class(self, cls: type) -> None:
        if not cls.__flags__ & _HEAP_TYPE and is_trusted(cls.__module__, cls.__qualname__):
            self._put("class", cls.__module__, cls.__qualname__)
            return
        if self._named("class", cls, cls.__module__, cls.__qualname__):
            return
        self._check_is_python(cls)
        self._inside.append(cls.__name__)
        self._items("class", (cls.__qualname__, type(cls), *cls.__bases__))
        for name in sorted(_defining(cls)):
            self._items("member", (name, vars(cls)[name]))
        self._inside.pop()

    def _check_is_python(self, cls: type) -> None:
        module = sys.modules.get(cls.__module__)
        file = getattr(module, "__file__", None) or ".py"
        if not cls.__flags__ & _HEAP_TYPE or not file.endswith(".py"):
            raise self._unknown(f"the class {cls.__module__}.{cls.__qualname__}, {_MACHINE_CODE}")

    def _instance(self, value: Any) -> None:
        """Hash its name if a trusted module holds it, else its class and state if both are pure Python."""
        cls = type(value)
        home, name = (getattr(value, key, None) for key in ("__module__", "__qualname__"))
        if (
            isinstance(home, str)
            and isinstance(name, str)
            and self._named("named", value, home, name)
        ):
            return
        known = (dict, list, set, frozenset, tuple, str, int, float)
        for base in cls.__mro__:
            if base not in (object, *known) and not _is_generic(base):
                self._check_instance_of(base)
        self._items("instance", (cls,))
        for kind in (dict, list, tuple, str, int, float):
            if isinstance(value, kind):
                plain: Callable[[Any], object] = kind
                self.add(plain(value))
        if isinstance(value, (set, frozenset)):
            self._set(value)
        state = dict(getattr(value, "__dict__", {}))
        for name in (name for base in cls.__mro__ for name in _slots(base)):
            if hasattr(value, name):
                state[name] = getattr(value, name)
        for name in sorted(state):
            self._items("field", (name, state[name]))

    def _check_instance_of(self, cls: type) -> None:
        if is_outside(cls.__module__):
            raise self._unknown(f"an object of {cls.__module__}.{cls.__qualname__}, {_OUTSIDE}")
        if not cls.__flags__ & _HEAP_TYPE:
            raise self._unknown(
                f"an object of {cls.__module__}.{cls.__qualname__}, {_MACHINE_CODE}"
            )


def _is_generic(cls: type) -> bool:
    return cls.__module__ in ("typing", "abc", "collections.abc", "_collections_abc")


def _defining(cls: type) -> set[str]:
    """The members of a class that define its meaning, without those that a decorator or metaclass derives from them."""
    found = vars(cls).keys() - _IGNORED
    if issubclass(cls, Enum):
        return {name for name in found if not name.startswith("_")}
    if "__dataclass_params__" in vars(cls) and hasattr(vars(cls).get("__repr__"), "__wrapped__"):
        found -= {"__repr__"}
    return found


def _slots(cls: type) -> tuple[str, ...]:
    found = vars(cls).get("__slots__", ())
    return (found,) if isinstance(found, str) else tuple(found)


def _parts(tag: str, *names: str) -> Add:
    """Hash a value as the attributes that make it up."""

    def add(digest: _Digest, value: Any) -> None:
        digest._items(tag, (getattr(value, name) for name in names))

    return add


def _text(tag: str, *names: str) -> Add:
    """Hash a value as the texts of attributes."""

    def add(digest: _Digest, value: Any) -> None:
        digest._put(tag, *(str(getattr(value, name)) for name in names))

    return add


_MISSING = object()
_OUTSIDE = "which may give another result in another process"
_MACHINE_CODE = "which is not written in Python"
_C_FUNCTIONS = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, np.ufunc
)  # fmt: skip
_TYPES = (types.UnionType, types.GenericAlias, typing.TypeVar, type(typing.Union[int, str]))

_BY_KIND: tuple[tuple[Any, Add], ...] = (
    (types.FunctionType, _Digest._function),
    (types.CodeType, _Digest._code),
    (types.CellType, _Digest._cell),
    (type, _Digest._class),
    (types.ModuleType, _Digest._module),
    (_C_FUNCTIONS, _Digest._c_function),
    (types.MethodType, _parts("method", "__func__", "__self__")),
    (functools.partial, _parts("partial", "func", "args", "keywords")),
    ((staticmethod, classmethod), _parts("method of a class", "__class__", "__func__")),
    (property, _parts("property", "fget", "fset", "fdel")),
    (functools.cached_property, _parts("cached property", "func")),
    (functools._lru_cache_wrapper, _parts("cached function", "__wrapped__")),
    (np.ndarray, _Digest._array),
    (np.generic, _Digest._scalar),
    (np.dtype, _Digest._shown),
    (Enum, _parts("member", "__class__", "name", "value")),
    ((dict, types.MappingProxyType), _Digest._mapping),
    ((list, bytearray, set), _Digest._collection),
    (re.Pattern, _parts("pattern", "pattern", "flags")),
    (logging.Logger, _text("logger", "name")),  # logging does not affect results
    ((types.MemberDescriptorType, types.GetSetDescriptorType), _text("slot", "__name__")),
    (_TYPES, _Digest._shown),
)
"""Hash functions by kind of object; the first row that matches applies."""
