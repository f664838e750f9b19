"""The metadata of an artifact, as frozen dataclasses and as JSON."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import field, replace
from typing import Any, TypeVar

from ..base.aliases import Alias
from ..base.dims import MOST, Size, Symbol, bounds, evaluate
from ..base.dtypes import DType, by_name
from ..base.errors import UserError
from ..base.records import dataclass
from ..base.size_limits import at_most
from ..base.size_text import parse_size

MAX_BYTES = 1 << 47
"""Largest size in bytes of a tensor or an arena: the address space of a process."""

MAX_LETTERS = 10_000
"""Maximum length of the text of a size."""

_T = TypeVar("_T")


@dataclass(frozen=True, repr=False)
class TensorSpec:
    """Name, element type and shape of a model's input or output.

    A dynamic size is an expression (`base.dims`): `x: f32[N,13]`.
    """

    name: str
    dtype: DType
    shape: tuple[Any, ...]

    @property
    def type_text(self) -> str:
        """The type as graphc writes it: `f32[8,13]`."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def nbytes(self) -> int:
        """Bytes of the dense array. UndecidedSize where sizes are dynamic."""
        return int(math.prod(self.shape) * self.dtype.size)

    def at(
        self, sizes: Mapping[str, int], known: dict[tuple[Any, ...], tuple[int, ...]] | None = None
    ) -> TensorSpec:
        """The same with numbers for dynamic sizes. `known`: shapes evaluated before for these sizes."""
        known = {} if known is None else known
        shape = known.get(self.shape)
        if shape is None:
            shape = known[self.shape] = tuple(evaluate(one, sizes) for one in self.shape)
        return TensorSpec(self.name, self.dtype, shape)

    def __repr__(self) -> str:
        return f"{self.name}: {self.type_text}"


