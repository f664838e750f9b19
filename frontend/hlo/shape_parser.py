"""Shapes in HLO text. Plain array shapes arrive as one token and are parsed once for each spelling."""

from __future__ import annotations

from .lexer import MOST_NESTED, Lexer
from .shapes import BITLESS, UNBOUNDED, Layout, Shape, tuple_shape

_PROPERTY_STARTS = frozenset("DTLESPM")


class ShapeParser:
    """Parses shapes from a lexer, keeping those it has met."""

    def __init__(self, lexer: Lexer) -> None:
        self._lexer = lexer
        self._known: dict[str, Shape] = {}

    @property
    def at_shape(self) -> bool:
        """Whether the current token starts a shape (or is a parenthesis)."""
        lexer = self._lexer
        return lexer.kind in ("shape", "(", "type") or (lexer.kind == "word" and lexer.text == "b")

    def parse(self, depth: int = 0) -> Shape:
        """The shape that starts at the current token. UserError."""
        lexer = self._lexer
        if lexer.kind == "shape":
            return self._plain()
        if lexer.kind == "type":
            return self._general()
        if lexer.kind == "word" and lexer.text == "b":
            lexer.advance()
            lexer.take("(", "'(' of a buffer shape")
            shape = self._inner(depth)
            lexer.take(")")
            return shape
        lexer.take("(", "a shape")
        elements: list[Shape] = []
        while not lexer.accept(")"):
            if elements:
                lexer.take(",")
            elements.append(self._inner(depth))
        return tuple_shape(tuple(elements))

    def _inner(self, depth: int) -> Shape:
        if depth == MOST_NESTED:
            raise self._lexer.too_deep(self._lexer.start)
        return self.parse(depth + 1)

    def _plain(self) -> Shape:
        lexer = self._lexer
        text = lexer.text
        shape = self._known.get(text)
        if shape is None:
            shape = self._known[text] = self._from_text(text, lexer.start)
        lexer.advance()
        if lexer.kind == "{" and text[-1] == "]":
            return self._with_layout(shape)
        return shape

    def _from_text(self, text: str, place: int) -> Shape:
        lexer = self._lexer
        name, _, rest = text.partition("[")
        sizes, _, layout = rest.partition("]")
        dims = self._numbers(sizes, place)
        if any(size < 0 for size in dims):
            raise lexer.error(f"sizes must not be negative, got {text}", place)
        shape = self._checked(Shape(name, dims), place)
        if layout:
            axes = self._numbers(layout[1:-1], place)
            return self._laid_out(shape, axes, "", place)
        return shape

    def _numbers(self, text: str, place: int) -> tuple[int, ...]:
        parts = text.split(",") if text else []
        if "" in parts:
            raise self._lexer.error("a list of sizes must not have an empty entry", place)
        return tuple(self._lexer.to_integer(part, place) for part in parts)

    def _general(self) -> Shape:
        """A shape with blanks, comments or dynamic sizes between its brackets."""
        lexer = self._lexer
        place = lexer.start
        name = lexer.take("type")
        lexer.take("[", "'[' and the sizes")
        dims: list[int] = []
        dynamic: list[int] = []
        while not lexer.accept("]"):
            if dims:
                lexer.take(",")
            if lexer.kind in ("?", "<="):
                dynamic.append(len(dims))
            if lexer.accept("?"):
                dims.append(UNBOUNDED)
                continue
            lexer.accept("<=")
            dims.append(lexer.integer("a size, '<=' or '?'"))
            if dims[-1] < 0:
                raise lexer.error(f"sizes must not be negative, got {dims[-1]}", place)
        shape = self._checked(Shape(name, tuple(dims), dynamic=tuple(dynamic)), place)
        return self._with_layout(shape) if lexer.kind == "{" else shape

    def _checked(self, shape: Shape, place: int) -> Shape:
        if shape.type in BITLESS and shape.dims:
            raise self._lexer.error(f"{shape.type} must be written {shape.type}[]", place)
        return shape

    def _with_layout(self, shape: Shape) -> Shape:
        """The shape with the layout that follows, if what follows is one and not the body of a computation."""
        lexer = self._lexer
        brace = lexer.start
        lexer.advance()
        if lexer.kind not in ("int", ":") and not (lexer.kind == "}" and not shape.dims):
            lexer.move(brace)
            return shape
        axes: list[int] = []
        while lexer.kind == "int":
            axes.append(lexer.integer("an axis"))
            if not lexer.accept(","):
                break
        properties = self._properties() if lexer.accept(":") else ""
        lexer.take("}", "'}' of a layout")
        return self._laid_out(shape, tuple(axes), properties, brace)

    def _properties(self) -> str:
        """`T(8,128)(2,1)S(1)`: letters and groups, kept as text."""
        lexer = self._lexer
        parts: list[str] = []
        while lexer.kind != "}":
            if lexer.kind == "(" and parts:
                group = lexer.raw_group(lexer.start)
                parts.append(group)
                lexer.move(lexer.start + len(group))
            elif lexer.kind in ("#", "*") or lexer.text[:1] in _PROPERTY_STARTS:
                parts.append(lexer.text)
                lexer.advance()
            else:
                raise lexer.expected("a property of a layout")
        return "".join(parts)

    def _laid_out(self, shape: Shape, axes: tuple[int, ...], properties: str, place: int) -> Shape:
        if sorted(axes) != list(range(shape.rank)) and (axes or not properties):
            raise self._lexer.error(
                f"a layout must name each of the {shape.rank} axes of {shape.logical()} once, "
                f"got {{{','.join(map(str, axes))}}}",
                place,
            )
        order = axes if axes else tuple(range(shape.rank))[::-1]
        return Shape(shape.type, shape.dims, Layout(order, properties), shape.dynamic)
