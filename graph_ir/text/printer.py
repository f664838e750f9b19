"""The one printer of the Graph IR: the GE readable dump, with the dtype, shape and format of every value after it.

    graph("mlp"):
      %x : [#users=1] = Node[type=input] () -> f32[8,128]
      %w : [#users=1] = Node[type=constant] (attrs = {value: [0.5 1.0 1.5 ... 2.0 2.5 3.0]}) -> f32[64,128]{MK16m16k}
      %fc1 : [#users=1] = Node[type=matmul_core] (inputs = (a=%x, b=%w), attrs = {transpose_b: true}) -> f32[8,64]

      return (y=%fc1)

`#users` counts the outputs of the op, as in GE; an op with several outputs is followed by one `get_element` line each,
and `return` gives the names the caller knows the results by. Annotated text adds to GE's grammar: exact numbers, quoted
names and escaped strings where the plain ones would be ambiguous, `none`, layouts and tensor types as attribute values,
sizes that are known at run time (`f32[N=1..512,13]`, `{<2*N>, 64}`), attributes of the graph after its name,
and the schedule of an op that is a kernel (`schedule = "gemm mr=4 nv=3"`).
Attributes called `temp.` something are not printed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ...base.dims import Dim, Size, Symbol, symbols_of
from ...base.dtypes import BF16, DType, from_numpy
from ...base.records import dataclass
from ..ir.format import Format, parse_format
from ..ir.graph import Graph, GraphTensor, Op, subgraphs_of
from ..ir.logical_tensor import LogicalTensor
from .element_text import print_elements

SIZES = "sizes"
"""The attribute of a graph's line with the ranges of sizes that are first printed in an expression."""

SHOWN = 6
"""Maximum number of elements of a constant that is printed in full."""

_PLAIN_NAME = re.compile(r'[^\s,()\[\]{}"=%]+')
_PLAIN_KEY = re.compile(r'[^\s,()\[\]{}"=%:<>]+')


def print_graph(
    graph: Graph,
    *,
    full: bool = False,
    annotate: bool = True,
    stored: Mapping[GraphTensor, int] | None = None,
) -> str:
    """Text of a graph and its subgraphs. `full`: whole constants, so that `parse_graph` gives the same graph back.

    `annotate=False`: exactly the GE readable dump, which is made for reading and loses much. `stored`: constants that
    are kept elsewhere, printed as their offset there, `[@4096]`.
    """
    printer = _Printer(full, annotate, stored or {})
    printer.name_graph(graph)
    texts = []
    pending = [graph]
    while pending:  # depth first, each graph once, before the graphs it uses
        current = pending.pop()
        if id(current) not in printer.printed:
            printer.printed.add(id(current))
            texts.append("\n".join(printer.graph_lines(current)) + "\n")
            pending.extend(reversed([g for op in current.ops for g in subgraphs_of(op)]))
    return "\n".join(texts)


def print_op(op: Op) -> str:
    """The annotated lines of one op, constants elided."""
    printer = _Printer(full=False, annotate=True, stored={})
    return "\n".join(printer.op_lines(op, iter(_ret_names(set()))))


def print_tensor_type(details: LogicalTensor) -> str:
    """`f32[8,128]{MK16m16k}`; the format is left out when it is plain."""
    return _type_text(details, map(str, details.plain_dims))


def _type_text(details: LogicalTensor, sizes: Iterable[str]) -> str:
    dims = ",".join(sizes)
    suffix = "" if details.format.is_plain else f"{{{print_format(details.format)}}}"
    return f"{details.dtype}[{dims}]{suffix}"


def print_format(format: Format) -> str:
    """`NCHW16c`, or `WHCN@CWHN` with the letters in plain order where the set of letters does not say it."""
    text = str(format)
    return text if parse_format(text, None).axes == format.axes else f"{text}@{format.axes}"


