"""Systems other than Linux that code is written for, as objects which a program's own linker takes."""

from __future__ import annotations

from collections.abc import Mapping

from ..base.records import dataclass


@dataclass(frozen=True)
class System:
    """One system: the ending of its objects, and LLVM's triple for each machine."""

    suffix: str
    triples: Mapping[str, str]


SYSTEMS = {
    "macos": System(
        ".o",
        {"x86_64": "x86_64-apple-macosx11.0.0", "aarch64": "arm64-apple-macosx11.0.0"},
    ),
    "windows": System(
        ".obj",
        {"x86_64": "x86_64-pc-windows-msvc", "aarch64": "aarch64-pc-windows-msvc"},
    ),
}
"""The systems by the name that follows the `@` of a target: `avx2@macos` gives Mach-O, `avx2@windows` COFF."""


def system_of(triple: str) -> str:
    """Return the name of the system that a triple names, as a key of `SYSTEMS`; "" for all others."""
    return next((name for name, row in SYSTEMS.items() if triple in row.triples.values()), "")
