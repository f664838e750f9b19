"""The text of an instruction's emission: `c = llvm.name(c, <16 x i32> a, i64 stride * 4)`."""

from __future__ import annotations

import re
from functools import cache

from ..base.errors import UserError
from ..base.records import dataclass

_OPERAND = re.compile(r"(?:(<\d+ x \w+>|\w+) )?(\w+)(?: \* (\w+))?")
_EMISSION = re.compile(r"(?:(.+?) = )?(llvm\.[\w.]+)\((.*)\)")


@dataclass(frozen=True)
class Operand:
    """A parameter of the meaning or a number, LLVM's type of it, and what it is multiplied by.

    The type is "" where it is that of the parameter, `times` where there is no factor."""

    kind: str
    name: str
    times: str


@dataclass(frozen=True)
class Emission:
    """A call of an LLVM intrinsic. The result is None where it only writes memory."""

    result: Operand | None
    intrinsic: str
    operands: tuple[Operand, ...]


@cache
def parse_emission(text: str) -> Emission:
    """Return the call that an emission stands for. Raise UserError if it is not written as one."""
    found = _EMISSION.fullmatch(text)
    if found is None:
        raise _illegal(text)
    result, intrinsic, operands = found.groups()
    parsed = tuple(_operand(part, text) for part in operands.split(", "))
    return Emission(_operand(result, text) if result else None, intrinsic, parsed)


def _operand(part: str, text: str) -> Operand:
    found = _OPERAND.fullmatch(part)
    if found is None:
        raise _illegal(text)
    return Operand(*(group or "" for group in found.groups()))


def _illegal(text: str) -> UserError:
    return UserError(f"emission must be like 'c = llvm.name(c, <16 x i32> a, i32 4)', got '{text}'")
