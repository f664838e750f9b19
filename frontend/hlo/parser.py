"""HLO text to its syntax tree, in all three dialects: `%` and operand shapes, bare names, stack-frame tables.

The parser is a hand-written LL(1) one over the lexer's single compiled `re`. lark's LALR engine was measured first, fed
the same tokens by a custom lexer class: 0.87 s for the bare tree of 13,000 instructions, without building anything,
where this parser takes 0.33 s for the finished syntax tree; the target is 1.0 s.
"""

from __future__ import annotations

import re

from ...base.collector import paused_collector
from ...base.errors import UserError
from .attributes import (
    COMPUTATION_LISTS,
    COMPUTATION_VALUED,
    parse_attribute,
    parse_raw,
    take_name,
    unescape,
)
from .lexer import MAX_NESTED, Lexer
from .literals import parse_literal
from .shape_parser import ShapeParser
from .shapes import Shape
from .syntax import Attribute, Called, Computation, Instruction, Literal, Module, Operand, Origin

_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_CONSTANT = re.compile(r'[^()"\'/]*+\)', re.DOTALL)
_IMPLICIT_ENTRY = "entry"


@paused_collector()
def parse_hlo(text: str, label: str = "text", fragment: bool = False) -> Module:
    """Parse HLO text. `label` names the file in messages. Shapes are checked by the import, which also finds those that
    the text leaves out.

    `fragment`: part of a module, such as one computation or one instruction; it may call computations that it does
    not hold, and a bare instruction may read what has no shape. UserError with label, line and column for any error
    in the syntax.
    """
    return _Parser(Lexer(Origin(text, label)), fragment).module()


class _Body:
    """The computation being read: its instructions by name, in order."""

    def __init__(self) -> None:
        self.instructions: dict[str, Instruction] = {}
        self.root = ""
        self.implicit = 0  # parameters a bare instruction implies


