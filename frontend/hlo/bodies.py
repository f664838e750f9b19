"""Recognizes small scalar computations by their text without names."""

from __future__ import annotations

from dataclasses import replace

from .syntax import Called, Computation, Instruction, Operand, Raw, Word

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


def sort_key(body: Computation) -> tuple[Instruction, Computation, bool] | None:
    """(comparison, the scalar computation of the key, largest first) of a comparator of one key per element."""
    known = {i.name: i for i in body.instructions}
    root = known[body.root]
    direction = root.attributes.get("direction")
    if root.opcode != "compare" or direction not in (Word("LT"), Word("GT")):
        return None
    a, b = root.operands
    for first, second, larger in ((a, b, "GT"), (b, a, "LT")):
        if not first.path and _is_mirrored(known, first.name, second.name, set()):
            key = replace(body, root=first.name)
            return root, key, direction == Word(larger)
    return None


def _is_mirrored(known: dict[str, Instruction], a: str, b: str, seen: set[tuple[str, str]]) -> bool:
    """Return whether b computes from each parameter 2i + 1 what a computes from 2i."""
    x, y = known[a], known[b]
    if x.opcode == "parameter":
        return y.opcode == "parameter" and x.number % 2 == 0 and y.number == x.number + 1
    if (a, b) in seen:
        return True
    seen.add((a, b))
    return _form(x) == _form(y) and all(
        p.path == q.path and _is_mirrored(known, p.name, q.name, seen)
        for p, q in zip(x.operands, y.operands, strict=True)
    )


def _form(x: Instruction) -> tuple[object, ...]:
    attributes = {k: v for k, v in x.attributes.items() if not isinstance(v, Raw)}
    return x.opcode, x.shape, len(x.operands), attributes, repr(x.literal)


def is_canonical(key: Computation, is_total: bool) -> bool:
    """Return whether a key orders elements of the first array as `top_k` does: equal zeros, NaN the largest value."""
    text = describe(key)
    return text == _CANONICAL if is_total else text in ("p0", _ZERO, _NAN, _CANONICAL)


_ZERO = "select(compare.EQ(p0,0.0),0.0,p0)"
_NAN = "select(compare.NE(p0,p0),nan,p0)"
_CANONICAL = f"select(compare.NE(p0,p0),nan,{_ZERO})"
