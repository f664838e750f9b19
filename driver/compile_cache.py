"""Compiled code kept between processes: whole models and single kernels, each a file named by the hash of all
that decides what comes out.

The folder belongs to its user alone, as code is loaded from it: one that others may enter is not used, nor one below a
folder in which others could exchange it (`base/own_files.py`), and an entry that is a link is none. An entry is checked
completely when read, and written under another name and then renamed, so that concurrent readers and writers, even
killed ones, never see a partial entry. A corrupt entry is deleted and compiled again. Nothing here is an error: if the
cache cannot be used, a warning says so once and the model is compiled.

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
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ..base.errors import GraphcWarning, UserError
from ..base.own_files import own_file, weak_step
from ..base.whole_file import whole_file
from ..runtime.artifact import Artifact, ArtifactFile
from .cache_upkeep import (
    ALIAS_SUFFIX,
    KERNEL_SUFFIX,
    LIMIT_BYTES,
    SEEN_SUFFIX,
    SUFFIX,
    Contents,
    Upkeep,
    alias_bytes,
    checked_alias,
    checked_kernel,
)

_LOG = logging.getLogger("graphc.cache")


class CompileCache:
    """The compiled models and kernels of one folder."""

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self.folder = folder
        self._limit = limit_bytes
        self._upkeep = Upkeep(folder)

    def get(self, key: str) -> Artifact | None:
        """The artifact of a key; None where there is none, or none that can be trusted."""
        path = self.path(key)
        if self._refusal() is not None or not os.path.lexists(path):
            return None
        try:
            artifact = self.checked_once(key, lambda checked: self._load(path, checked))
            os.utime(path)
        except UserError as error:
            _LOG.warning("%s; it is deleted from the cache", error)
            self._delete([path, *self._upkeep.corrupt_weights(path)])
            return None
        except OSError:  # the cache was cleared in the meantime
            return None
        return replace(artifact, origin="")

    def reopened(self, key: str, artifact: Artifact) -> Artifact:
        """Return an artifact that was just stored, in the pages of its files, which other processes share."""
        path = self.path(key)
        try:
            return replace(self._load(path, checked=False), origin="")
        except (UserError, OSError):  # the cache was cleared in the meantime
            return artifact

    def checked_once(self, name: str, load: Callable[[bool], Artifact]) -> Artifact:
        """Return an artifact, checked completely unless its files were so before and are unchanged. May raise UserError
        or OSError.

        `load` takes whether to hash the contents of files; `name` keeps the status of those that were.
        """
        artifact = load(False)
        assert artifact.file is not None
        status = _status(artifact.file)
        if self.resolve(name, SEEN_SUFFIX) != status:
            artifact = load(True)
            self.link(name, status, SEEN_SUFFIX)
        return artifact

    def knows(self, file: ArtifactFile) -> bool:
        """Return whether a file outside of the cache was checked before, and neither it nor its weights changed."""
        try:
            return self.resolve(_name(file), SEEN_SUFFIX) == _status(file)
        except OSError:  # loading says which file is missing
            return False

    def remember(self, file: ArtifactFile) -> None:
        """Remember that a file was checked completely."""
        if not self.knows(file) and self._make_folder() is None:
            self.link(_name(file), _status(file), SEEN_SUFFIX)

    @staticmethod
    def _load(path: Path, checked: bool) -> Artifact:
        # Pages of a file are as fast as huge ones here (0.99 to 1.2 times, f32 matmuls of 64 MB on 1 to 128 rows).
        return Artifact.load(path, opener=own_file, checked=checked)

    def put(self, key: str, artifact: Artifact) -> bool:
        """Store an artifact and make room for it; return whether it was stored."""
        refusal = self._make_folder() or self._refusal()
        if refusal is None:
            try:
                # What a crash of the system damages is found when it is read, and made again.
                store = self._upkeep.store.folder
                artifact.save(self.path(key), is_entry=True, store=store)
            except UserError as error:
                refusal = str(error)
        if refusal is not None:
            said = f"the compiled model is not kept: {refusal}"
            _LOG.warning("%s", said)
            warnings.warn(said, GraphcWarning, stacklevel=2)  # Python shows it once
            return False
        self._make_room()
        return True

    def resolve(self, alias: str, suffix: str = ALIAS_SUFFIX) -> str | None:
        """The key an alias refers to; None if it is missing or corrupt."""
        if self._refusal() is not None:
            return None
        try:
            return checked_alias(self.folder / f"{alias}{suffix}")
        except (OSError, UserError):
            return None

    def link(self, alias: str, key: str, suffix: str = ALIAS_SUFFIX) -> None:
        """Let an alias refer to a stored key."""
        if self._refusal() is not None:
            return  # `put` has said so
        path = self.folder / f"{alias}{suffix}"
        try:
            with whole_file(path, private=True) as stream:
                stream.write(alias_bytes(path, key))
        except OSError as error:
            _LOG.warning("'%s' cannot be written (%s)", path, error.strerror)

    def get_kernel(self, key: str) -> bytes | None:
        """The object code of a kernel; None where there is none, or a corrupt one, which is deleted."""
        path = self.folder / f"{key}{KERNEL_SUFFIX}"
        if self._refusal() is not None:
            return None
        try:
            code = checked_kernel(path)
            os.utime(path)
        except OSError:
            return None
        except UserError as error:
            _LOG.warning("%s; it is deleted from the cache", error)
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
                with whole_file(path, private=True) as stream:
                    stream.write(hashlib.sha256(code).digest() + code)
            except OSError as error:
                _LOG.warning("'%s' cannot be written (%s)", path, error.strerror)
                return
        self._make_room()

    def contents(self) -> Contents:
        """Return the entries of the cache. Raise UserError for a folder that must not be used."""
        self._check_folder()
        return self._upkeep.contents()

    def collect(self, limit_bytes: int | None = None) -> Contents:
        """Delete what nothing refers to, and the least recently used entries beyond a number of bytes; return the rest.

        A limit of 0 deletes everything, also what another process is writing. UserError as above.
        """
        self._check_folder()
        limit = self._limit if limit_bytes is None else limit_bytes
        self._delete(self._upkeep.beyond(limit))
        self._delete(self._upkeep.unused(everything=not limit))
        return self._upkeep.contents()

    def verify(self, delete: bool = False) -> dict[Path, str]:
        """Check every byte; return the corrupt files, which `delete` deletes, with the reasons. UserError as above."""
        self._check_folder()
        found = self._upkeep.corrupt()
        self._delete(found if delete else ())
        return found

    def _check_folder(self) -> None:
        refusal = self._refusal() if self.folder.exists() else None
        if refusal is not None:
            raise UserError(refusal)

    def path(self, key: str) -> Path:
        """Return the file of a compiled model."""
        return self.folder / f"{key}{SUFFIX}"

    def _make_folder(self) -> str | None:
        refusal = self._weak_step()  # before anything is made there
        if refusal is not None:
            return refusal
        try:
            for folder in reversed((self.folder, *self.folder.parents)):
                if not folder.is_dir():
                    folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            return f"cache folder '{self.folder}' cannot be made ({error.strerror}); set GRAPHC_CACHE_DIR"
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

    def _make_room(self) -> None:
        """Delete the least recently used entries beyond the limit, and abandoned temporary files."""
        old = self._upkeep.beyond(self._limit)
        self._delete(old)
        if old:
            self._delete(self._upkeep.unused())
        self._delete(self._upkeep.abandoned())

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


def _name(file: ArtifactFile) -> str:
    return hashlib.sha256(os.fsencode(file.path)).hexdigest()


def _status(file: ArtifactFile) -> str:
    return hashlib.sha256(file.status().encode()).hexdigest()
