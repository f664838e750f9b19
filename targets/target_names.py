"""Names of targets as users write them: `native` or an instruction set, with optional features and a system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..base.errors import UserError
from ..base.suggestion import suggestion
from .isa import ISAS, declared_features
from .systems import SYSTEMS

NATIVE = "native"


class TargetNames:
    """The choices of `--target`: iteration yields names without features, names with features are among them."""

    def __iter__(self) -> Iterator[str]:
        return iter((NATIVE, *ISAS))

    def __contains__(self, name: object) -> bool:
        return str(name).partition("@")[0].split("+")[0] in (NATIVE, *ISAS)


class TargetName(NamedTuple):
    """The parts of a target's name: `aarch64+dotprod@macos` is ("aarch64", ("dotprod",), "macos")."""

    isa: str
    features: tuple[str, ...]
    system: str


def split_target_name(name: str) -> TargetName:
    """Return the parts of a name.

    Raise UserError if the instruction set or the system is not known, or has no such optional feature.
    """
    code, _, system = name.partition("@")
    isa, *added = code.split("+")
    if isa not in TargetNames():
        raise UserError(f"target '{name}' is not known; {_right(isa, [*TargetNames()])}")
    if system not in SYSTEMS and name != code:
        raise UserError(f"target '{name}': no such system; {_right(system, [*SYSTEMS])}")
    optional = (*(() if isa == NATIVE else ISAS[isa].optional), *declared_features())
    for one in added:
        if one not in optional:
            raise UserError(
                f"target '{name}': {isa} has no optional feature '{one}'; {_right(one, optional)}"
            )
    return TargetName(isa, tuple(added), system)


def _right(word: str, known: Sequence[str]) -> str:
    like = suggestion(word, known)
    listed = f"known are {', '.join(known)}" if known else "it has none"
    return f"{like} {listed}" if like else listed
