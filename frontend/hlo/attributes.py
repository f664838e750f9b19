"""Parses attribute values by attribute name; values of unknown attributes are kept as text."""

from __future__ import annotations

import re
from collections.abc import Callable

from .lexer import Lexer
from .syntax import (
    Attribute,
    Called,
    DimLabels,
    Padding,
    PadRange,
    Raw,
    SliceRange,
    Slices,
    Window,
    WindowDimension,
    Word,
)

_INT_LIST = re.compile(r"[ \t]*+\{[ \t]*+((?:-?[0-9]{1,18}(?![0-9])[ ,\t]*+)*+)\}", re.ASCII)
_WINDOW_FIELDS = {
    "size": "size",
    "stride": "stride",
    "lhs_dilate": "base_dilation",
    "rhs_dilate": "window_dilation",
    "rhs_reversal": "reversal",
}


def parse_integers(lexer: Lexer) -> tuple[int, ...]:
    """`{0,2}`; the current token is the one before the brace."""
    plain = _INT_LIST.match(lexer.source, lexer.end)
    if plain:
        lexer.move(plain.end())
        return tuple(map(int, plain[1].replace(",", " ").split()))
    lexer.advance()
    lexer.take("{", "'{' and a list of integers")
    values: list[int] = []
    while not lexer.accept("}"):
        if values:
            lexer.accept(",")
        values.append(lexer.integer("an integer or '}'"))
    return tuple(values)


def parse_raw(lexer: Lexer, name: str) -> Attribute:
    """Skip one value: a group, a string, or what comes before the next `,` or line; its text is kept."""
    place = lexer.skip_blanks()
    if lexer.source.startswith("{", place):
        text = lexer.raw_group(place, "json" if name == "backend_config" else "hlo")
        lexer.move(place + len(text))
        return Raw(text)
    lexer.advance()
    if lexer.kind == "string":
        return lexer.take("string")
    return _loose_value(lexer)


def _loose_value(lexer: Lexer) -> Attribute:
    first, last = lexer.start, lexer.start
    while lexer.kind not in (",", "}", ")", "end"):
        if last > first and "\n" in lexer.source[last : lexer.start]:
            break
        if lexer.kind in ("[", "{", "("):
            lexer.move(lexer.start + len(lexer.raw_group(lexer.start)))
            last = _before(lexer)
        else:
            last = lexer.end
            lexer.advance()
    if last == first:
        raise lexer.expected("the value of an attribute")
    return Raw(lexer.source[first:last])


def _before(lexer: Lexer) -> int:
    """Where the text before the current token ends."""
    return len(lexer.source[: lexer.start].rstrip()) if lexer.start < 64 else (
        lexer.start - 64 + len(lexer.source[lexer.start - 64 : lexer.start].rstrip())
    )  # fmt: skip


def _integers(lexer: Lexer, name: str) -> Attribute:
    return parse_integers(lexer)


def _integer(lexer: Lexer, name: str) -> Attribute:
    lexer.advance()
    return lexer.integer("an integer")


def _boolean(lexer: Lexer, name: str) -> Attribute:
    lexer.advance()
    if lexer.text not in ("true", "false"):
        raise lexer.expected("true or false")
    return lexer.take("word") == "true"


def _number(lexer: Lexer, name: str) -> Attribute:
    lexer.advance()
    if lexer.kind not in ("decimal", "int") or len(lexer.text) > 400:
        raise lexer.expected("a number")
    value = float(lexer.text)
    lexer.advance()
    return value


def _word(lexer: Lexer, name: str) -> Attribute:
    lexer.advance()
    return Word(lexer.take("word", "a word"))


def _text(lexer: Lexer, name: str) -> Attribute:
    lexer.advance()
    return unescape(lexer.take("string", "a string in quotes"))


def _window(lexer: Lexer, name: str) -> Attribute:
    lexer.advance()
    lexer.take("{")
    fields: dict[str, list[int]] = {}
    place = lexer.start
    while not lexer.accept("}"):
        lexer.accept(",")
        key = lexer.take("attr", "a field of the window or '}'")[:-1]
        if key == "pad":
            pairs = _pad_ranges(lexer)
            fields["low"], fields["high"] = [p.low for p in pairs], [p.high for p in pairs]
        elif key in _WINDOW_FIELDS:
            fields[_WINDOW_FIELDS[key]] = _sizes(lexer)
        else:
            raise lexer.error(f"a window has no field '{key}'", lexer.start)
    counts = {len(values) for values in fields.values()}
    if len(counts) > 1 or (counts and "size" not in fields):
        raise lexer.error("the fields of a window must have an entry for each axis of size=", place)
    rank = counts.pop() if counts else 0
    return Window(
        tuple(WindowDimension(**{k: v[i] for k, v in fields.items()}) for i in range(rank))
    )


