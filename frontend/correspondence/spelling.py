"""Parses the cells of a table: how one format spells an op.

LeakyRelu(X | alpha)                          operands in the op's order, then attributes of the same names
F.elu/nn.ELU(input | alpha)                   two types of one meaning; the first is written
torch./Tensor.roll(input | shifts)            prefixes of one name: torch.roll and Tensor.roll
nn.MaxPool[123]d(input)                       one type for each character in brackets
LeakyRelu(x | negative_slope=alpha)           the format's name, then ours
nn.leaky_relu(data | alpha?0.25)              what an absent attribute stands for here
Cast(x | dst_type=dtype:dtype)                how the value is to be understood (`values.KINDS`)
Elu(x | alpha, scale=1.0)                     an attribute that must have this value, and is written with it
nn_norm(data | axis=1?1)                      the same; absent, it has the value after the `?`
ReduceSum(data, axes=axes? | keepdims=keep_dims)   a constant operand that holds an attribute of ours
select(self, dim=axis?0, index, half=false)   in one list, as in Python: a format may take attributes by position
Max(data_0*), Clip(input, min?)               operands that may be any number, or absent
sort(input, dim=axis | stable=_)              an operand or attribute that does not matter
And(A, B) where bool                          only for such element types
GeluV2(x) where approximate='tanh'            only where our attribute has this value
Softmax(input | axis) by softmax              functions of the format's own, `Pair`s, do what a row cannot say
AddV2(x1, x2) read only                       never written; `write only` likewise (`by` a pair, its text is only shown)
"""

from __future__ import annotations

import re
from dataclasses import field
from fractions import Fraction
from typing import Any

from ...base.records import dataclass

KIND_WORDS = {"float": ("float",), "int": ("int", "uint"), "bool": ("bool",)}
"""Conditions on the element type of the op's first operand that is not a condition itself."""

IGNORED = "_"
"""Marks an operand that does not affect the result, instead of an attribute."""

_TAIL = re.compile(r"\s+(where|by|read only|write only)(?=\s|\Z)")
_ITEM = re.compile(
    r"(?P<name>[\w.\-]+)(?P<many>\*)?"
    r"(?:=(?P<value>'[^']*'|[\w.\-/+]+))?(?::(?P<kind>\w+))?(?P<optional>\?(?P<default>'[^']*'|[\w.\-/+]*))?\Z",
    re.ASCII,
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*(e[+-]?\d+)?|inf)(/\d+)?\Z")
_WORDS = {"true": True, "false": False, "none": None}


@dataclass(frozen=True)
class Formal:
    """An operand in the format. `holds` is graphc's attribute if the operand is a constant that holds one."""

    name: str
    index: int
    optional: bool = False
    variadic: bool = False
    holds: str = ""
    kind: str = ""
    has_default: bool = False
    default: Any = None


@dataclass(frozen=True)
class Attribute:
    """An attribute of the format: graphc's attribute `ours` under another name, or (`ours` empty) always `literal`."""

    name: str
    ours: str = ""
    literal: Any = None
    kind: str = ""
    has_default: bool = False
    default: Any = None