@dataclass(frozen=True)
class Metadata:
    """The description of a compiled model without its bytes.

    `isa` names the row of `targets.isa.ISAS` the code was blocked for, `cpu_features` the LLVM features its
    instructions need (`fma`, `f16c`, ...), `triple` the LLVM target triple ("" = any). `arena_bytes` is the scratch
    memory of one call. `sizes` are the dynamic ones, with their ranges, in the order native code takes
    them. `threads` is the thread count it was compiled for (a hint). `versions` names graphc, llvmlite and LLVM;
    `stats` is what the compiler counted, plain JSON values. `checks`: the last outputs are conditions that must hold,
    else a run raises these messages; callers do not see them. `aliases`: outputs in the memory of inputs; `inputs` and
    `outputs` have the shapes of those buffers. `counts`: sizes that a run counts, each with the largest that it can be
    (of dynamic sizes); their numbers are outputs, the last except for `checks`, which callers do not see either.
    `rooms`: the names of those of `sizes` that are not a size of an input: callers choose how much room such counts
    have.
    `uses_tiles`: the process needs the permission to use tile registers.
    """

    model: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    arena_bytes: Any
    isa: str
    cpu_features: tuple[str, ...] = ()
    triple: str = ""
    threads: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)
    stats: Mapping[str, Any] = field(default_factory=dict)
    model_hash: str = ""
    checks: tuple[str, ...] = ()
    sizes: tuple[Symbol, ...] = ()
    aliases: tuple[Alias, ...] = ()
    counts: tuple[tuple[Symbol, Size], ...] = ()
    rooms: tuple[str, ...] = ()
    uses_tiles: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> tuple[TensorSpec, ...]:
        """The inputs as callers know them: of a buffer that grows, what it holds."""
        return _held(self.inputs, {a.input: (a.axis, a.before) for a in self.aliases if a.grows})

    @property
    def results(self) -> tuple[TensorSpec, ...]:
        """The outputs as callers know them, and those that they do not see."""
        return _held(self.outputs, {a.output: (a.axis, a.after) for a in self.aliases if a.grows})

    @property
    def buffers(self) -> tuple[TensorSpec, ...]:
        """The results with the largest sizes that a run can count: what it must have room for."""
        return self._largest(self.results)

    @property
    def written(self) -> tuple[TensorSpec, ...]:
        """The outputs likewise."""
        return self._largest(self.outputs)

    def _largest(self, specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        most = {symbol.name: limit for symbol, limit in self.counts}
        return tuple(replace(s, shape=tuple(at_most(one, most) for one in s.shape)) for s in specs)

    @property
    def hidden(self) -> int:
        """Return the number of trailing outputs that callers do not see."""
        return len(self.counts) + len(self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the same as plain dicts, lists, strings and numbers."""

        def tensors(specs: tuple[TensorSpec, ...]) -> list[dict[str, Any]]:
            return [
                {"name": s.name, "dtype": s.dtype.name, "shape": list(map(_text, s.shape))}
                for s in specs
            ]

        return {
            "model": self.model,
            "inputs": tensors(self.inputs),
            "outputs": tensors(self.outputs),
            "sizes": [{"name": s.name, "least": s.least, "most": s.most} for s in self.sizes],
            "counts": [
                {"name": s.name, "least": s.least, "most": s.most, "limit": [_text(limit)]}
                for s, limit in self.counts
            ],
            "rooms": list(self.rooms),
            "arena_bytes": _text(self.arena_bytes),
            "isa": self.isa,
            "uses_tiles": self.uses_tiles,
            "cpu_features": list(self.cpu_features),
            "triple": self.triple,
            "threads": self.threads,
            "versions": dict(self.versions),
            "options": dict(self.options),
            "stats": dict(self.stats),
            "model_hash": self.model_hash,
            "checks": list(self.checks),
            "aliases": [
                {
                    "input": a.input,
                    "output": a.output,
                    "axis": a.axis,
                    "sizes": [_text(a.before), _text(a.after)],
                }
                for a in self.aliases
            ],
        }


def metadata_from_json(value: object, where: str) -> Metadata:
    """Read `Metadata` back from JSON. UserError naming the file `where` and the key that is missing or wrong."""
    reader = _Reader(value, where, "header")
    symbols = _symbols(reader)
    counts = _counts(reader, symbols)
    every = symbols | {symbol.name: symbol for symbol, _ in counts}
    return Metadata(
        model=reader.get("model", str),
        inputs=_tensors(reader, "inputs", symbols),
        outputs=_tensors(reader, "outputs", every),
        sizes=tuple(symbols.values()),
        arena_bytes=reader.dynamic_size("arena_bytes", symbols),
        isa=reader.get("isa", str),
        cpu_features=reader.strings("cpu_features"),
        triple=reader.get("triple", str),
        threads=reader.size("threads", 1 << 16),
        versions=reader.get("versions", dict),
        options=reader.get("options", dict, {}),
        stats=reader.get("stats", dict),
        model_hash=reader.get("model_hash", str),
        checks=reader.strings("checks"),
        aliases=_aliases(reader, symbols),
        counts=counts,
        rooms=_rooms(reader, symbols),
        uses_tiles=reader.flag("uses_tiles"),
    )


def _held(
    specs: tuple[TensorSpec, ...], sizes: Mapping[int, tuple[int, Size]]
) -> tuple[TensorSpec, ...]:
    """Specs of buffers with, by number, the size of an axis of what they hold."""
    found = list(specs)
    for number, (axis, value) in sizes.items():
        shape = specs[number].shape
        found[number] = replace(specs[number], shape=(*shape[:axis], value, *shape[axis + 1 :]))
    return tuple(found)


def _aliases(reader: _Reader, symbols: Mapping[str, Symbol]) -> tuple[Alias, ...]:
    """Read the list of outputs that lie in inputs."""
    found = []
    counts = [len(reader.get(key, list)) for key in ("inputs", "outputs")]
    for i, item in enumerate(reader.get("aliases", list)):
        part = _Reader(item, reader.where, f"header aliases[{i}]")
        numbers = [
            part.size(key, n - 1) for key, n in zip(("input", "output"), counts, strict=True)
        ]
        sizes, axis = part.sizes("sizes", symbols), part.get("axis", int)
        rank = len(reader.get("inputs", list)[numbers[0]]["shape"])
        if len(sizes) != 2 or not -1 <= axis < rank:
            raise part.error("there must be an axis and two sizes")
        found.append(Alias(numbers[0], numbers[1], axis, *sizes))
    return tuple(found)


def _text(size: Size) -> int | str:
    return size if isinstance(size, int) else str(size)


def _counts(reader: _Reader, symbols: Mapping[str, Symbol]) -> tuple[tuple[Symbol, Size], ...]:
    """The sizes that a run counts, and the largest that each can be."""
    found: dict[str, tuple[Symbol, Size]] = {}
    for i, item in enumerate(reader.get("counts", list)):
        part = _Reader(item, reader.where, f"header counts[{i}]")
        limits = part.sizes("limit", symbols)
        if len(limits) != 1:
            raise part.error("there must be one limit")
        symbol = _new_symbol(part, [*symbols, *found])
        found[symbol.name] = (symbol, limits[0])
    return tuple(found.values())


def _rooms(reader: _Reader, symbols: Mapping[str, Symbol]) -> tuple[str, ...]:
    """The sizes that callers choose."""
    names = reader.strings("rooms")
    if not set(names) <= set(symbols):
        raise reader.error("'rooms' must name sizes of the model")
    return names


def _symbols(reader: _Reader) -> dict[str, Symbol]:
    """The dynamic sizes by name."""
    found: dict[str, Symbol] = {}
    for i, item in enumerate(reader.get("sizes", list)):
        symbol = _new_symbol(_Reader(item, reader.where, f"header sizes[{i}]"), found)
        found[symbol.name] = symbol
    return found


def _new_symbol(part: _Reader, known: Collection[str]) -> Symbol:
    """The size that an object describes, with a name that no other has."""
    ends = part.size("least", MOST), part.size("most", MOST)
    try:
        symbol = Symbol(part.get("name", str), *ends)
    except UserError as error:
        raise part.error(str(error)) from error
    if symbol.name in known:
        raise part.error(f"names of sizes must differ, got '{symbol.name}' twice")
    return symbol


def _tensors(reader: _Reader, key: str, symbols: Mapping[str, Symbol]) -> tuple[TensorSpec, ...]:
    specs = []
    for i, item in enumerate(reader.get(key, list)):
        part = _Reader(item, reader.where, f"header {key}[{i}]")
        try:
            dtype = by_name(part.get("dtype", str))
        except UserError as error:
            raise part.error(str(error)) from error
        dims = part.sizes("shape", symbols)
        spec = TensorSpec(part.get("name", str), dtype, dims)
        if math.prod(max(bounds(d)[0], 1) for d in dims) * dtype.size > MAX_BYTES:
            raise part.error(f"a tensor must have at most {MAX_BYTES} bytes, got {spec.type_text}")
        specs.append(spec)
    names = [spec.name for spec in specs]
    if len(set(names)) != len(names):
        raise UserError(f"{reader.where}: header {key}: names must differ, got {', '.join(names)}")
    return tuple(specs)


class _Reader:
    """Typed lookups in a JSON object; every failure names the file, the enclosing object and the key."""

    def __init__(self, value: object, where: str, location: str) -> None:
        if not isinstance(value, dict):
            raise UserError(
                f"{where}: {location} must be a JSON object, got {type(value).__name__}"
            )
        self._value = value
        self.where = where
        self._location = location

    def get(self, key: str, kind: type[_T], default: _T | None = None) -> _T:
        if key not in self._value:
            if default is not None:
                return default
            raise UserError(f"{self.where}: {self._location} must have the key '{key}'")
        value = self._value[key]
        # bool is an int in Python; no key here holds one.
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self._wrong(key, f"a {kind.__name__}", value)
        return value

    def flag(self, key: str) -> bool:
        """Return a boolean, False where the key is missing."""
        value = self._value.get(key, False)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false", value)
        return value

    def size(self, key: str, most: int) -> int:
        value = self.get(key, int)
        if not 0 <= value <= most:
            raise self._wrong(key, f"from 0 to {most}", value)
        return value

    def dynamic_size(self, key: str, symbols: Mapping[str, Symbol]) -> Size:
        """A number, or a text that is an expression of `symbols`."""
        text = self._value.get(key)
        if symbols and isinstance(text, str):
            return self.parsed(key, [text], symbols)[0]
        return self.size(key, MAX_BYTES)

    def sizes(self, key: str, symbols: Mapping[str, Symbol]) -> tuple[Size, ...]:
        """A list of them."""
        return self.parsed(key, self.get(key, list), symbols)

    def parsed(
        self, key: str, values: list[Any], symbols: Mapping[str, Symbol]
    ) -> tuple[Size, ...]:
        """The sizes that `values` are."""
        # Multiplying many big sizes would give a huge integer: bound their number first.
        texts = [v for v in values if type(v) is str and len(v) <= MAX_LETTERS]
        numbers = [v for v in values if type(v) is int and 0 <= v <= MAX_BYTES]
        if len(values) > 64 or len(texts) + len(numbers) < len(values):
            raise self._wrong(key, f"at most 64 sizes from 0 to {MAX_BYTES}", values)
        try:
            return tuple(parse_size(v, symbols) if isinstance(v, str) else int(v) for v in values)
        except (KeyError, ValueError):
            raise self._wrong(key, "expressions of the model's sizes", values) from None

    def strings(self, key: str) -> tuple[str, ...]:
        values = self.get(key, list)
        if not all(isinstance(v, str) for v in values):
            raise self._wrong(key, "a list of strings", values)
        return tuple(values)

    def error(self, text: str) -> UserError:
        return UserError(f"{self.where}: {self._location}: {text}")

    def _wrong(self, key: str, expected: str, value: object) -> UserError:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return UserError(f"{self.where}: {self._location} '{key}' must be {expected}, got {shown}")
