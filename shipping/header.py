"""The C and C++ header of a library, from the metadata of its model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..base.dims import MOST
from ..base.dtypes import DType
from ..base.printable import printable
from ..base.symbols import Symbol
from ..base.version import __version__
from ..runtime.artifact import Artifact
from ..runtime.metadata import Metadata, TensorSpec
from .header_text import HEADER, POOL
from .names import identifiers
from .statuses import STATUSES

_C_TYPES = {
    "f64": "double", "f32": "float", "f16": "uint16_t", "bf16": "uint16_t", "bool": "uint8_t",
    **{f"s{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""C types of elements; of all others, their bytes."""


def c_type(dtype: DType) -> str:
    """Return the C type of an element; 16-bit floats and smaller ones are given as their bits."""
    return _C_TYPES.get(dtype.name, "uint8_t")


def header_text(
    prefix: str, artifacts: Sequence[Artifact], weights: Sequence[str] = (), pool: bool = False
) -> str:
    """Return the header of a library.

    Args:
        prefix: begins every name.
        artifacts: of one model, for different CPUs.
        weights: names of the files with the weights of each artifact, if they are not in the library.
        pool: whether the library has a thread pool.
    """
    meta = artifacts[0].metadata
    names = {"PREFIX": prefix, "UPPER": prefix.upper(), "GUARD": f"{prefix.upper()}_H"}
    statuses = ",\n".join(
        f"    {names['UPPER']}_{s.name} = {s.code} /**< {s.text} */" for s in STATUSES
    )
    return HEADER.substitute(
        names,
        ABOUT="\n".join(f" * {_safe(line)}".rstrip() for line in _about(artifacts, weights)),
        STATUSES=statuses,
        INPUTS=_pointers(_input_notes(meta), "const "),
        OUTPUTS=_pointers(_output_notes(meta), ""),
        DIMS=_dims(meta.sizes),
        CONDITIONS=_conditions(meta),
        WEIGHTS=_weights_note(weights),
        POOL=POOL.substitute(names) if pool else "",
    )


def field_names(specs: Sequence[TensorSpec]) -> list[str]:
    """Return the names of tensors as fields of a struct."""
    return identifiers(spec.name for spec in specs)


def dim_names(symbols: Sequence[Symbol]) -> list[str]:
    """Return the names of dynamic dimensions as fields of a struct."""
    return identifiers(symbol.name for symbol in symbols)


def _about(artifacts: Sequence[Artifact], weights: Sequence[str]) -> Iterator[str]:
    meta = artifacts[0].metadata
    yield f"Model '{meta.model}', compiled by graphc {__version__}."
    yield ""
    isas = ", ".join(dict.fromkeys(artifact.metadata.isa for artifact in artifacts))
    yield f"Instruction sets: {isas}."
    for artifact in artifacts:
        yield f"    {artifact.metadata.isa}: {' '.join(artifact.metadata.cpu_features) or 'any CPU'}"
    for number, artifact in enumerate(artifacts):
        where = f" in {weights[number]}" if weights else ""
        sizes = f"arena {artifact.metadata.arena_bytes}, weights {artifact.constants.nbytes}{where}"
        yield f"Bytes ({artifact.metadata.isa}): {sizes}."
    for label, specs in (("Inputs", meta.arguments), ("Outputs", meta.results)):
        yield f"{label}: {', '.join(map(repr, specs)) or 'none'}."


def _input_notes(meta: Metadata) -> Iterator[tuple[TensorSpec, str]]:
    grows = {alias.input: alias for alias in meta.aliases}
    for number, (spec, held) in enumerate(zip(meta.inputs, meta.arguments, strict=True)):
        note = f"`{spec.name}`, {spec.type_text}"
        if number in grows and grows[number].grows:
            note += f": a buffer whose first rows, {held.type_text}, are the input"
        yield spec, note + (". Written: an output shares its memory" if number in grows else "")


def _output_notes(meta: Metadata) -> Iterator[tuple[TensorSpec, str]]:
    aliases = {alias.output: alias for alias in meta.aliases}
    first = len(meta.outputs) - meta.hidden
    for number, (spec, held) in enumerate(zip(meta.written, meta.results, strict=True)):
        note = f"`{spec.name}`, {spec.type_text}"
        if number in aliases:
            source = meta.inputs[aliases[number].input].name
            note += f": the same pointer as input `{source}`"
            if aliases[number].grows:
                note += f", whose first rows, {held.type_text}, are the output then"
        elif number >= len(meta.outputs) - len(meta.checks):
            note += ": a condition that the run checks"
        elif number >= first:
            symbol, limit = meta.counts[number - first]
            note += (
                f": the run writes the size `{symbol.name}`, which the data decide; at most {limit}"
            )
        elif held.shape != spec.shape:
            note += f": room for the result, {held.type_text}"
        yield spec, note


def _pointers(fields: Iterator[tuple[TensorSpec, str]], qualifier: str) -> str:
    rows = list(fields)
    names = field_names([spec for spec, _ in rows])
    lines = [
        f"    {qualifier}{c_type(spec.dtype)} *{name}; /**< {_safe(note)}. */"
        for (spec, note), name in zip(rows, names, strict=True)
    ]
    return "\n".join(lines) or "    const void *unused; /**< There is none. */"


def _dims(symbols: Sequence[Symbol]) -> str:
    lines = []
    for symbol, name in zip(symbols, dim_names(symbols), strict=True):
        high = f" to {symbol.most}" if symbol.most < MOST else " or more"
        lines.append(f"    int64_t {name}; /**< `{_safe(symbol.name)}`: {symbol.least}{high}. */")
    return "\n".join(lines) or "    int64_t unused; /**< There is none: pass a null pointer. */"


def _conditions(meta: Metadata) -> str:
    if not meta.checks:
        return ""
    lines = "".join(f"\n *   {-8 - i}: {_safe(text)}" for i, text in enumerate(meta.checks))
    return f"\n *\n * Conditions that are checked, by their status:{lines}"


def _weights_note(weights: Sequence[str]) -> str:
    if weights:
        names = " or ".join(weights)
        return f"what the function below finds in the file {names}, mapped or read to an address that 64 divides"
    return "null: the library holds them"


def _safe(text: str) -> str:
    """Text of a comment, with names from a model: it neither ends nor begins one, and continues no line."""
    return printable(text).replace("\\", "/").replace("*/", "* /").replace("/*", "/ *")
