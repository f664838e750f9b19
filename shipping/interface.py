"""The C functions of a library as LLVM IR: they check arguments, choose the code for the CPU and describe the model.

They are compiled for every CPU of the machine; the code of the model is in other objects. `header.py` declares them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..base.dims import Dim, Size
from ..base.size_queries import lone_symbol
from ..codegen.llvm_emitter import FunctionEmitter
from ..codegen.module import size_function
from ..runtime.abi import ABI_VERSION, ALIGNMENT, ARENA_NAME, ENTRY_NAME
from ..runtime.metadata import TensorSpec
from ..targets.isa import Target
from ..tensor_ir.expressions import SIZE_PREFIX, size_expr
from ..tensor_ir.nodes import Module
from .interface_text import CHECKS, RUN, TABLE_FIELDS
from .statuses import CODES, STATUSES
from .variants import SELECT, Variant, selection
from .weights import WeightsFile

FUNCTIONS = ("info", "error", "arena_bytes", "input_bytes", "output_bytes", "weights", "run")
"""The functions of every library, without the prefix."""

POOL_FUNCTIONS = ("pool_create", "pool_destroy")


def code_name(variant: int, name: str) -> str:
    """Return the name in a library of a function of a variant's code."""
    return f"code{variant}.{name}"


def weights_name(artifact: int) -> str:
    """Return the name in a library of the weights of an artifact."""
    return f"weights{artifact}"


def interface_text(
    prefix: str, variants: Sequence[Variant], files: Sequence[WeightsFile], target: Target
) -> str:
    """Return the LLVM IR of the functions of a library.

    Args:
        prefix: begins the name of every function.
        variants: the code to choose from, the preferred one first; `code_name` is the name of its functions.
        files: the weights of each artifact; without files, the constants `weights_name` hold them.
        target: any CPU of the machine.
    """
    return "\n".join(
        (
            *_Interface(prefix, variants, files, target).parts(),
            selection(variants, target),
            "attributes #0 = { nounwind uwtable }\n",
        )
    )