@dataclass
class _Printer:
    full: bool
    annotate: bool
    stored: Mapping[GraphTensor, int]

    def __post_init__(self) -> None:
        self.printed: set[int] = set()
        self.graph_names: dict[int, str] = {}
        self.tensor_names: dict[int, str] = {}
        self.ranges: set[Symbol] = set()
        self.unranged: dict[Symbol, None] = {}

    def name_graph(self, graph: Graph) -> str:
        """The name a graph has in the text: unique, as GE demands."""
        if id(graph) not in self.graph_names:
            taken, number = set(self.graph_names.values()), 0
            name = graph.name
            while name in taken:
                number += 1
                name = f"{graph.name}_{number}"
            self.graph_names[id(graph)] = name
        return self.graph_names[id(graph)]

    def graph_lines(self, graph: Graph) -> Iterator[str]:
        self.ranges.clear()
        self.unranged.clear()
        attrs = self.attrs(graph.attrs) if self.annotate else ""
        name = self.name_graph(graph)
        lines = [*self._body_lines(graph)]
        if self.unranged and self.annotate:
            ranges = (f"<{symbol.name}={symbol.range_text}>" for symbol in self.unranged)
            attrs += f"{', ' * bool(attrs)}{SIZES}: {{{', '.join(ranges)}}}"
        tail = f", attrs = {{{attrs}}}" if attrs else ""
        yield f"graph({self.value(name)}{tail}):"
        yield from lines

    def _body_lines(self, graph: Graph) -> Iterator[str]:
        fresh = iter(_ret_names({op.name for op in graph.ops}))
        for op in graph.ops:
            if not op.is_output:
                yield from ("  " + line for line in self.op_lines(op, fresh))
        outputs = graph.outputs
        if outputs:
            results = [f"%{self.reference(op.inputs[0])}" for op in outputs]
            if self.annotate:
                names = [op.attr("temp.result") for op in outputs]
                results = [f"{self.key(n)}={y}" for n, y in zip(names, results, strict=True)]
            elif len(outputs) > 1:
                results = [f"output_{i}={y}" for i, y in enumerate(results)]
            yield from ("", f"  return ({', '.join(results)})")

    def op_lines(self, op: Op, fresh: Iterator[str]) -> Iterator[str]:
        """The node line of an op and, with several outputs, its `get_element` lines, named by `fresh`."""
        inputs = ", ".join(
            f"{op.input_name(i)}=%{self.reference(x)}" for i, x in enumerate(op.inputs)
        )
        if op.is_constant and op.outputs[0] in self.stored:
            attrs = f"value: [@{self.stored[op.outputs[0]]}]"
        else:
            attrs = self.attrs(self.shown_attrs(op), typed=not op.is_constant)
        body = [f"inputs = ({inputs})"] * bool(inputs) + [f"attrs = {{{attrs}}}"] * bool(attrs)
        if op.schedule is not None and self.annotate:
            body.append(f"schedule = {_quoted(str(op.schedule))}")
        alone = len(op.outputs) == 1
        head = f"%{self.name(op.name)} : [#users={len(op.outputs)}] = Node[type={op.op_name}] ({', '.join(body)})"
        yield head + (self.annotation(op.outputs[0]) if alone else "")
        for index, tensor in enumerate(() if alone else op.outputs):
            name = self.tensor_names[id(tensor)] = next(fresh)
            element = f"get_element[node=%{self.name(op.name)}]({index})"
            yield f"%{name} : [#users={len(tensor.uses)}] = {element}{self.annotation(tensor)}"

    def shown_attrs(self, op: Op) -> dict[str, Any]:
        """Attributes that are not already in the annotation."""
        hidden = {"input": ("details",), "constant": ("format",)}.get(op.op_name, ())
        return {key: value for key, value in op.attrs.items() if key not in hidden}

    def annotation(self, tensor: GraphTensor) -> str:
        if not self.annotate:
            return ""
        details = tensor.details
        return f" -> {_type_text(details, [self.size(one) for one in details.plain_dims])}"

    def size(self, size: Size) -> str:
        """A size; a symbol with its range where it is first printed in a graph. The graph's line has the ranges of
        those that are in an expression there."""
        text = str(size)
        for symbol in symbols_of([size]):
            if symbol.name == text and symbol not in self.ranges and symbol.has_range:
                text = f"{text}={symbol.range_text}"
            elif symbol not in self.ranges and symbol.has_range:
                self.unranged[symbol] = None
            self.ranges.add(symbol)
        return text

    def reference(self, tensor: GraphTensor) -> str:
        return self.tensor_names.get(id(tensor)) or self.name(tensor.name)

    def name(self, name: str) -> str:
        return name if not self.annotate or _is_plain(name, _PLAIN_NAME) else _quoted(name)

    def key(self, name: str) -> str:
        return name if not self.annotate or _is_plain(name, _PLAIN_KEY) else _quoted(name)

    def attrs(self, attrs: dict[str, Any], typed: bool = True) -> str:
        """`key: value` of each attribute, subgraphs first; `typed`: tensors get their type in front."""
        shown = {key: value for key, value in attrs.items() if not key.startswith("temp.")}
        if not self.annotate:  # GE leaves out what is empty or missing
            shown = {key: value for key, value in shown.items() if not _is_empty(value)}
        keys = sorted(shown, key=lambda key: not isinstance(shown[key], Graph))
        return ", ".join(f"{self.key(key)}: {self.value(shown[key], typed)}" for key in keys)

    def value(self, value: Any, typed: bool = True) -> str:
        """Text of an attribute value."""
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, Graph):
            return f"%{self.name(self.name_graph(value))}"
        if isinstance(value, np.ndarray):
            details = LogicalTensor(from_numpy(value.dtype), value.shape)
            prefix = print_tensor_type(details) if self.annotate and typed else ""
            return prefix + self.tensor(value)
        if isinstance(value, (list, tuple)):
            return f"{{{', '.join(self.value(item) for item in value)}}}"
        return (
            self.word(value)
            if isinstance(value, (LogicalTensor, Format, DType))
            else self.scalar(value)
        )

    def scalar(self, value: Any) -> str:
        """Text of a Python scalar, a string or None; like GE's, a placeholder for what has no text."""
        if isinstance(value, bool) or value is None:
            return str(value).lower()
        if isinstance(value, int):
            return str(value)
        if isinstance(value, Dim):
            return f"<{self.size(value)}>"
        if isinstance(value, float):
            return repr(value) if self.annotate else _fixed(value)
        if isinstance(value, str):
            return _quoted(value) if self.annotate else f'"{value}"'
        return "<not_supported>"

    def word(self, value: LogicalTensor | Format | DType) -> str:
        """Text of a tensor type, a layout or a dtype."""
        if isinstance(value, LogicalTensor):
            return print_tensor_type(value)
        return print_format(value) if isinstance(value, Format) else value.name

    def tensor(self, value: np.ndarray[Any, Any]) -> str:
        if not value.size:
            return "<empty>"
        if not self.annotate and from_numpy(value.dtype) == BF16:
            return "<not_supported>"
        if self.full or value.size <= SHOWN:
            return f"[{' '.join(self.elements(value))}]"
        ends = np.concatenate([value.reshape(-1)[: SHOWN // 2], value.reshape(-1)[-(SHOWN // 2) :]])
        texts = self.elements(ends)
        return f"[{' '.join([*texts[: SHOWN // 2], '...', *texts[SHOWN // 2 :]])}]"

    def elements(self, value: np.ndarray[Any, Any]) -> list[str]:
        if self.annotate or value.dtype.kind != "f":
            return print_elements(value)
        return [_fixed(float(item)) for item in value.reshape(-1)]


def _ret_names(taken: set[str]) -> Iterator[str]:
    """GE's names of single outputs: ret, ret_1, ...; those an op has are skipped, to keep references unambiguous."""
    number = 0
    while True:
        name = f"ret_{number}" if number else "ret"
        number += 1
        if name not in taken:
            yield name


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, (str, list, tuple)) and not value)


def _is_plain(name: str, pattern: re.Pattern[str]) -> bool:
    return name.isprintable() and pattern.fullmatch(name) is not None


def _quoted(text: str) -> str:
    """The string with JSON escapes, of which UTF-8 can hold all characters."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _fixed(value: float) -> str:
    if math.isnan(value):
        return "-nan" if math.copysign(1.0, value) < 0 else "nan"
    return f"{value:.6f}" if math.isfinite(value) else str(value)
