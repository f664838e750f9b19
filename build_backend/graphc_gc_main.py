"""Makes `python -m gc ...` run graphc, although `gc` is a built-in module that no package can take the place of.

`runpy` asks the loader of `gc` for its code, and a built-in module has none. For this one command line `install` puts
in a loader that gives code running `graphc.__main__`; as soon as it is asked, the old loader is back.
"""

from __future__ import annotations

import gc
import re
import sys
from importlib.machinery import BuiltinImporter
from types import CodeType, ModuleType

# One word of interpreter options: flags without a value, then at most one that takes the rest or the next word.
_OPTION = re.compile(r"-([^cmWX]*)([cmWX]?)(.*)", re.DOTALL)


def runs_gc(orig_argv: list[str]) -> bool:
    """Return whether an interpreter started with these words runs the module `gc`: `python -X dev -Im gc ...`."""
    words = iter(orig_argv[1:])
    for word in words:
        option = _OPTION.fullmatch(word)
        if option is None or word == "-":
            return False  # a script: what follows belongs to it
        if word.startswith("--"):
            if word == "--check-hash-based-pycs":
                next(words, "")
            continue
        _, letter, attached = option.groups()
        value = attached or (next(words, "") if letter else "")
        if letter in ("m", "c"):
            return letter == "m" and value == "gc"
    return False


class _Loader:
    """The built-in importer, and code for `runpy`."""

    @staticmethod
    def create_module(spec: object) -> ModuleType | None:
        return BuiltinImporter.create_module(spec)  # type: ignore[arg-type]

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        BuiltinImporter.exec_module(module)

    @staticmethod
    def get_code(name: str) -> CodeType:
        _set_loader(BuiltinImporter)
        run = "import runpy; runpy.run_module('graphc', run_name='__main__', alter_sys=True)"
        return compile(run, "<python -m gc>", "exec")


def _set_loader(loader: object) -> None:
    assert gc.__spec__ is not None
    gc.__spec__.loader = loader  # type: ignore[assignment]


def install() -> None:
    """Let this process run graphc, if it was started as `python -m gc`; otherwise change nothing."""
    if runs_gc(sys.orig_argv):
        _set_loader(_Loader)