class _Interface:
    def __init__(
        self,
        prefix: str,
        variants: Sequence[Variant],
        files: Sequence[WeightsFile],
        target: Target,
    ) -> None:
        self._prefix, self._variants, self._files = prefix, variants, files
        self._meta = variants[0].artifact.metadata
        self._emitter = FunctionEmitter(Module(()), target)
        self._texts: dict[str, str] = {}

    def parts(self) -> Iterator[str]:
        """Yield the text of tables and functions, declarations and strings last."""
        meta, functions = self._meta, list(self._sizes())
        yield from self._tensors("inputs", meta.arguments)
        yield from self._tensors("outputs", meta.buffers)
        yield self._dims()
        for number, variant in enumerate(self._variants):
            yield self._table(number, variant)
        yield self._info_of("none", None)
        yield from functions
        yield self._described()
        yield CHECKS
        yield self._run()
        yield from self._declarations()
        yield from self._texts.values()

    def _text(self, text: str) -> str:
        """The address of a string."""
        data = text.encode(errors="replace") + b"\0"
        shown = "".join(f"\\{byte:02X}" for byte in data)
        name = f"@text.{len(self._texts)}"
        line = f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{shown}"\n'
        return self._texts.setdefault(text, line).partition(" ")[0]

    def _tensors(self, name: str, specs: Sequence[TensorSpec]) -> Iterator[str]:
        """The descriptions of tensors, and the masks of the low bits of addresses that must be 0."""
        rows = []
        for number, spec in enumerate(specs):
            extents = [size if isinstance(size, int) else -1 for size in spec.shape]
            yield _numbers(f"{name}.{number}", extents)
            shape = ",".join(map(str, spec.shape))
            texts = (self._text(text) for text in (spec.name, spec.dtype.name, shape))
            fields = ", ".join(f"ptr {text}" for text in texts)
            dims = f"ptr @{name}.{number}"
            rows.append(f"{{ ptr, ptr, ptr, i64, ptr }} {{ {fields}, i64 {len(extents)}, {dims} }}")
        kind = f"[{len(rows)} x {{ ptr, ptr, ptr, i64, ptr }}]"
        yield f"@{name} = internal constant {kind} [{', '.join(rows)}]\n"
        yield _numbers(f"{name}.masks", [spec.dtype.size - 1 for spec in specs])

    def _dims(self) -> str:
        rows = [
            f"{{ ptr, i64, i64 }} {{ ptr {self._text(s.name)}, i64 {s.least}, i64 {s.most} }}"
            for s in self._meta.sizes
        ]
        return (
            f"@dims = internal constant [{len(rows)} x {{ ptr, i64, i64 }}] [{', '.join(rows)}]\n"
        )

    def _table(self, number: int, variant: Variant) -> str:
        """The table of a variant: what `TABLE_FIELDS` lists."""
        artifact = variant.artifact
        size = artifact.constants.nbytes
        head, fields = "null", {"head_bytes": 0, "file_bytes": 0, "data_at": 0}
        weights = f"@{weights_name(variant.number)}" if size else "null"
        lines = [self._info_of(str(number), variant)]
        if self._files:
            file, weights, head = self._files[variant.number], "null", f"@head.{number}"
            data = "".join(f"\\{byte:02X}" for byte in file.head)
            lines.append(f'{head} = internal constant [{len(file.head)} x i8] c"{data}"\n')
            fields = {"head_bytes": len(file.head), "file_bytes": file.size, "data_at": file.begin}
        entry, arena = (code_name(number, name) for name in (ENTRY_NAME, ARENA_NAME))
        values = {
            "entry": f"ptr @{entry}", "arena": f"ptr @{arena}", "weights": f"ptr {weights}",
            "info": f"ptr @info.{number}", "head": f"ptr {head}", "weights_bytes": f"i64 {size}",
            **{name: f"i64 {value}" for name, value in fields.items()},
        }  # fmt: skip
        kinds = ", ".join(TABLE_FIELDS.values())
        row = ", ".join(values[name] for name in TABLE_FIELDS)
        lines.append(f"@table.{number} = internal constant {{ {kinds} }} {{ {row} }}\n")
        return "".join(lines)

    def _info_of(self, name: str, variant: Variant | None) -> str:
        """The description of the model with one of its variants."""
        meta = self._meta
        isas = " ".join(dict.fromkeys(one.isa for one in self._variants))
        file = self._files[variant.number].name if self._files and variant else ""
        isa = variant.isa if variant else ""
        texts = (
            meta.model, meta.model_hash, meta.versions.get("graphc", ""), isas, isa, file,
        )  # fmt: skip
        counts = (len(meta.arguments), len(meta.outputs), len(meta.sizes))
        size = variant.artifact.constants.nbytes if variant else 0
        fields = [f"ptr {self._text(text)}" for text in texts]
        fields += [f"i64 {ABI_VERSION}", f"i64 {size}"]
        for label, count in zip(("inputs", "outputs", "dims"), counts, strict=True):
            fields += [f"i64 {count}", f"ptr @{label}"]
        kinds = ", ".join(field.partition(" ")[0] for field in fields)
        return f"@info.{name} = internal constant {{ {kinds} }} {{ {', '.join(fields)} }}\n"

    def _sizes(self) -> Iterator[str]:
        """The functions that return the bytes of an input or output."""
        meta = self._meta
        names = [SIZE_PREFIX + symbol.name for symbol in meta.sizes]
        for label, specs in (("input", meta.inputs), ("output", meta.written)):
            cases = []
            for number, spec in enumerate(specs):
                size: Size = math.prod(spec.shape) * spec.dtype.size
                value = size_expr(size) if isinstance(size, Dim) else size
                name = f"bytes.{label}.{number}"
                yield size_function(name, names, value, self._emitter, "internal")
                cases.append((number, name))
            head = f"define i64 @{self._prefix}_{label}_bytes(i64 %index, ptr %dims) #0 {{\n"
            labels = " ".join(f"i64 {number}, label %case.{number}" for number, _ in cases)
            switch = f"  switch i64 %index, label %none [ {labels} ]\n"
            bodies = [
                f"case.{number}:\n  %size.{number} = call i64 @{name}(ptr %dims)\n"
                f"  ret i64 %size.{number}\n"
                for number, name in cases
            ]
            checked = (
                "  %valid = call i1 @dims_valid(ptr %dims)\n"
                "  br i1 %valid, label %look, label %bad_dims\nlook:\n"
            )
            last = (
                f"bad_dims:\n  ret i64 {CODES['ERROR_DIMS']}\n"
                f"none:\n  ret i64 {CODES[f'ERROR_{label.upper()}']}\n}}\n"
            )
            yield "".join((head, checked, switch, *bodies, last))

    def _described(self) -> str:
        """The text of a status."""
        head = f"define ptr @{self._prefix}_error(i32 %status) #0 {{\n"
        texts = [(status.code, status.text) for status in STATUSES]
        least = CODES["ERROR_CONDITION"]
        texts += [(least - i, text) for i, text in enumerate(self._meta.checks)]
        cases = " ".join(f"i32 {code}, label %case.{i}" for i, (code, _) in enumerate(texts) if i)
        switch = f"  switch i32 %status, label %other [ i32 0, label %case.0 {cases} ]\n"
        known = dict(texts)  # a model's conditions replace the general text
        bodies = [
            f"case.{i}:\n  ret ptr {self._text(known[code])}\n" for i, (code, _) in enumerate(texts)
        ]
        other = self._text("the run was stopped")
        return "".join((head, switch, *bodies, f"other:\n  ret ptr {other}\n}}\n"))

    def _run(self) -> str:
        """The call of the model, and the functions beside it that need no loop over tensors."""
        meta, counts = self._meta, []
        first = len(meta.outputs) - meta.hidden
        for number, (_, limit) in enumerate(meta.counts, first):
            room = lone_symbol(limit)
            names = [symbol.name for symbol in meta.sizes]
            if room is not None and room.name in names:
                counts.append(_room_check(number, names.index(room.name)))
        conditions = [
            _condition_check(len(meta.outputs) - len(meta.checks) + i, i)
            for i in range(len(meta.checks))
        ]
        values: dict[str, object] = {
            "PREFIX": self._prefix, "SELECT": SELECT, "INPUTS": len(meta.inputs), "OUTPUTS": len(meta.outputs),
            "DIMS": len(meta.sizes), "MASK": ALIGNMENT - 1,
            "ALIASES": "".join(_alias_check(i, a.input, a.output) for i, a in enumerate(meta.aliases)),
            "COUNTS": "".join(counts), "CONDITIONS": "".join(conditions), **CODES,
        }  # fmt: skip
        return RUN.substitute(values)

    def _declarations(self) -> Iterator[str]:
        for number in range(len(self._variants)):
            yield f"declare hidden i32 @{code_name(number, ENTRY_NAME)}(ptr, ptr, ptr, ptr, ptr, ptr)"
            yield f"declare hidden i64 @{code_name(number, ARENA_NAME)}(ptr)"
        if not self._files:
            for number in sorted({v.number for v in self._variants if v.artifact.constants.nbytes}):
                constant = f"external hidden constant [0 x i8], align {ALIGNMENT}"
                yield f"@{weights_name(number)} = {constant}"


