"""Compiled code kept between processes: whole models and single kernels, each a file named by the hash of all
that decides what comes out.

The folder belongs to its user alone, as code is loaded from it: one that others may enter is not used, nor one below a
folder in which others could exchange it (`base/own_files.py`), and an entry that is a link is none. An entry is checked
completely when read, and written under another name and then renamed, so that concurrent readers and writers, even
killed ones, never see a partial entry. A damaged entry is deleted and compiled again. Nothing here is an error: if the
cache cannot be used, a warning is logged and the model is compiled.

A model (`.gcm`) is found by the contents of its graph. Beside it an alias (`.key`), found by the contents or the status
of the file the graph was read from, holds its key: a file that was seen before need not be read again. `.seen` holds
the status of the entry when it was checked: while that is the same, its sections are not hashed again. A kernel
(`.kernel`: a SHA-256 and the object code it covers) is found by its loops, so that models share it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ..base.errors import UserError
from ..base.file_status import file_status
from ..base.own_files import own_file, weak_step
from ..base.records import dataclass
from ..base.whole_file import TEMPORARY_FILES, whole_file
from ..runtime.artifact import Artifact

SUFFIX, ALIAS_SUFFIX, KERNEL_SUFFIX, SEEN_SUFFIX = ".gcm", ".key", ".kernel", ".seen"
LIMIT_BYTES = 4 << 30
"""The least recently used entries are deleted when the cache exceeds this size."""

ABANDONED_SECONDS = 3600.0
"""Age from which a temporary file is assumed to belong to a killed writer."""

_CHECK_BYTES = hashlib.sha256().digest_size
_LOG = logging.getLogger("graphc.cache")


@dataclass(frozen=True)
class Entry:
    """One compiled model in the cache; times in seconds since 1970."""

    key: str
    model: str
    size_bytes: int
    used: float


@dataclass(frozen=True)
class Contents:
    """Contents of a cache: its models, last used first, and number and bytes of its kernels."""

    models: tuple[Entry, ...]
    kernels: int
    kernel_bytes: int

    @property
    def size_bytes(self) -> int:
        """Bytes of all of it."""
        return self.kernel_bytes + sum(entry.size_bytes for entry in self.models)


class CompileCache:
    """The compiled models and kernels of one folder."""

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self.folder = folder
        self._limit = limit_bytes

    def get(self, key: str) -> Artifact | None:
        """The artifact of a key; None where there is none, or none that can be trusted."""
        path = self.path(key)
        if self._refusal() is not None or not os.path.lexists(path):
            return None
        try:
            # Mapped pages are small: code that was compiled just now reads its constants from huge ones.
            is_seen = self.resolve(key, SEEN_SUFFIX) == file_status(path)
            artifact = Artifact.load(path, opener=own_file, checked=not is_seen)
            os.utime(path)
            self.link(key, file_status(path), SEEN_SUFFIX)
        except UserError as error:
            _LOG.warning("%s; it is deleted from the cache", error)
            self._delete([path])
            return None
        except OSError:  # the cache was cleared in the meantime
            return None
        return replace(artifact, origin="")

    def put(self, key: str, artifact: Artifact) -> bool:
        """Store an artifact and make room for it; return whether it was stored."""
        refusal = self._make_folder() or self._refusal()
        if refusal is None:
            try:
                # What a crash of the system damages is found when it is read, and made again.
                artifact.save(self._unlinked(self.path(key)), is_entry=True)
            except UserError as error:
                refusal = str(error)
        if refusal is not None:
            _LOG.warning("the compiled model is not kept: %s", refusal)
            return False
        self._make_room()
        return True

    def resolve(self, alias: str, suffix: str = ALIAS_SUFFIX) -> str | None:
        """The key an alias refers to; None if it is missing or damaged."""
        if self._refusal() is not None:
            return None
        try:
            key, _, check = _read(self.folder / f"{alias}{suffix}").decode().partition(" ")
        except (OSError, UnicodeDecodeError):
            return None
        return key if check == _check_of(alias, key) else None

    def link(self, alias: str, key: str, suffix: str = ALIAS_SUFFIX) -> None:
        """Let an alias refer to a stored key."""
        if self._refusal() is not None:
            return  # `put` has said so
        path = self.folder / f"{alias}{suffix}"
        try:
            with whole_file(self._unlinked(path), private=True) as stream:
                stream.write(f"{key} {_check_of(alias, key)}".encode())
        except OSError as error:
            _LOG.warning("'%s' cannot be written (%s)", path, error.strerror)

    def get_kernel(self, key: str) -> bytes | None:
        """The object code of a kernel; None where there is none, or a damaged one, which is deleted."""
        path = self.folder / f"{key}{KERNEL_SUFFIX}"
        if self._refusal() is not None:
            return None
        try:
            data = _read(path)
            os.utime(path)
        except OSError:
            return None
        code = data[_CHECK_BYTES:]
        if hashlib.sha256(code).digest() != data[:_CHECK_BYTES]:
            _LOG.warning("kernel '%s' is damaged; it is deleted from the cache", path)
            self._delete([path])
            return None
        return code

    def put_kernels(self, kernels: Mapping[str, bytes]) -> None:
        """Keep the object code of kernels, by key, and make room for it."""
        if not kernels or (self._make_folder() or self._refusal()) is not None:
            return  # `put` says so
        for key, code in kernels.items():
            path = self.folder / f"{key}{KERNEL_SUFFIX}"
            try:
                with whole_file(self._unlinked(path), private=True) as stream:
                    stream.write(hashlib.sha256(code).digest() + code)
            except OSError as error:
                _LOG.warning("'%s' cannot be written (%s)", path, error.strerror)
                return
        self._make_room()

    def contents(self) -> Contents:
        """Return the entries of the cache. UserError for a folder that must not be used."""
        self._check_folder()
        found, sizes = [], []
        for path, info in self._files():
            if path.suffix == KERNEL_SUFFIX:
                sizes.append(info.st_size)
                continue
            try:
                model = Artifact.read_metadata(path, opener=own_file).model
            except UserError as error:
                model = f"damaged: {error}"
            found.append(Entry(path.name.removesuffix(SUFFIX), model, info.st_size, info.st_mtime))
        return Contents(tuple(found), len(sizes), sum(sizes))

    def clear(self) -> tuple[int, int, int]:
        """Delete everything, also leftovers of killed writers; return (models, kernels, bytes). UserError as above."""
        self._check_folder()
        files = self._files()
        self._delete([path for path, _ in files])
        self._delete(self.folder.glob(TEMPORARY_FILES))
        self._delete_aliases()
        kernels = sum(path.suffix == KERNEL_SUFFIX for path, _ in files)
        return len(files) - kernels, kernels, sum(info.st_size for _, info in files)

    def _check_folder(self) -> None:
        refusal = self._refusal() if self.folder.exists() else None
        if refusal is not None:
            raise UserError(refusal)

    def path(self, key: str) -> Path:
        """Return the file of a compiled model."""
        return self.folder / f"{key}{SUFFIX}"

    def _unlinked(self, path: Path) -> Path:
        """The path of an entry to write: a link there would be followed, so it is removed."""
        if path.is_symlink():
            self._delete([path])
        return path

    def _make_folder(self) -> str | None:
        refusal = self._weak_step()  # before anything is made there
        if refusal is not None:
            return refusal
        try:
            for folder in reversed((self.folder, *self.folder.parents)):
                if not folder.is_dir():
                    folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            return f"cache folder '{self.folder}' cannot be made ({error.strerror})"
        return None

    def _refusal(self) -> str | None:
        """Return the reason why this folder must not be used; None if it may be used."""
        try:
            info = os.lstat(self.folder)
        except OSError as error:
            return f"cache folder '{self.folder}' cannot be read ({error.strerror}); set GRAPHC_CACHE_DIR"
        if not stat.S_ISDIR(info.st_mode):
            return f"cache folder '{self.folder}' is not a folder; remove it"
        if hasattr(os, "geteuid") and info.st_uid != os.geteuid():
            return f"cache folder '{self.folder}' belongs to another user; set GRAPHC_CACHE_DIR"
        if os.name == "posix" and info.st_mode & 0o077:
            mode = stat.S_IMODE(info.st_mode)
            return (
                f"cache folder '{self.folder}' is open to other users (mode {mode:o}); chmod 700 it"
            )
        return self._weak_step()

    def _weak_step(self) -> str | None:
        reason = weak_step(self.folder.parent)
        if reason is None:
            return None
        return (
            f"cache folder '{self.folder}' could be exchanged: {reason}; "
            "correct that or set GRAPHC_CACHE_DIR"
        )

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        """Models and kernels with their status, last used first."""
        found = []
        for path in (*self.folder.glob(f"*{SUFFIX}"), *self.folder.glob(f"*{KERNEL_SUFFIX}")):
            try:
                found.append((path, path.lstat()))
            except OSError:  # deleted by another process in the meantime
                continue
        return sorted(found, key=lambda item: -item[1].st_mtime)

    def _make_room(self) -> None:
        """Delete the least recently used entries beyond the limit, and abandoned temporary files."""
        total, old = 0, []
        for path, info in self._files():
            total += info.st_size
            if total > self._limit:
                old.append(path)
        self._delete(old)
        if old:  # aliases cost a file each to tell which of them are left without their entry: all may go
            self._delete_aliases()
        before = time.time() - ABANDONED_SECONDS
        for path in self.folder.glob(TEMPORARY_FILES):
            try:
                abandoned = path.lstat().st_mtime < before
            except OSError:  # its writer has just renamed it
                continue
            if abandoned:
                self._delete([path])

    def _delete_aliases(self) -> None:
        for suffix in (ALIAS_SUFFIX, SEEN_SUFFIX):
            self._delete(self.folder.glob(f"*{suffix}"))

    def _delete(self, paths: Iterable[Path]) -> None:
        for path in paths:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                _LOG.warning("cache entry '%s' cannot be deleted (%s)", path, error.strerror)


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """GRAPHC_CACHE_DIR, else `graphc` where this system keeps caches of the user."""
    if environ.get("GRAPHC_CACHE_DIR"):
        return Path(environ["GRAPHC_CACHE_DIR"])
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"]) / "graphc"
    if sys.platform == "win32" and environ.get("LOCALAPPDATA"):
        return Path(environ["LOCALAPPDATA"]) / "graphc"
    home = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return Path.home() / home / "graphc"


def default_cache(environ: Mapping[str, str] = os.environ) -> CompileCache | None:
    """The cache of this user; None if GRAPHC_CACHE_DIR is empty."""
    if environ.get("GRAPHC_CACHE_DIR") == "":
        return None
    return CompileCache(cache_folder(environ) / "compiled")


def _read(path: Path) -> bytes:
    with open(path, "rb", opener=own_file) as stream:
        return stream.read()


def _check_of(alias: str, key: str) -> str:
    return hashlib.sha256(f"{alias} {key}".encode()).hexdigest()
