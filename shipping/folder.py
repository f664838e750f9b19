"""The folder of a native library: weights in a file, both kinds of libraries, examples, and files for build systems."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.dims import evaluate
from ..base.version import __version__
from ..runtime.artifact import Artifact
from ..runtime.metadata import Metadata
from .folder_text import CMAKE, EXAMPLE_C, EXAMPLE_CPP, PKG_CONFIG
from .header import c_type, dim_names, field_names
from .names import identifier

_SHOWN = 4
"""Elements of each output that an example prints."""


def folder_texts(prefix: str, artifacts: Sequence[Artifact], pool: bool) -> dict[str, str]:
    """Return the text files of a folder by their names, the header aside."""
    meta = artifacts[0].metadata
    values = _Example(prefix, meta, pool).values()
    templates = {
        "example.c": EXAMPLE_C, "example.cpp": EXAMPLE_CPP, "CMakeLists.txt": CMAKE, f"{prefix}.pc": PKG_CONFIG,
    }  # fmt: skip
    return {name: template.substitute(values) for name, template in templates.items()}


class _Example:
    """The parts of a program that runs a model once."""

    def __init__(self, prefix: str, meta: Metadata, pool: bool) -> None:
        self._prefix, self._meta, self._pool = prefix, meta, pool

    def values(self) -> dict[str, str]:
        """The text of each part, by its name in the templates."""
        prefix, meta = self._prefix, self._meta
        inputs, outputs = field_names(meta.inputs), field_names(meta.written)
        shared = {alias.output: inputs[alias.input] for alias in meta.aliases}
        sized = "&dims" if meta.sizes else "NULL"
        lines_in = [
            f"    inputs.{name} = allocate({prefix}_input_bytes({number}, {sized}));"
            for number, name in enumerate(inputs)
        ]
        lines_out = [
            f"    outputs.{name} = ({c_type(spec.dtype)} *)inputs.{shared[number]};"
            if number in shared
            else f"    outputs.{name} = allocate({prefix}_output_bytes({number}, {sized}));"
            for number, (name, spec) in enumerate(zip(outputs, meta.written, strict=True))
        ]
        memory = [f"inputs.{name}" for name in inputs]
        memory += [f"outputs.{name}" for i, name in enumerate(outputs) if i not in shared]
        return {
            "PREFIX": prefix,
            "UPPER": prefix.upper(),
            "VERSION": __version__,
            "MODEL": identifier(meta.model),
            "DIMS": self._dims(),
            "SIZED": sized,
            "INPUTS": "\n".join(lines_in),
            "OUTPUTS": "\n".join(lines_out),
            "CPP_INPUTS": self._memory("input", inputs, {}),
            "CPP_OUTPUTS": self._memory("output", outputs, shared),
            "RELEASES": "\n".join(f"    release({name});" for name in (*memory, "arena", "file")),
            "PRINTS": "\n".join(self._prints(outputs)),
            "POOL": f"{prefix}_pool_create(2)" if self._pool else "NULL",
            "END": f"    {prefix}_pool_destroy(pool);\n" if self._pool else "",
        }

    def _dims(self) -> str:
        sizes = self._meta.sizes
        if not sizes:
            return ""
        lines = [f"    {self._prefix}_dims_t dims;"]
        for name, symbol in zip(dim_names(sizes), sizes, strict=True):
            value = min(max(symbol.least, 1), symbol.most)
            lines.append(f"    dims.{name} = {value};")
        return "\n".join(lines) + "\n"

    def _memory(self, label: str, names: Sequence[str], shared: dict[int, str]) -> str:
        sized = "&dims" if self._meta.sizes else "nullptr"
        specs = self._meta.inputs if label == "input" else self._meta.written
        lines = []
        for number, (name, spec) in enumerate(zip(names, specs, strict=True)):
            kind = c_type(spec.dtype)
            if number in shared:
                lines.append(f"    outputs.{name} = const_cast<{kind} *>(inputs.{shared[number]});")
                continue
            lines.append(
                f"    Memory {label}{number}({self._prefix}_{label}_bytes({number}, {sized}));"
            )
            lines.append(f"    {label}s.{name} = static_cast<{kind} *>({label}{number}.data);")
        return "\n".join(lines)

    def _prints(self, names: Sequence[str]) -> list[str]:
        """Lines that print the first elements of each output."""
        meta = self._meta
        values = {symbol.name: min(max(symbol.least, 1), symbol.most) for symbol in meta.sizes}
        lines = []
        for number, (name, spec) in enumerate(zip(names, meta.written, strict=True)):
            if number >= len(meta.outputs) - meta.hidden:
                break
            count = 1
            for size in spec.shape:
                count *= evaluate(size, values)
            lines.append(f'    printf("{name}:");')
            lines.append(
                f"    for (int i = 0; i < {min(count, _SHOWN)}; i++) "
                f'printf(" %g", (double)outputs.{name}[i]);'
            )
            lines.append('    printf("\\n");')
        return lines