def _numbers(name: str, values: Sequence[int]) -> str:
    rows = ", ".join(f"i64 {value}" for value in values)
    return f"@{name} = internal constant [{len(values)} x i64] [{rows}]\n"


def _alias_check(number: int, source: int, target: int) -> str:
    """An output that shares the memory of an input has its address."""
    i = f"alias.{number}"
    return f"""\
  %{i}.in.at = getelementptr ptr, ptr %inputs, i64 {source}
  %{i}.out.at = getelementptr ptr, ptr %outputs, i64 {target}
  %{i}.in = load ptr, ptr %{i}.in.at
  %{i}.out = load ptr, ptr %{i}.out.at
  %{i}.same = icmp eq ptr %{i}.in, %{i}.out
  br i1 %{i}.same, label %{i}, label %bad_output
{i}:
"""


def _room_check(output: int, dim: int) -> str:
    """A count in an output is at most a dimension."""
    i = f"room.{output}"
    return f"""\
  %{i}.at = getelementptr ptr, ptr %outputs, i64 {output}
  %{i}.count.at = load ptr, ptr %{i}.at
  %{i}.count = load i64, ptr %{i}.count.at
  %{i}.dim.at = getelementptr i64, ptr %dims, i64 {dim}
  %{i}.dim = load i64, ptr %{i}.dim.at
  %{i}.fits = icmp sle i64 %{i}.count, %{i}.dim
  br i1 %{i}.fits, label %{i}, label %bad_room
{i}:
"""


def _condition_check(output: int, number: int) -> str:
    """All bytes of an output are 1."""
    i, code = f"condition.{number}", CODES["ERROR_CONDITION"] - number
    return f"""\
  %{i}.at = getelementptr ptr, ptr %outputs, i64 {output}
  %{i}.data = load ptr, ptr %{i}.at
  %{i}.size = call i64 @bytes.output.{output}(ptr %dims)
  %{i}.all = call i1 @all_set(ptr %{i}.data, i64 %{i}.size)
  br i1 %{i}.all, label %{i}, label %{i}.broken
{i}.broken:
  ret i32 {code}
{i}:
"""
