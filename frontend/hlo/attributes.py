"""Values of attributes: one table says what each looks like in the text; values of unknown attributes are kept
as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ...base.errors import UserError
from ...base.records import dataclass
from .lexer import COMMENT, Lexer, to_integer
from .syntax import Attribute, Called, DimLabels, PadRange, Raw, SliceRange, WindowDimension, Word


@dataclass(frozen=True)
class _Kind:
    """The grammar of some attributes: `pattern` matches the text, `convert` returns the value or raises UserError."""

    what: str
    pattern: re.Pattern[str]
    convert: Callable[[str], Attribute]


_LOOSE = re.compile(r'(?:"(?:[^"\\]++|\\.)*+"|[^,(){}\[\]\n"])++', re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]++", re.ASCII)
_RANGE = re.compile(r"\[([^\[\]]*+)\]")
_INNER = re.compile(r"\{[^{}]*+\}")
_FIELD = re.compile(r"([A-Za-z_]\w*+)=([-0-9x_]*+)", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_.-]++", re.ASCII)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_PLAIN_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_WINDOW_FIELDS = {
    "size": ("size",),
    "stride": ("stride",),
    "pad": ("low", "high"),
    "lhs_dilate": ("base_dilation",),
    "rhs_dilate": ("window_dilation",),
    "rhs_reversal": ("reversal",),
}


def parse_attribute(lexer: Lexer, name: str) -> Attribute:
    """The value of an attribute, whose name is the current token; the token after it is current then."""
    kind = KINDS.get(name)
    if kind is None:
        return parse_raw(lexer, name)
    position = lexer.skip_blanks()
    found = kind.pattern.match(lexer.source, position)
    if found:
        text, end = found[0], found.end()
    else:
        text, end = _without_comments(lexer, kind, position)
    try:
        value = kind.convert(text)
    except UserError as error:
        raise lexer.error(str(error), position) from error
    lexer.move(end)
    return value


def _without_comments(lexer: Lexer, kind: _Kind, position: int) -> tuple[str, int]:
    """(the text of a group, its end); it may hold comments."""
    if lexer.source.startswith("{", position):
        group = lexer.raw_group(position)
        text = COMMENT.sub(" ", group)
        if kind.pattern.fullmatch(text):
            return text, position + len(group)
    lexer.move(position)
    raise lexer.expected(kind.what)


def parse_raw(lexer: Lexer, name: str) -> Attribute:
    """Skip one value: a group, a string, or what comes before the next `,` or line; its text is kept."""
    position = lexer.skip_blanks()
    if lexer.source.startswith("{", position):
        text = lexer.raw_group(position, "json" if name == "backend_config" else "hlo")
        lexer.move(position + len(text))
        return Raw(text)
    lexer.advance()
    if lexer.kind == "string":
        return lexer.take("string")
    end = position
    while True:
        found = _LOOSE.match(lexer.source, end)
        if found:
            end = found.end()
        elif lexer.source[end : end + 1] in ("[", "{", "("):
            end += len(lexer.raw_group(end))
        else:
            break
    if end == position:
        raise lexer.expected("the value of an attribute")
    lexer.move(end)
    return Raw(COMMENT.sub("", lexer.source[position:end]).rstrip())


def take_name(lexer: Lexer, what: str) -> str:
    """A name, without its `%`."""
    if lexer.kind == "name":
        return lexer.take("name")[1:]
    return lexer.take("word", what)


def unescape(text: str) -> str:
    """The contents of a quoted string, C escapes resolved."""
    inner = text[1:-1]
    return _ESCAPE.sub(_character, inner) if "\\" in inner else inner


def _character(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _PLAIN_ESCAPES.get(code, code)


def _integers(text: str) -> tuple[int, ...]:
    return tuple(to_integer(number) for number in _NUMBER.findall(text))


def _lists(text: str) -> Attribute:
    """Integers, or the lists of a transfer in place: one for each of its slices."""
    nested = _INNER.findall(text, 1)
    return tuple(map(_integers, nested)) if nested else _integers(text)


def _called(text: str) -> Attribute:
    return tuple(Called(name) for name in _NAME.findall(text))


def _pad_ranges(text: str) -> Attribute:
    return tuple(PadRange(*_integers(part)) for part in text.strip("\"'").split("x") if part)


def _slices(text: str) -> Attribute:
    return tuple(SliceRange(*_integers(part)) for part in _RANGE.findall(text))


def _labels(text: str) -> Attribute:
    lhs, rhs, output = text.replace("->", "_").split("_")
    return DimLabels(lhs, rhs, output)


def _window(text: str) -> Attribute:
    columns: dict[str, list[int]] = {}
    for field, value in _FIELD.findall(text):
        if field not in _WINDOW_FIELDS:
            known = ", ".join(_WINDOW_FIELDS)
            raise UserError(f"the fields of a window must be of {known}, got '{field}'")
        entries = [_integers(part) for part in value.split("x")]
        names = _WINDOW_FIELDS[field]
        if any(len(entry) != len(names) for entry in entries):
            raise UserError(f"a window's {field} must be such as {_SAMPLE[field]}, got {value}")
        columns.update((name, [e[i] for e in entries]) for i, name in enumerate(names))
    counts = {len(column) for column in columns.values()}
    if len(counts) > 1 or (counts and "size" not in columns):
        raise UserError(
            f"the fields of a window must have an entry for each axis of size=, got {text[:80]}"
        )
    rows = zip(*columns.values(), strict=True)
    return tuple(WindowDimension(**dict(zip(columns, row, strict=True))) for row in rows)


_SAMPLE = {field: "3x3" if field != "pad" else "1_1x0_1" for field in _WINDOW_FIELDS}

_N = r"-?[0-9]++"
_LIST = rf"\{{(?:[\s,]*+{_N})*+[\s,]*+\}}"
_EDGES = rf"{_N}_{_N}(?:_{_N})?"


COMPUTATION_VALUED = frozenset(
    ("to_apply", "calls", "condition", "body", "select", "scatter", "true_computation", "false_computation")
)  # fmt: skip
"""Attributes that name a computation or hold one."""

COMPUTATION_LISTS = ("branch_computations", "called_computations")
"""Attributes that name several computations."""


def _kinds() -> Iterator[tuple[str, _Kind]]:
    table: tuple[tuple[str, str, Callable[[str], Attribute], str], ...] = (
        ("a list of integers such as {0,2}", rf"\{{\s*+{_LIST}\s*+\}}|{_LIST}", _integers,
         "dimensions lhs_batch_dims lhs_contracting_dims rhs_batch_dims rhs_contracting_dims offset_dims "
         "collapsed_slice_dims start_index_map operand_batching_dims start_indices_batching_dims "
         "update_window_dims inserted_window_dims scatter_dims_to_operand_dims input_batching_dims "
         "scatter_indices_batching_dims dynamic_slice_sizes fft_length"),
        ("a list of integers such as {0,2}, or of such lists",
         rf"{_LIST}|\{{\s*+{_LIST}(?:\s*+,\s*+{_LIST})*+\s*+\}}", _lists, "slice_sizes"),
        ("an integer", _N, to_integer,
         "iota_dimension index k feature_group_count batch_group_count index_vector_dim feature_index "
         "exponent_bits mantissa_bits num_carries inferred_dimension channel_id"),
        ("true or false", r"(?:true|false)\b", "true".__eq__,
         "largest is_stable indices_are_sorted unique_indices lower left_side unit_diagonal is_composite is_reverse "
         "is_associative is_host_transfer"),
        ("a number", r"-?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,9})?", float, "epsilon"),
        ("a word", r"[A-Za-z_][A-Za-z0-9_.-]*+", Word,
         "direction type kind fft_type distribution algorithm transpose_a"),
        ("a string in quotes", r'"(?:[^"\\]++|\\.)*+"|\'(?:[^\'\\]++|\\.)*+\'', unescape, "custom_call_target"),
        ("a window such as {size=3x3 pad=1_1x0_1}", r"\{(?:[\s,]*+[A-Za-z_]\w*+=[-0-9x_]++)*+[\s,]*+\}", _window,
         "window"),
        ("labels such as b01f_01io->b01f", r"[0-9bf?]{2,}+_[0-9io?]{2,}+->[0-9bf?]{2,}+", _labels, "dim_labels"),
        ("ranges such as {[0:5], [2:9:3]}", rf"\{{(?:[\s,]*+\[\s*+{_N}(?:\s*+:\s*+{_N}){{1,2}}\s*+\])*+\s*+\}}",
         _slices, "slice"),
        ("padding such as 0_1x0_1", rf"\"\"|{_EDGES}(?:x{_EDGES})*+", _pad_ranges, "padding"),
        ("names of computations such as {a, b}", r"\{(?:[\s,]*+%?[A-Za-z0-9_.-]++)*+\s*+\}", _called,
         " ".join(COMPUTATION_LISTS)),
    )  # fmt: skip
    for what, pattern, convert, names in table:
        kind = _Kind(what, re.compile(pattern, re.ASCII | re.DOTALL), convert)
        yield from ((name, kind) for name in names.split())


KINDS = dict(_kinds())
"""The grammar of each known attribute, computation-valued ones aside."""
