"""The metadata of an artifact, as frozen dataclasses and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..base.dtypes import DType, by_name
from ..base.errors import UserError

MAX_BYTES = 1 << 47
"""Largest size in bytes of a tensor or an arena: the address space of a process."""

_T = TypeVar("_T")


@dataclass(frozen=True, repr=False)
class TensorSpec:
    """Name, element type and shape of a model's input or output."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    @property
    def type_text(self) -> str:
        """The type as graphc writes it: `f32[8,13]`."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def nbytes(self) -> int:
        """Bytes of the dense array."""
        return math.prod(self.shape) * self.dtype.size

    def __repr__(self) -> str:
        return f"{self.name}: {self.type_text}"


@dataclass(frozen=True)
class Metadata:
    """Everything about a compiled model except its bytes.

    `isa` names the row of `target.ISA_TABLES` the code was blocked for, `cpu_features` the LLVM features its
    instructions need (`avx2`, `fma`, ...), `triple` the LLVM target triple ("" = any). `arena_bytes` is the scratch
    memory of one call. `threads` is the thread count it was compiled for (a hint). `versions` names graphc, llvmlite
    and LLVM; `stats` is what the compiler counted, plain JSON values. `checks`: the last outputs are conditions that
    must hold, else a run raises these messages; callers do not see them.
    """

    model: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    arena_bytes: int
    isa: str
    cpu_features: tuple[str, ...] = ()
    triple: str = ""
    threads: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)
    stats: Mapping[str, Any] = field(default_factory=dict)
    model_hash: str = ""
    checks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the same as plain dicts, lists, strings and numbers."""

        def tensors(specs: tuple[TensorSpec, ...]) -> list[dict[str, Any]]:
            return [{"name": s.name, "dtype": s.dtype.name, "shape": list(s.shape)} for s in specs]

        return {
            "model": self.model,
            "inputs": tensors(self.inputs),
            "outputs": tensors(self.outputs),
            "arena_bytes": self.arena_bytes,
            "isa": self.isa,
            "cpu_features": list(self.cpu_features),
            "triple": self.triple,
            "threads": self.threads,
            "versions": dict(self.versions),
            "stats": dict(self.stats),
            "model_hash": self.model_hash,
            "checks": list(self.checks),
        }


def metadata_from_json(value: object, where: str) -> Metadata:
    """Read `Metadata` back from JSON. UserError naming the file `where` and the key that is missing or wrong."""
    reader = _Reader(value, where, "header")
    return Metadata(
        model=reader.get("model", str),
        inputs=_tensors(reader, "inputs"),
        outputs=_tensors(reader, "outputs"),
        arena_bytes=reader.size("arena_bytes", MAX_BYTES),
        isa=reader.get("isa", str),
        cpu_features=reader.strings("cpu_features"),
        triple=reader.get("triple", str),
        threads=reader.size("threads", 1 << 16),
        versions=reader.get("versions", dict),
        stats=reader.get("stats", dict),
        model_hash=reader.get("model_hash", str),
        checks=reader.strings("checks"),
    )


def _tensors(reader: _Reader, key: str) -> tuple[TensorSpec, ...]:
    specs = []
    for i, item in enumerate(reader.get(key, list)):
        part = _Reader(item, reader.where, f"header {key}[{i}]")
        try:
            dtype = by_name(part.get("dtype", str))
        except UserError as error:
            raise UserError(f"{reader.where}: header {key}[{i}]: {error}") from error
        dims = part.sizes("shape")
        spec = TensorSpec(part.get("name", str), dtype, dims)
        if math.prod(d or 1 for d in dims) * dtype.size > MAX_BYTES:
            raise UserError(
                f"{reader.where}: header {key}[{i}]: {spec.type_text} has too many bytes"
            )
        specs.append(spec)
    names = [spec.name for spec in specs]
    if len(set(names)) != len(names):
        raise UserError(f"{reader.where}: header {key}: names must differ, got {', '.join(names)}")
    return tuple(specs)


class _Reader:
    """Typed lookups in a JSON object; every failure names the file, the enclosing object and the key."""

    def __init__(self, value: object, where: str, place: str) -> None:
        if not isinstance(value, dict):
            raise UserError(f"{where}: {place} must be a JSON object, got {type(value).__name__}")
        self._value = value
        self.where = where
        self._place = place

    def get(self, key: str, kind: type[_T]) -> _T:
        if key not in self._value:
            raise UserError(f"{self.where}: {self._place} lacks the key '{key}'")
        value = self._value[key]
        # bool is an int in Python; no key here holds one.
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self._wrong(key, f"a {kind.__name__}", value)
        return value

    def size(self, key: str, most: int) -> int:
        value = self.get(key, int)
        if not 0 <= value <= most:
            raise self._wrong(key, f"from 0 to {most}", value)
        return value

    def sizes(self, key: str) -> tuple[int, ...]:
        values = self.get(key, list)
        # The product of many big sizes would be a huge integer: bound their number first.
        if len(values) > 64 or not all(type(v) is int and 0 <= v <= MAX_BYTES for v in values):
            raise self._wrong(key, f"at most 64 sizes from 0 to {MAX_BYTES}", values)
        return tuple(values)

    def strings(self, key: str) -> tuple[str, ...]:
        values = self.get(key, list)
        if not all(isinstance(v, str) for v in values):
            raise self._wrong(key, "a list of strings", values)
        return tuple(values)

    def _wrong(self, key: str, expected: str, value: object) -> UserError:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return UserError(f"{self.where}: {self._place} '{key}' must be {expected}, got {shown}")