@dataclass(frozen=True)
class Spelling:
    """One way a format spells an op. `text` is the cell, `types` its names for the op, the preferred one first."""

    text: str
    types: tuple[str, ...]
    formals: tuple[Formal, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    kinds: tuple[str, ...] = ()
    fixed: dict[str, Any] = field(default_factory=dict)
    pair: str = ""
    is_read: bool = True
    is_written: bool = True
    ignored: tuple[str, ...] = ()

    @property
    def operands(self) -> tuple[Formal, ...]:
        """The operands that are operands of the op."""
        return tuple(formal for formal in self.formals if not formal.holds)

    @property
    def held(self) -> tuple[Formal, ...]:
        """The operands that are constants and hold an attribute."""
        return tuple(formal for formal in self.formals if formal.holds not in ("", IGNORED))

    @property
    def mentioned(self) -> set[str]:
        """The attributes of the op that the spelling mentions."""
        named = {a.ours for a in self.attributes if a.ours}
        return {*named, *self.fixed, *(formal.holds for formal in self.held)}


def parse_spelling(text: str) -> Spelling:
    """Parse a cell of a table. Raise ValueError if it is not written as above."""
    head, *tails = _TAIL.split(text)
    clauses = dict(zip(tails[::2], (t.strip() for t in tails[1::2]), strict=True))
    kinds, fixed = _conditions(clauses.get("where", ""), text)
    rest = {
        "kinds": kinds,
        "fixed": fixed,
        "pair": clauses.get("by", ""),
        "is_read": "write only" not in clauses,
        "is_written": "read only" not in clauses,
    }
    names, found, inside = head.partition("(")
    if found and not inside.endswith(")"):
        raise ValueError(f"'{text}' has no closing parenthesis")
    if rest["pair"] and not rest["is_read"]:  # a picture of what a function writes
        return Spelling(text, (names.strip(),), **rest)
    operands, _, attributes = inside.removesuffix(")").partition("|")
    positions = list(enumerate(_items(operands)))
    held = [item for _, item in positions if _is_literal(item.partition("=")[2])]
    formals = tuple(_formal(item, i, text) for i, item in positions if item not in held)
    named = tuple(_attribute(item, text) for item in (*held, *_items(attributes)))
    rest["ignored"] = tuple(x.name for x in formals if x.holds == IGNORED)
    rest["ignored"] += tuple(x.name for x in named if x.ours == IGNORED)
    named = tuple(x for x in named if x.ours != IGNORED)
    return Spelling(text, _types(names.strip()), formals, named, **rest)


def _types(text: str) -> tuple[str, ...]:
    """The types that the head of a cell names."""
    found: list[str] = []
    name = ""
    for one in reversed(text.split("/")):
        full = one + name if one[-1:] in (".", ":") else one
        name = full[max(full.rfind("."), full.rfind(":")) + 1 :]
        head, bracket, rest = full.partition("[")
        letters, _, tail = rest.partition("]")
        found[:0] = [head + letter + tail for letter in letters] if bracket else [full]
    return tuple(found)


def literal(text: str) -> Any:
    """A value as cells write it: 1, 0.5, 1/6, -inf, true, none, 'word'."""
    if text.startswith("'"):
        return text[1:-1]
    if text in _WORDS:
        return _WORDS[text]
    top, _, bottom = text.partition("/")
    if bottom:
        return float(Fraction(int(top), int(bottom)))
    return float(top) if re.search(r"[.eif]", top) else int(top)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _is_literal(text: str) -> bool:
    return text.startswith("'") or text in _WORDS or bool(_NUMBER.match(text))


def _matched(item: str, text: str) -> re.Match[str]:
    match = _ITEM.match(item)
    if match is None:
        raise ValueError(f"'{item}' in '{text}' is not an operand or attribute")
    return match


def _formal(item: str, index: int, text: str) -> Formal:
    m = _matched(item, text)
    default, holds = m["default"], m["value"] or ""
    if default and not holds:
        raise ValueError(f"'{item}' in '{text}' is an operand, which has no default")
    optional, variadic = m["optional"] is not None, m["many"] is not None
    value = literal(default) if default else None
    return Formal(
        m["name"], index, optional, variadic, holds, m["kind"] or "", bool(default), value
    )


def _attribute(item: str, text: str) -> Attribute:
    m = _matched(item, text)
    value, kind = m["value"] or m["name"], m["kind"] or ""
    default = literal(m["default"]) if m["default"] else None
    has_default = bool(m["default"])
    if m["value"] and _is_literal(value):
        return Attribute(m["name"], "", literal(value), kind, has_default, default)
    return Attribute(m["name"], value, None, kind, has_default, default)


def _conditions(clause: str, text: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    kinds: tuple[str, ...] = ()
    fixed: dict[str, Any] = {}
    for item in _items(clause):
        name, equals, value = item.partition("=")
        if equals:
            fixed[name] = literal(value)
        elif name in KIND_WORDS:
            kinds += KIND_WORDS[name]
        else:
            raise ValueError(f"'{item}' in '{text}' is not a condition")
    return kinds, fixed
