"""`"y = gelu(x) * s + b" 1024x768 bf16`: elementwise expressions."""

from __future__ import annotations

import ast
import math

from ...base.dtypes import by_name
from ..problem import Problem, check_memory, problem_of
from ..problem_text import ProblemText, Word
from ..program import Program
from .epilogue import UNARY

TYPES = ("f32", "f64", "f16", "bf16")
OPERATORS = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div", ast.Pow: "Pow"}
FUNCTIONS = {
    "abs": "Abs", "ceil": "Ceil", "cos": "Cos", "elu": "Elu", "erf": "Erf", "exp": "Exp", "floor": "Floor",
    "log": "Log", "max": "Max", "min": "Min", "mish": "Mish", "reciprocal": "Reciprocal", "round": "Round",
    "sign": "Sign", "sin": "Sin", "softplus": "Softplus", "sqrt": "Sqrt",
}  # fmt: skip
SCALARS, VECTORS = "s", ("b", "g", "w")
"""Names of scalars and of vectors along the last axis; every other name is an array of the whole shape."""


def expression(text: ProblemText, words: list[Word]) -> Problem:
    """Operands are named as they are used: s and s1, s2, ... are scalars, b, g and w vectors along the last axis."""
    dtype = TYPES[0]
    if len(words) > 1 and words[-1].text in TYPES:
        dtype = words.pop().text
    shape = text.shape(words.pop() if words else None)
    check_memory(text.text, 3 * math.prod(shape) * by_name(dtype).size)
    start = words[0].column if words else 0
    end = words[-1].column + len(words[-1].text) if words else 0
    source = text.text[start:end].strip("\"'")
    program = Program(text.text, by_name(dtype))
    reader = _Reader(text, program, shape)
    y = reader.read(source)
    if not program.inputs:
        raise text.refuse(text.words[0], "an expression needs an operand of the whole shape, as x")
    return problem_of(program, y, reader.operations * math.prod(shape), y)


class _Reader:
    """Appends the operators of an expression to a program, and counts them."""

    def __init__(self, text: ProblemText, program: Program, shape: tuple[int, ...]) -> None:
        self.text = text
        self.program = program
        self.shape = shape
        self.operations = 0
        self._names: dict[str, str] = {}
        self._source = ""

    def read(self, source: str) -> str:
        """Return the result of `y = ...`, or of an expression alone. Raise UserError for anything else."""
        self._source = source
        try:
            (statement,) = ast.parse(source.strip()).body
        except (SyntaxError, ValueError) as error:
            raise self._wrong(None, "an expression is written as in Python") from error
        if not isinstance(statement, (ast.Assign, ast.Expr)):
            raise self._wrong(None, "an expression is written y = ...")
        result = self._value(statement.value)
        if not self.operations:
            raise self._wrong(None, "an expression needs an operator or a function")
        return result

    def _value(self, node: ast.expr) -> str:
        match node:
            case ast.Name(name):
                return self._operand(name)
            case ast.Constant(float() | int() as value):
                return self.program.scalar(f"c{node.col_offset}", value)
            case ast.UnaryOp(ast.USub(), operand):
                return self._call("Neg", self._value(operand))
            case ast.BinOp(left, op, right) if type(op) in OPERATORS:
                return self._call(OPERATORS[type(op)], self._value(left), self._value(right))
            case ast.Call(ast.Name(name), args, []):
                return self._function(node, name, [self._value(arg) for arg in args])
        raise self._wrong(
            node, "an expression has operators + - * / **, functions, names and numbers"
        )

    def _function(self, node: ast.expr, name: str, args: list[str]) -> str:
        if name in UNARY and len(args) == 1:
            self.operations += 1
            return UNARY[name](self.program, args[0])
        if name not in FUNCTIONS or len(args) != (2 if name in ("max", "min") else 1):
            listed = ", ".join(sorted({*FUNCTIONS, *UNARY}))
            raise self._wrong(node, f"'{name}' of {len(args)} is not known; functions are {listed}")
        return self._call(FUNCTIONS[name], *args)

    def _call(self, op: str, *operands: str) -> str:
        self.operations += 1
        return self.program.call(op, *operands)

    def _operand(self, name: str) -> str:
        if name not in self._names:
            letter = name.rstrip("0123456789")
            if letter == SCALARS:
                self._names[name] = self.program.scalar(name, 0.75)
            elif letter in VECTORS:
                self._names[name] = self.program.weight(name, self.shape[-1:])
            else:
                self._names[name] = self.program.input(name, self.shape)
        return self._names[name]

    def _wrong(self, node: ast.expr | None, rule: str) -> Exception:
        begin = max(self.text.text.find(self._source), 0)
        part = self._source if node is None else ast.get_source_segment(self._source, node) or ""
        column = begin + (node.col_offset if node else 0)
        return self.text.refuse(Word(part, column), rule)
