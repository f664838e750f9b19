"""Upkeep of a compile cache: its contents, the entries and weights to delete, and a check of every byte.

Weights are files that several models refer to (`runtime/weights_store.py`). One that no model refers to is deleted,
unless it is so new that the model of its writer may be missing yet.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ..base.errors import UserError
from ..base.own_files import own_file
from ..base.records import dataclass
from ..base.whole_file import TEMPORARY_FILES
from ..runtime.artifact import Artifact
from ..runtime.weights_store import WeightsStore

SUFFIX, ALIAS_SUFFIX, KERNEL_SUFFIX, SEEN_SUFFIX = ".gcm", ".key", ".kernel", ".seen"
LIMIT_BYTES = 4 << 30
"""The least recently used entries are deleted when the cache exceeds this size."""

ABANDONED_SECONDS = 3600.0
"""Age from which a temporary file, or weights without a model, are assumed to belong to a killed writer."""

CHECK_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True)
class Entry:
    """One compiled model in the cache; times in seconds since 1970. `shared_bytes`: bytes of its weights."""

    key: str
    model: str
    size_bytes: int
    used: float
    shared_bytes: int = 0


@dataclass(frozen=True)
class Contents:
    """Contents of a cache: its models, last used first, and number and bytes of its kernels and weights."""

    models: tuple[Entry, ...]
    kernels: int
    kernel_bytes: int
    weights: int = 0
    weight_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of all of it."""
        own = sum(entry.size_bytes for entry in self.models)
        return self.kernel_bytes + self.weight_bytes + own


class Upkeep:
    """The files of one folder, which only the user can change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = WeightsStore(folder / "weights", own_file)

    def entries(self) -> list[tuple[Path, os.stat_result]]:
        """Models and kernels with their status, last used first."""
        names = (*self.folder.glob(f"*{SUFFIX}"), *self.folder.glob(f"*{KERNEL_SUFFIX}"))
        return sorted(_with_status(names), key=lambda item: -item[1].st_mtime)

    def contents(self) -> Contents:
        """Return what the cache holds."""
        found, kernels = [], []
        for path, info in self.entries():
            if path.suffix == KERNEL_SUFFIX:
                kernels.append(info.st_size)
                continue
            shared = 0
            try:
                model = Artifact.read_metadata(path, opener=own_file).model
                shared = sum(part.size for part in Artifact.read_shared(path, own_file))
            except UserError as error:
                model = f"corrupt: {error}"
            key = path.name.removesuffix(SUFFIX)
            found.append(Entry(key, model, info.st_size, info.st_mtime, shared))
        weights = [info.st_size for _, info in _with_status(self.store.files())]
        return Contents(tuple(found), len(kernels), sum(kernels), len(weights), sum(weights))

    def beyond(self, limit: int) -> list[Path]:
        """Return the least recently used entries that do not fit in a number of bytes, and weights that only they use.

        A process that writes a model with such weights meanwhile finds it corrupt, and compiles it again.
        """
        sizes = {path: info.st_size for path, info in _with_status(self.store.files())}
        entries = self.entries()
        if sum(sizes.values()) + sum(info.st_size for _, info in entries) <= limit:
            return []
        total, old = 0, []
        kept: set[Path] = set()
        left: dict[Path, None] = {}
        for path, info in entries:
            used = self._weights_of(path) if path.suffix == SUFFIX else []
            total += info.st_size + sum(sizes.pop(file, 0) for file in used)
            if total > limit:
                old.append(path)
                left |= dict.fromkeys(used)
            else:
                kept.update(used)
        return [*old, *(file for file in left if file not in kept)]

    def unused(self, everything: bool = False) -> list[Path]:
        """Return files that nothing refers to: weights, aliases of models that are gone, leftovers of killed writers.

        `everything`: also those that another process may be writing.
        """
        models = list(self.folder.glob(f"*{SUFFIX}"))
        used = {file for path in models for file in self._weights_of(path)}
        age = 0 if everything else ABANDONED_SECONDS
        old = self.abandoned(age) + _older((x for x in self.store.files() if x not in used), age)
        keys = {path.name.removesuffix(SUFFIX) for path in models}
        aliases = self.folder.glob(f"*{ALIAS_SUFFIX}")
        old += [path for path in aliases if not _refers_to(path, keys)]
        return old + [path for path in self.folder.glob(f"*{SEEN_SUFFIX}") if path.stem not in keys]

    def abandoned(self, age: float = ABANDONED_SECONDS) -> list[Path]:
        """Return temporary files of writers that were killed: those of at least `age` seconds."""
        folders = self.folder, self.store.folder
        return _older((path for one in folders for path in one.glob(TEMPORARY_FILES)), age)

    def corrupt_weights(self, path: Path) -> list[Path]:
        """Return the files of weights that a model refers to and that are corrupt."""
        return self.store.corrupt(self._weights_of(path))

    def corrupt(self) -> dict[Path, str]:
        """Check every file; return those to delete, with the reasons."""
        found = dict.fromkeys(self.store.corrupt(self.store.files()), "its SHA-256 differs")
        for suffix, check in _CHECKS.items():
            for path in sorted(self.folder.glob(f"*{suffix}")):
                try:
                    check(path)
                except UserError as error:
                    found[path] = str(error)
                except OSError as error:
                    found[path] = str(error.strerror)
        return found

    def _weights_of(self, path: Path) -> list[Path]:
        try:
            shared = Artifact.read_shared(path, own_file)
        except UserError:
            return []
        return [self.store.path(part.sha256) for part in shared]


def checked_kernel(path: Path) -> bytes:
    """Return the object code in the file of a kernel. Raise OSError or UserError for a corrupt one."""
    data = _read(path)
    code = data[CHECK_BYTES:]
    if hashlib.sha256(code).digest() != data[:CHECK_BYTES]:
        raise UserError(f"kernel '{path}' is corrupt; compile its model again")
    return code


def checked_alias(path: Path) -> str:
    """Return the key in the file of an alias. Raise OSError or UserError for a corrupt one."""
    data = _read(path)
    key = data.partition(b" ")[0].decode(errors="replace")
    if data != alias_bytes(path, key):
        raise UserError(f"alias '{path}' is corrupt; compile its model again")
    return key


def alias_bytes(path: Path, key: str) -> bytes:
    """Return what the file of an alias for a key contains: the key, and a hash of both."""
    return f"{key} {hashlib.sha256(f'{path.stem} {key}'.encode()).hexdigest()}".encode()


_CHECKS: dict[str, Callable[[Path], object]] = {
    SUFFIX: lambda path: Artifact.load(path, opener=own_file),
    KERNEL_SUFFIX: checked_kernel,
    ALIAS_SUFFIX: checked_alias,
    SEEN_SUFFIX: checked_alias,
}
"""Readers of the files of the folder, by suffix, which raise an error for a corrupt one."""


def _read(path: Path) -> bytes:
    with open(path, "rb", opener=own_file) as stream:
        return stream.read()


def _refers_to(path: Path, keys: set[str]) -> bool:
    try:
        return checked_alias(path) in keys
    except (OSError, UserError):
        return False


def _older(paths: Iterable[Path], age: float) -> list[Path]:
    before = time.time() - age
    return [path for path, info in _with_status(paths) if info.st_mtime <= before or not age]


def _with_status(paths: Iterable[Path]) -> list[tuple[Path, os.stat_result]]:
    found = []
    for path in paths:
        try:
            found.append((path, path.lstat()))
        except OSError:  # deleted by another process in the meantime
            continue
    return found
