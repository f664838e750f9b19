"""Names of targets as users write them: `native`, an instruction set, or one with optional features added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..base.errors import UserError
from ..base.suggestion import suggestion
from .isa import ISAS

NATIVE = "native"


class TargetNames:
    """The choices of `--target`: iteration yields names without features, names with features are among them."""

    def __iter__(self) -> Iterator[str]:
        return iter((NATIVE, *ISAS))

    def __contains__(self, name: object) -> bool:
        return str(name).split("+")[0] in (NATIVE, *ISAS)


def split_target_name(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the instruction set and the features of a name: `aarch64+dotprod` is ("aarch64", ("dotprod",)).

    Raise UserError if the set is not known, or has no such optional feature.
    """
    isa, *added = name.split("+")
    if isa not in TargetNames():
        raise UserError(f"target '{name}' is not known; {_right(isa, [*TargetNames()])}")
    optional = () if isa == NATIVE else ISAS[isa].optional
    for one in added:
        if one not in optional:
            raise UserError(
                f"target '{name}': {isa} has no optional feature '{one}'; {_right(one, optional)}"
            )
    return isa, tuple(added)


def _right(word: str, known: Sequence[str]) -> str:
    like = suggestion(word, known)
    listed = f"known are {', '.join(known)}" if known else "it has none"
    return f"{like} {listed}" if like else listed
