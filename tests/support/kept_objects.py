"""Object code kept between test runs: the folder that GRAPHC_TEST_CACHE names, if any.

Entries lie in a folder named by the hash of all sources that make them, so none is ever stale: objects of loops
below `LOOPS`, objects of LLVM IR below `TEXTS`. They are neither read nor written while a test has replaced a name
in those sources.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

import llvmlite

import graphc
from graphc.base.whole_file import whole_file

LOOPS = ("base", "targets", "tensor_ir", "codegen", "runtime")
"""All rooms that take part after lowering."""

TEXTS = ("codegen/aot.py",)
"""The sources that take part after LLVM IR has been emitted."""

_CHECK_BYTES = 16


class KeptObjects:
    """Values of one folder by key, made by `sources`, which are rooms or modules below `root`."""

    def __init__(self, folder: Path, root: Path, sources: tuple[str, ...]) -> None:
        self._folder = folder / _hash_of(root, sources)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._names = tuple(f"graphc.{source}".replace("/", ".") for source in sources)
        self._known: dict[str, dict[str, object]] = {}

    def get(self, key: bytes) -> object | None:
        """The value of a key; None if there is none, or a part of it only."""
        if self._replaced():
            return None
        try:
            data = self._path(key).read_bytes()
        except FileNotFoundError:
            return None
        check, value = data[:_CHECK_BYTES], data[_CHECK_BYTES:]
        return pickle.loads(value) if _hash(value) == check else None

    def put(self, key: bytes, value: object) -> None:
        """Keep a value."""
        if not self._replaced():
            data = pickle.dumps(value)
            with whole_file(self._path(key)) as stream:
                stream.write(_hash(data) + data)

    def _path(self, key: bytes) -> Path:
        return self._folder / key.hex()

    def _replaced(self) -> bool:
        """Return true while a name in a module of the sources is not what it was when that module was first seen."""
        return any(
            names.get(name) is not value
            for module, names in self._modules()
            for name, value in self._known.setdefault(module, dict(names)).items()
        )

    def _modules(self) -> list[tuple[str, dict[str, object]]]:
        return [
            (name, vars(module))
            for name, module in list(sys.modules.items())
            if any(f"{name}.py" == own or name.startswith(f"{own}.") for own in self._names)
        ]


def kept_objects(
    sources: tuple[str, ...], environ: Mapping[str, str] = os.environ
) -> KeptObjects | None:
    """The objects in the folder that GRAPHC_TEST_CACHE names; None without it."""
    folder = environ.get("GRAPHC_TEST_CACHE")
    return KeptObjects(Path(folder), Path(graphc.__path__[0]), sources) if folder else None


def _hash_of(root: Path, sources: tuple[str, ...]) -> str:
    digest = blake2b(f"{llvmlite.__version__} {sys.version}".encode(), digest_size=_CHECK_BYTES)
    for source in sources:
        path = root / source
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            data = file.read_bytes()
            digest.update(f"{file.relative_to(root).as_posix()} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=_CHECK_BYTES).digest()