class _Parser:
    """One method for each rule of the grammar; every nesting is counted."""

    def __init__(self, lexer: Lexer, fragment: bool) -> None:
        self.lexer = lexer
        self.fragment = fragment
        self.is_incomplete = False
        self.shapes = ShapeParser(lexer)
        self.computations: dict[str, Computation] = {}
        self.entry = ""
        self.depth = 0

    # The module.

    def module(self) -> Module:
        lexer = self.lexer
        name, attributes = "module", {}
        if lexer.kind == "word" and lexer.text == "HloModule":
            lexer.advance()
            if lexer.kind == "label":  # older texts write the name with a colon
                name = lexer.take("label")[:-1]
            else:
                name = take_name(lexer, "the name of the module")
            attributes = self.attributes(header=True)
        tables = self.tables()
        if lexer.kind == "end":
            raise lexer.error("an HLO module must hold a computation", lexer.start)
        while lexer.kind != "end":
            self.top_level()
        entry = self.entry or next(reversed(self.computations))
        return Module(
            name, self.computations, entry, attributes, tables, lexer.origin, self.is_incomplete
        )

    def tables(self) -> dict[str, dict[int, str | dict[str, int]]]:
        """The stack-frame tables of newer dumps."""
        lexer = self.lexer
        tables: dict[str, dict[int, str | dict[str, int]]] = {}
        while lexer.kind == "word" and lexer.text in _TABLES:
            rows = tables.setdefault(lexer.take("word"), {})
            while lexer.kind == "int":
                number = lexer.integer("a number")
                rows[number] = (
                    unescape(lexer.take("string")) if lexer.kind == "string" else self.table_row()
                )
        return tables

    def table_row(self) -> dict[str, int]:
        lexer = self.lexer
        lexer.take("{", "a string or '{'")
        row = {}
        while not lexer.accept("}"):
            key = lexer.take("attr", "a field or '}'")[:-1]
            row[key] = lexer.integer("a number")
        return row

    def top_level(self) -> None:
        """Parse a computation, or a bare instruction, which becomes a computation."""
        lexer = self.lexer
        position = lexer.start
        is_entry = lexer.kind == "word" and lexer.text == "ENTRY"
        if is_entry:
            lexer.advance()
        elif lexer.kind in ("shape", "(") or (lexer.kind == "word" and lexer.text == "ROOT"):
            return self.bare_instruction("")
        if is_entry and self.entry:
            raise lexer.error(f"there must be one ENTRY, '{self.entry}' is one already", position)
        name = take_name(lexer, "the name of a computation")
        if lexer.kind == "=" and not is_entry:
            return self.bare_instruction(name)
        self.add(self.computation(name, is_entry, position))
        if is_entry:
            self.entry = name
        return None

    def add(self, computation: Computation) -> None:
        if computation.name in self.computations:
            raise self.lexer.error(
                f"the name of a computation must be used once, got '{computation.name}' again",
                computation.position,
            )
        self.computations[computation.name] = computation

    def bare_instruction(self, name: str) -> None:
        """An instruction outside any computation; operands that are not defined become parameters."""
        lexer = self.lexer
        position = lexer.start
        if self.computations:
            raise lexer.error("an instruction must be in a computation", position)
        body = _Body()
        while lexer.kind != "end":
            if not name and self.shapes.at_shape:
                self.definition(body, "root", position, bare=True)
            else:
                if not name and lexer.kind == "word" and lexer.text == "ROOT":
                    lexer.advance()
                name = name or take_name(lexer, "the name of an instruction")
                lexer.take("=", "'='")
                self.definition(body, name, position, bare=True)
            name = ""
        self.add(self.finished(body, _IMPLICIT_ENTRY, False, None, position))

    # Computations.

    def computation(self, name: str, is_entry: bool, position: int) -> Computation:
        lexer = self.lexer
        signature = self.signature() if lexer.kind == "(" else None
        lexer.take("{", "'{' of the computation")
        body = self.instructions()
        thread = ""
        if lexer.kind == ",":
            lexer.advance()
            if lexer.take("attr", "execution_thread=") != "execution_thread=":
                raise lexer.error(
                    "a computation must have no attribute but execution_thread=", lexer.start
                )
            thread = unescape(lexer.take("string", "a string"))
        return self.finished(body, name, is_entry, signature, position, thread)

    def finished(
        self,
        body: _Body,
        name: str,
        is_entry: bool,
        signature: tuple[tuple[tuple[str, Shape], ...], Shape] | None,
        position: int,
        thread: str = "",
    ) -> Computation:
        if not body.instructions:
            raise self.lexer.error(f"computation '{name}' must hold an instruction", position)
        root = body.root or next(reversed(body.instructions))
        made = Computation(
            name, tuple(body.instructions.values()), root, is_entry, signature, thread, position
        )
        numbers = [p.number for p in made.parameters]
        if numbers != list(range(len(numbers))):
            raise self.lexer.error(
                f"the parameters of '{name}' must be numbered from 0, got {_few(numbers)}", position
            )
        return made

    def signature(self) -> tuple[tuple[tuple[str, Shape], ...], Shape]:
        lexer = self.lexer
        lexer.take("(")
        parameters: list[tuple[str, Shape]] = []
        while not lexer.accept(")"):
            if parameters:
                lexer.take(",")
            if lexer.kind == "label":
                name = lexer.take("label")[:-1]
            else:
                name = take_name(lexer, "a parameter or ')'")
                lexer.accept(":")
            parameters.append((name, self.shapes.parse()))
        lexer.take("->")
        return tuple(parameters), self.shapes.parse()

    def instructions(self) -> _Body:
        lexer = self.lexer
        body = _Body()
        while lexer.kind != "}":
            position = lexer.start
            is_root = lexer.kind == "word" and lexer.text == "ROOT"
            if is_root:
                lexer.advance()
            name = lexer.take_name("an instruction or '}'")
            lexer.take("=", "'='")
            self.definition(body, name, position)
            if is_root:
                if body.root:
                    raise lexer.error(
                        f"there must be one ROOT, '{body.root}' is one already", position
                    )
                body.root = name
        lexer.advance()
        return body

    # Instructions.

    def definition(self, body: _Body, name: str, position: int, bare: bool = False) -> None:
        """Parse the text after `name =` and add the instruction to the body."""
        lexer = self.lexer
        shape = self.shapes.parse() if self.shapes.at_shape else None
        opcode = lexer.take("word", "an opcode")
        instruction = self.operation(body, name, opcode, shape, position, bare)
        if name in body.instructions:
            raise lexer.error(f"a name must be defined once, got '{name}' again", position)
        body.instructions[name] = instruction

    def operation(
        self, body: _Body, name: str, opcode: str, shape: Shape | None, position: int, bare: bool
    ) -> Instruction:
        """An operation; a nested one, which has no name, has no attributes either."""
        lexer = self.lexer
        if lexer.kind != "(":
            raise lexer.expected(f"'(' after '{opcode}'")
        literal, number = None, -1
        operands: tuple[Operand, ...] = ()
        if opcode == "constant":
            literal = self.literal(shape, position)
        elif opcode == "parameter":
            lexer.advance()
            number = lexer.integer("the number of the parameter")
            lexer.take(")")
        else:
            operands = self.operands(body, bare)
        attributes = self.attributes() if name and lexer.kind == "," else {}
        return Instruction(name, opcode, shape, operands, attributes, number, literal, position)

    def literal(self, shape: Shape | None, position: int) -> Literal:
        """The value of a constant; the current token is the parenthesis before it."""
        lexer = self.lexer
        if shape is None:
            raise lexer.error("a constant must have its shape written", position)
        found = _CONSTANT.match(lexer.source, lexer.end)
        if found:
            text, end = found[0][:-1], found.end()
        else:
            group = lexer.raw_group(lexer.start)
            text, end = group[1:-1], lexer.start + len(group)
        try:
            value = parse_literal(text, shape)
        except UserError as error:
            raise lexer.error(str(error), lexer.start) from error
        lexer.move(end)
        return value

    def operands(self, body: _Body, bare: bool) -> tuple[Operand, ...]:
        lexer = self.lexer
        lexer.advance()
        operands: list[Operand] = []
        while lexer.kind != ")":
            if operands:
                lexer.take(",", "',' or ')'")
            operands.append(self.operand(body, bare))
        lexer.advance()
        return tuple(operands)

    def operand(self, body: _Body, bare: bool) -> Operand:
        lexer = self.lexer
        position = lexer.start
        shape = self.shapes.parse() if lexer.kind in ("shape", "(") else None
        name = lexer.take_name("an operand")
        if lexer.kind == "(":
            return self.nested(body, name, shape, position, bare)
        path: tuple[int, ...] = ()
        while lexer.accept("#"):
            path += (lexer.integer("an index into a tuple"),)
        if name not in body.instructions:
            if not bare or (shape is None and not self.fragment):
                raise lexer.error(f"'{name}' must be defined before it is used", position)
            self.is_incomplete |= shape is None
            number = body.implicit
            parameter = Instruction(name, "parameter", shape, number=number, position=position)
            body.implicit += 1
            body.instructions[name] = parameter
        return Operand(name, path, shape)

    def nested(
        self, body: _Body, opcode: str, shape: Shape | None, position: int, bare: bool
    ) -> Operand:
        """An operation written as an operand: it becomes a separate instruction."""
        self.enter(position)
        made = self.operation(body, "", opcode, shape, position, bare)
        self.depth -= 1
        name = f"nested.{position}"
        body.instructions[name] = Instruction(
            name, opcode, shape, made.operands, made.attributes, made.number, made.literal, position
        )
        return Operand(name, (), shape)

    def enter(self, position: int) -> None:
        self.depth += 1
        if self.depth > MAX_NESTED:
            raise self.lexer.too_deep(position)

    def attributes(self, header: bool = False) -> dict[str, Attribute]:
        lexer = self.lexer
        attributes: dict[str, Attribute] = {}
        while lexer.kind == ",":
            lexer.advance()
            if lexer.kind != "attr":
                raise lexer.expected("the name of an attribute")
            name, position = lexer.text[:-1], lexer.start
            if name in COMPUTATION_VALUED and not header:
                value: Attribute = self.called(name)
            else:
                value = (parse_raw if header else parse_attribute)(lexer, name)
            if name in attributes:
                raise lexer.error(f"an attribute must be given once, got '{name}' again", position)
            if name in COMPUTATION_LISTS and isinstance(value, tuple):
                for called in value:
                    self.check_defined(getattr(called, "name", ""), position)
            attributes[name] = value
        return attributes

    def check_defined(self, name: str, position: int) -> None:
        if name in self.computations:
            return
        if not self.fragment:
            message = f"computation '{name}' must be defined before it is used"
            raise self.lexer.error(message, position)
        self.is_incomplete = True

    def called(self, attribute: str) -> Called:
        """A computation by its name, or written in place and then given one."""
        lexer = self.lexer
        lexer.advance()
        position = lexer.start
        if lexer.kind != "{":
            name = take_name(lexer, "the name of a computation")
            self.check_defined(name, position)
            return Called(name)
        self.enter(position)
        lexer.advance()
        signature = self.signature() if lexer.kind == "(" else None
        if signature and lexer.accept("{"):
            body = self.instructions()
            lexer.take("}")
        else:
            body = self.instructions()
        name = f"{attribute}.{position}"
        self.add(self.finished(body, name, False, signature, position))
        self.depth -= 1
        return Called(name)


def _few(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:8]))
    return f"{shown}, ..." if len(numbers) > 8 else shown or "none"
