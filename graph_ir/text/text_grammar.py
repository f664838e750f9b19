"""The grammar of a graph's text, and the plain records it is read into.

The grammar is LALR and makes a record at each reduction, so nothing recurses on the depth of the input.
"""

from __future__ import annotations

import json
import re
import threading
from functools import cache
from typing import Any

import numpy as np
from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedInput

from ...base.dims import Size, Symbol
from ...base.dtypes import ALL, by_name
from ...base.errors import UserError
from ...base.records import dataclass
from ...base.size_text import parse_range, parse_size
from ..ir.format import parse_format
from ..ir.logical_tensor import LogicalTensor
from ..ir.schedule import Schedule, parse_schedule
from .element_text import read_elements
from .printer import SIZES

_GRAMMAR = r"""
start: graph+
graph: "graph" "(" STRING ["," _attrs] ")" ":" _line* ["return" "(" result ("," result)* ")"]
_line: node | element
node: REF ":" "[" "#users" "=" INT "]" "=" "Node" "[" "type" "=" NAME "]" "(" [_body] ")" [_result]
element: REF ":" "[" "#users" "=" INT "]" "=" "get_element" "[" "node" "=" REF "]" "(" INT ")" _result
_result: "->" type
_body: inputs ["," _attrs] ["," schedule] | _attrs ["," schedule] | schedule
schedule: "schedule" "=" STRING
inputs: "inputs" "=" "(" result ("," result)* ")"
_attrs: attrs
attrs: "attrs" "=" "{" attr ("," attr)* "}"
attr: key ":" value
result: key "=" REF
key: NAME | INT | FLOAT | STRING
?value: INT -> integer | FLOAT -> float | STRING -> string | NAME -> word | REF -> graph_name
    | type | type TENSOR -> tensor | TENSOR -> untyped | list | SIZE -> size
list: "{" [value ("," value)*] "}"
type: DTYPE "[" [_size ("," _size)*] "]" ["{" NAME "}"]
_size: INT | DIM
REF.3: /%("(\\.|[^"\\])*"|[^\s,()\[\]{}"=%]+)/
DTYPE.3: /(?:DTYPES)(?=\[)/
FLOAT.2: /-?(\d+\.\d*([eE][+-]?\d+)?|\d+[eE][+-]?\d+|inf|nan)(?=[,}\s])/
INT.2: /-?\d+(?=[,}\s\])])/
DIM.1: /[A-Za-z_0-9(-][A-Za-z0-9_*+();\/-]*(=\d+\.\.\d*)?(?=[,\]])/
SIZE.1: /<(?!empty>)[A-Za-z_0-9(-][A-Za-z0-9_*+();\/=.-]*>/
STRING: /"(\\.|[^"\\])*"/
TENSOR.1: /\[[^\[\]]*\]|<empty>/
NAME.0: /[^\s,()\[\]{}"=%:<>]+/
%import common.WS
%ignore WS
"""

_WORDS = {"true": True, "false": False, "none": None}
_DTYPE_NAMES = {dtype.name for dtype in ALL}


@dataclass(frozen=True)
class GraphName:
    """A reference to a graph of the text, as an attribute value."""

    name: str


@dataclass(frozen=True)
class Untyped:
    """Elements of a constant; their type is in the annotation."""

    text: str


@dataclass(frozen=True)
class _Inputs:
    items: list[tuple[str, str]]


@dataclass(frozen=True)
class Node:
    """The line of an op; inputs are (input name, reference) pairs."""

    line: int
    name: str
    op_name: str
    inputs: list[tuple[str, str]]
    attrs: dict[str, Any]
    details: LogicalTensor | None
    schedule: Schedule | None = None


@dataclass(frozen=True)
class Element:
    """The line of one output of an op with several."""

    line: int
    name: str
    node: str
    index: int
    details: LogicalTensor


@dataclass(frozen=True)
class GraphText:
    """One graph; results are (output name, reference) pairs."""

    name: str
    attrs: dict[str, Any]
    lines: list[Node | Element]
    results: list[tuple[str, str]]


def read_records(text: str) -> list[GraphText]:
    """One record per graph of the text; UserError with the line where it is outside the grammar."""
    _symbols().clear()
    try:
        records: list[GraphText] = _parser().parse(text)  # type: ignore[assignment]
    except UnexpectedInput as error:
        excerpt = error.get_context(text).splitlines()[0].strip()
        raise UserError(
            f"graph text line {error.line}: cannot read on at '{excerpt}'; write it as print_graph does"
        ) from error
    return records


def read_tensor(text: str, details: LogicalTensor) -> np.ndarray[Any, Any]:
    """The array of `[1.0 2.0]` or `<empty>`; raise UserError if it is elided or does not have `details`."""
    texts = [] if text == "<empty>" else text[1:-1].split()
    if "..." in texts:
        raise UserError(
            f"graph text: a {details} constant is elided; print the graph with full=True"
        )
    if len(texts) != details.elements:
        raise UserError(
            f"graph text: a {details} constant needs {details.elements} elements, got {len(texts)}"
        )
    return read_elements(texts, details.dtype).reshape(details.plain_dims)


