"""Shapes in HLO text. An array's shape arrives as one token, layout included, and is parsed once per spelling."""

from __future__ import annotations

import re

from .lexer import COMMENT, MAX_NESTED, Lexer
from .shapes import BITLESS, UNBOUNDED, Layout, Shape, tuple_shape

_NOISE = re.compile(rf"{COMMENT.pattern}|[ \t\r\n]+", re.DOTALL)
_INTEGER = re.compile(r"-?[0-9]+", re.ASCII)
_PROPERTIES = re.compile(r"(?:(?:[DTLESPM]C?|[#*])(?:\((?:[^()]|\([^()]*\))*\))+)*")
"""`T(8,128)(2,1)S(1)`: letters and groups, kept as text."""


class ShapeParser:
    """Parses shapes from a lexer, keeping those it has met."""

    def __init__(self, lexer: Lexer) -> None:
        self._lexer = lexer
        self._known: dict[str, Shape] = {}

    @property
    def at_shape(self) -> bool:
        """Return whether the current token starts a shape (or is a parenthesis)."""
        lexer = self._lexer
        return lexer.kind in ("shape", "(") or (lexer.kind == "word" and lexer.text == "b")

    def parse(self, depth: int = 0) -> Shape:
        """The shape that starts at the current token. May raise UserError."""
        lexer = self._lexer
        if lexer.kind == "shape":
            text = lexer.text
            shape = self._known.get(text)
            if shape is None:
                shape = self._known[text] = self._array(_NOISE.sub("", text), lexer.start)
            lexer.advance()
            return shape
        if depth > MAX_NESTED:
            raise lexer.too_deep(lexer.start)
        if lexer.kind == "word" and lexer.text == "b":
            lexer.advance()
            lexer.take("(", "'(' of a buffer shape")
            shape = self.parse(depth + 1)
            lexer.take(")")
            return shape
        lexer.take("(", "a shape")
        elements: list[Shape] = []
        while not lexer.accept(")"):
            if elements:
                lexer.take(",")
            elements.append(self.parse(depth + 1))
        return tuple_shape(tuple(elements))

    def _array(self, text: str, offset: int) -> Shape:
        """The shape of a text without blanks, `f32[2,<=3]{1,0:T(8,128)}`; `?` is a size without a bound."""
        name, _, rest = text.partition("[")
        sizes, _, layout = rest.partition("]")
        parts = sizes.split(",") if sizes else []
        dims = tuple(
            UNBOUNDED if part == "?" else self._integer(part.removeprefix("<="), offset)
            for part in parts
        )
        dynamic = tuple(axis for axis, part in enumerate(parts) if part[:1] in ("?", "<"))
        for size, part in zip(dims, parts, strict=True):
            if size < 0 and part != "?":
                raise self._lexer.error(f"sizes must not be negative, got {size}", offset)
        if name in BITLESS and dims:
            raise self._lexer.error(f"{name} must be written {name}[]", offset)
        shape = Shape(name, dims, dynamic=dynamic)
        if not layout:
            return shape
        return Shape(name, dims, self._layout(shape, layout[1:-1], offset), dynamic)

    def _integer(self, text: str, offset: int) -> int:
        if not _INTEGER.fullmatch(text):
            raise self._lexer.error(f"a size must be an integer, '<=' or '?', got '{text}'", offset)
        return self._lexer.to_integer(text, offset)

    def _layout(self, shape: Shape, text: str, offset: int) -> Layout:
        listed, _, properties = text.partition(":")
        axes = tuple(self._integer(part, offset) for part in listed.split(",") if part)
        if not _PROPERTIES.fullmatch(properties):
            raise self._lexer.error(f"'{properties}' must be the properties of a layout", offset)
        if sorted(axes) != list(range(shape.rank)) and (axes or not properties):
            raise self._lexer.error(
                f"a layout must name each of the {shape.rank} axes of {shape.logical()} once, "
                f"got {{{','.join(map(str, axes))}}}",
                offset,
            )
        return Layout(axes or tuple(range(shape.rank))[::-1], properties)
