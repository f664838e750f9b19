"""Recognizes small scalar computations by their text without names."""

from __future__ import annotations

from .syntax import Called, Computation, Operand, Word

_MAX_INSTRUCTIONS = 24
_MAX_TEXT = 2000
_COMMUTATIVE = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")


def describe(computation: Computation) -> str:
    """The result as nested operations on p0, p1, ...: `maximum(p0,p1)`; "" where the computation is not small."""
    if len(computation.instructions) > _MAX_INSTRUCTIONS:
        return ""
    texts: dict[str, str] = {}
    for instruction in computation.instructions:
        if instruction.opcode == "parameter":
            texts[instruction.name] = f"p{instruction.number}"
            continue
        if instruction.literal is not None:
            texts[instruction.name] = str(instruction.literal.value)
            continue
        if any(isinstance(v, Called) for v in instruction.attributes.values()):
            return ""
        direction = instruction.attributes.get("direction")
        suffix = f".{direction.text}" if isinstance(direction, Word) else ""
        parts = ",".join(_operand(texts, operand) for operand in instruction.operands)
        text = f"{instruction.opcode}{suffix}({parts})"
        if len(text) > _MAX_TEXT:
            return ""
        texts[instruction.name] = text
    return texts[computation.root]


def _operand(texts: dict[str, str], operand: Operand) -> str:
    return texts[operand.name] + "".join(f"#{i}" for i in operand.path)


def single_opcode(computation: Computation) -> str:
    """The opcode of a body that is one commutative operation on its two parameters, else ""."""
    text = describe(computation)
    opcode, _, rest = text.partition("(")
    return opcode if opcode in _COMMUTATIVE and rest in ("p0,p1)", "p1,p0)") else ""


def _extreme_body(compare: str) -> str:
    better = f"or(compare.{compare}(p0,p2),compare.NE(p0,p0))"
    earlier = "and(compare.EQ(p0,p2),compare.LT(p1,p3))"
    return f"tuple(select({better},p0,p2),select(or({better},{earlier}),p1,p3))"


def is_arg_extreme(computation: Computation) -> str:
    """ "max" or "min" for the body JAX writes for argmax and argmin: (value, index) pairs, the first index wins."""
    text = describe(computation)
    for word, compare in (("max", "GT"), ("min", "LT")):
        if text == _extreme_body(compare):
            return word
    return ""


def sort_order(computation: Computation) -> str:
    """ "GT" or "LT" for a comparator of the first array alone, "" for any other.

    Both elements may pass through the same canonicalization of zeros and NaNs first.
    """
    text = describe(computation)
    for direction in ("GT", "LT"):
        start = f"compare.{direction}("
        if text.startswith(start):
            inside = text[len(start) : -1]
            half = len(inside) // 2
            left, comma, right = inside[:half], inside[half : half + 1], inside[half + 1 :]
            same = left.replace("p0", "p1") == right and "p1" not in left and comma == ","
            return direction if same and (left == "p0" or left in _CANONICAL) else ""
    return ""


_ZERO = "select(compare.EQ(p0,0.0),0.0,p0)"
_CANONICAL = (
    _ZERO,
    f"select(compare.NE(p0,p0),nan,{_ZERO})",
    "select(compare.NE(p0,p0),nan,p0)",
)