_STATE = threading.local()


def _symbols() -> dict[str, Symbol]:
    """The symbols of the graph that this thread is reading, by name."""
    if not hasattr(_STATE, "symbols"):
        _STATE.symbols = {}
    found: dict[str, Symbol] = _STATE.symbols
    return found


_MAX_DIGITS = 20  # and the sign: the integers of every type


@cache
def _parser() -> Lark:
    grammar = _GRAMMAR.replace("DTYPES", "|".join(sorted(_DTYPE_NAMES)))
    return Lark(grammar, parser="lalr", transformer=_Records(), maybe_placeholders=False)


class _Records(Transformer[Token, Any]):
    """Callbacks named after the rules of the grammar; each gets the finished parts of its rule."""

    def start(self, parts: list[Any]) -> list[GraphText]:
        return parts

    def graph(self, parts: list[Any]) -> GraphText:
        attrs = dict(next((part for part in parts if isinstance(part, dict)), {}))
        attrs.pop(SIZES, None)  # their ranges are known since these were read
        lines = [part for part in parts if isinstance(part, (Node, Element))]
        _symbols().clear()
        return GraphText(
            _unquote(parts[0]), attrs, lines, [part for part in parts if isinstance(part, tuple)]
        )

    def node(self, parts: list[Any]) -> Node:
        name, _, op_name, *rest = parts
        inputs = next((part.items for part in rest if isinstance(part, _Inputs)), [])
        attrs = next((part for part in rest if isinstance(part, dict)), {})
        details = next((part for part in rest if isinstance(part, LogicalTensor)), None)
        schedule = next((part for part in rest if isinstance(part, Schedule)), None)
        return Node(name.line, _reference(name), str(op_name), inputs, attrs, details, schedule)

    def element(self, parts: list[Any]) -> Element:
        name, _, node, index, details = parts
        return Element(name.line, _reference(name), _reference(node), _integer(index), details)

    def inputs(self, parts: list[Any]) -> _Inputs:
        return _Inputs(parts)

    def schedule(self, parts: list[Any]) -> Schedule:
        return parse_schedule(_unquote(parts[0]))

    def attrs(self, parts: list[Any]) -> dict[str, Any]:
        return dict(parts)

    def attr(self, parts: list[Any]) -> tuple[str, Any]:
        return (parts[0], parts[1])

    def result(self, parts: list[Any]) -> tuple[str, str]:
        return (parts[0], _reference(parts[1]))

    def key(self, parts: list[Any]) -> str:
        return _unquote(parts[0]) if parts[0].type == "STRING" else str(parts[0])

    def type(self, parts: list[Any]) -> LogicalTensor:
        kinds = {"INT": _integer, "DIM": self._dim}
        dims = tuple(kinds[part.type](part) for part in parts[1:] if part.type in kinds)
        details = LogicalTensor(by_name(parts[0]), dims)
        return details.with_format(_word(parts[-1])) if parts[-1].type == "NAME" else details

    def _dim(self, token: str) -> Size:
        """An expression of symbols; one that is not known yet has the range after it, or none."""
        text, equals, range_ = token.partition("=")
        if equals:
            _symbols()[text] = parse_range(range_, text)
        for name in re.findall(r"[A-Za-z_][A-Za-z0-9_]*(?!\w|\()", text):
            _symbols().setdefault(name, Symbol(name))
        try:
            return parse_size(text, _symbols())
        except ValueError:
            raise UserError(
                f"graph text: a size must be an expression of numbers and names, got '{text}'"
            ) from None

    def size(self, parts: list[Any]) -> Size:
        return self._dim(parts[0][1:-1])

    def integer(self, parts: list[Any]) -> int:
        return _integer(parts[0])

    def float(self, parts: list[Any]) -> float:
        return float(parts[0])

    def string(self, parts: list[Any]) -> str:
        return _unquote(parts[0])

    def word(self, parts: list[Any]) -> Any:
        return _word(parts[0])

    def graph_name(self, parts: list[Any]) -> GraphName:
        return GraphName(_reference(parts[0]))

    def tensor(self, parts: list[Any]) -> np.ndarray[Any, Any]:
        return read_tensor(parts[1], parts[0])

    def untyped(self, parts: list[Any]) -> Untyped:
        return Untyped(str(parts[0]))

    def list(self, parts: list[Any]) -> tuple[Any, ...]:
        return tuple(parts)


def _integer(token: Token) -> int:
    if len(token) > _MAX_DIGITS:
        raise UserError(
            f"graph text line {token.line}: a number must fit 64 bits, got one of {len(token)} digits"
        )
    return int(token)


def _word(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text in _DTYPE_NAMES:
        return by_name(text)
    letters, _, axes = text.partition("@")
    return parse_format(letters, axes or None)


def _reference(token: str) -> str:
    name = token[1:]
    return _unquote(name) if name.startswith('"') else str(name)


def _unquote(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError as error:
        raise UserError(f"graph text: a string must have JSON's escapes, got {token}") from error