def _sizes(lexer: Lexer) -> list[int]:
    if lexer.kind not in ("sizes", "int"):
        raise lexer.expected("sizes such as 3x3")
    values = [lexer.to_integer(part, lexer.start) for part in _parts(lexer, "x")]
    lexer.advance()
    return values


def _parts(lexer: Lexer, by: str) -> list[str]:
    if lexer.text[-1] in "fn":
        raise lexer.expected("an integer")
    return lexer.text.split(by)


def _pad_ranges(lexer: Lexer) -> list[PadRange]:
    if lexer.kind != "pad":
        raise lexer.expected("padding such as 0_1x0_1")
    ranges = [
        PadRange(*(lexer.to_integer(number, lexer.start) for number in part.split("_")))
        for part in lexer.text.split("x")
    ]
    lexer.advance()
    return ranges


def _padding(lexer: Lexer, name: str) -> Attribute:
    lexer.advance()
    if lexer.kind == "string" and lexer.text[1:-1] == "":
        lexer.advance()
        return Padding(())
    return Padding(tuple(_pad_ranges(lexer)))


def _labels(lexer: Lexer, name: str) -> Attribute:
    lexer.advance()
    inputs, _, output = lexer.take("labels", "labels such as b01f_01io->b01f").partition("->")
    lhs, _, rhs = inputs.partition("_")
    return DimLabels(lhs, rhs, output)


def _slices(lexer: Lexer, name: str) -> Attribute:
    lexer.advance()
    lexer.take("{")
    ranges: list[SliceRange] = []
    while not lexer.accept("}"):
        if ranges:
            lexer.take(",")
        lexer.take("[", "'[' of a range")
        numbers = [lexer.integer("a start")]
        while lexer.accept(":"):
            numbers.append(lexer.integer("a limit or stride"))
        if len(numbers) not in (2, 3):
            raise lexer.expected("a range such as [0:5:2]")
        lexer.take("]")
        ranges.append(SliceRange(*numbers))
    return Slices(tuple(ranges))


def _called_list(lexer: Lexer, name: str) -> Attribute:
    lexer.advance()
    lexer.take("{", "'{' and names of computations")
    names: list[Called] = []
    while not lexer.accept("}"):
        if names:
            lexer.take(",")
        names.append(Called(take_name(lexer, "the name of a computation")))
    return tuple(names)


def take_name(lexer: Lexer, what: str) -> str:
    """A name, without its `%`."""
    if lexer.kind == "name":
        return lexer.take("name")[1:]
    return lexer.take("word", what)


def unescape(text: str) -> str:
    """The contents of a quoted string, C escapes resolved."""
    inner = text[1:-1]
    return _ESCAPE.sub(_character, inner) if "\\" in inner else inner


_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_PLAIN_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def _character(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _PLAIN_ESCAPES.get(code, code)


_NAMES_BY_KIND: dict[Callable[[Lexer, str], Attribute], str] = {
    _integers: "dimensions lhs_batch_dims lhs_contracting_dims rhs_batch_dims rhs_contracting_dims offset_dims "
    "collapsed_slice_dims start_index_map operand_batching_dims start_indices_batching_dims slice_sizes "
    "update_window_dims inserted_window_dims scatter_dims_to_operand_dims input_batching_dims "
    "scatter_indices_batching_dims dynamic_slice_sizes fft_length",
    _integer: "iota_dimension index k feature_group_count batch_group_count index_vector_dim feature_index "
    "exponent_bits mantissa_bits num_carries inferred_dimension",
    _boolean: "largest is_stable indices_are_sorted unique_indices lower left_side unit_diagonal is_composite",
    _number: "epsilon",
    _word: "direction type kind fft_type distribution algorithm transpose_a",
    _text: "custom_call_target",
    _window: "window",
    _labels: "dim_labels",
    _slices: "slice",
    _padding: "padding",
    _called_list: "branch_computations called_computations",
}  # fmt: skip
PARSERS = {name: parse for parse, names in _NAMES_BY_KIND.items() for name in names.split()}
"""The parser of each known attribute except computation-valued ones."""

COMPUTATION_VALUED = frozenset(
    [
        "to_apply",
        "calls",
        "condition",
        "body",
        "select",
        "scatter",
        "true_computation",
        "false_computation",
    ]
)
"""Attributes that name a computation or hold one."""
