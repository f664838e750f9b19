"""Compiled models kept between processes: one artifact a file, named by everything that decides what comes out.

The folder belongs to its user alone, as code is loaded from it: one that others may enter is not used. An entry is a
`.gcm` file: checked byte by byte when read, and renamed into place when written, so that a reader, two writers or a
writer that is killed never meet half of one. A damaged entry is deleted and made anew. Nothing here is an error: where
the cache cannot be used, a warning is logged and the model is compiled.

An entry is found by the contents of the graph. Beside it an alias, found by the contents of the file the graph was read
from, holds its key: a file that was seen before need not be read as a graph again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

from ..base.errors import UserError
from ..base.whole_file import TEMPORARY_FILES, whole_file
from ..frontend import format_of
from ..graph_ir.ir.graph import Graph
from ..graph_ir.schedule.context import LowerContext
from ..runtime.abi import ABI_VERSION
from ..runtime.artifact import Artifact
from ..runtime.container import FORMAT_VERSION
from .versions import versions

SUFFIX, ALIAS_SUFFIX = ".gcm", ".key"
LIMIT_BYTES = 4 << 30
"""Entries unused for longest are deleted when all of them together are larger."""

ABANDONED_SECONDS = 3600.0
"""Age from which a temporary file is taken for that of a writer that was killed."""

FILE_LIMIT = 1 << 31
"""Bytes of a model file above which its contents are not looked at twice; protobuf ends there too."""

NOT_IN_KEY = ("dump_dir", "verify")
"""Options that change what is written or checked on the way, and not what comes out."""

_ROOMS = ("codegen", "frontend", "graph_ir", "runtime", "tensor_ir")
_LOG = logging.getLogger("graphc.cache")


@dataclass(frozen=True)
class Entry:
    """One compiled model in the cache; times in seconds since 1970."""

    key: str
    model: str
    size_bytes: int
    used: float


class CompileCache:
    """The compiled models of one folder."""

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self.folder = folder
        self._limit = limit_bytes

    def get(self, key: str) -> Artifact | None:
        """The artifact of a key; None where there is none, or none that can be trusted."""
        path = self._path(key)
        if self._refusal() is not None or not path.is_file():
            return None
        try:
            # Mapped pages are small: code that was compiled just now reads its constants from huge ones.
            artifact = Artifact.load(path, resident=True)
            os.utime(path)
        except UserError as error:
            _LOG.warning("%s; it is deleted from the cache", error)
            self._delete([path])
            return None
        except OSError:  # somebody has just cleared the cache
            return None
        return replace(artifact, origin="")

    def put(self, key: str, artifact: Artifact) -> bool:
        """Keep an artifact, and make room for it; says whether it is kept."""
        refusal = self._make_folder() or self._refusal()
        if refusal is None:
            try:
                artifact.save(self._path(key))
            except UserError as error:
                refusal = str(error)
        if refusal is not None:
            _LOG.warning("the compiled model is not kept: %s", refusal)
            return False
        self._make_room()
        return True

    def resolve(self, alias: str) -> str | None:
        """The key an alias stands for; None where there is none, or a damaged one."""
        if self._refusal() is not None:
            return None
        try:
            key, _, check = (self.folder / f"{alias}{ALIAS_SUFFIX}").read_text().partition(" ")
        except (OSError, UnicodeDecodeError):
            return None
        return key if check == _check_of(alias, key) else None

    def link(self, alias: str, key: str) -> None:
        """Let an alias stand for a key that was put."""
        if self._refusal() is not None:
            return  # `put` has said so
        path = self.folder / f"{alias}{ALIAS_SUFFIX}"
        try:
            with whole_file(path) as stream:
                stream.write(f"{key} {_check_of(alias, key)}".encode())
        except OSError as error:
            _LOG.warning("'%s' cannot be written (%s)", path, error.strerror)

    def entries(self) -> list[Entry]:
        """What is kept, last used first. UserError for a folder that must not be used."""
        refusal = self._refusal() if self.folder.exists() else None
        if refusal is not None:
            raise UserError(refusal)
        found = []
        for path, info in self._files():
            try:
                model = Artifact.load(path).metadata.model
            except UserError as error:
                model = f"damaged: {error}"
            found.append(Entry(path.name.removesuffix(SUFFIX), model, info.st_size, info.st_mtime))
        return found

    def clear(self) -> tuple[int, int]:
        """Delete everything, also what killed writers left; returns (models, bytes). UserError as `entries`."""
        refusal = self._refusal() if self.folder.exists() else None
        if refusal is not None:
            raise UserError(refusal)
        files = self._files()
        self._delete([path for path, _ in files])
        self._delete(self.folder.glob(TEMPORARY_FILES))
        self._delete(self.folder.glob(f"*{ALIAS_SUFFIX}"))
        return len(files), sum(info.st_size for _, info in files)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{SUFFIX}"

    def _make_folder(self) -> str | None:
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            return f"cache folder '{self.folder}' cannot be made ({error.strerror})"
        return None

    def _refusal(self) -> str | None:
        """Why this folder must not be used; None when it may."""
        try:
            info = os.lstat(self.folder)
        except OSError as error:
            return f"cache folder '{self.folder}' cannot be read ({error.strerror})"
        if not stat.S_ISDIR(info.st_mode):
            return f"cache folder '{self.folder}' is not a folder; remove it"
        if hasattr(os, "geteuid") and info.st_uid != os.geteuid():
            return f"cache folder '{self.folder}' belongs to another user; set GRAPHC_CACHE_DIR"
        if os.name == "posix" and info.st_mode & 0o077:
            mode = stat.S_IMODE(info.st_mode)
            return (
                f"cache folder '{self.folder}' is open to other users (mode {mode:o}); chmod 700 it"
            )
        return None

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        """Entries with their status, last used first."""
        found = []
        for path in self.folder.glob(f"*{SUFFIX}"):
            try:
                found.append((path, path.stat()))
            except OSError:  # deleted by another process in the meantime
                continue
        return sorted(found, key=lambda item: -item[1].st_mtime)

    def _make_room(self) -> None:
        """Delete what was not used for longest beyond the limit, and temporary files nobody will finish."""
        total, old = 0, []
        for path, info in self._files():
            total += info.st_size
            if total > self._limit:
                old.append(path)
        self._delete(old)
        if old:  # aliases cost a file each to tell which of them are left without their entry: all may go
            self._delete(self.folder.glob(f"*{ALIAS_SUFFIX}"))
        before = time.time() - ABANDONED_SECONDS
        for path in self.folder.glob(TEMPORARY_FILES):
            try:
                abandoned = path.stat().st_mtime < before
            except OSError:  # its writer has just renamed it
                continue
            if abandoned:
                self._delete([path])

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
    """The cache of this user; None where GRAPHC_CACHE_DIR is set to nothing."""
    if environ.get("GRAPHC_CACHE_DIR") == "":
        return None
    return CompileCache(cache_folder(environ) / "compiled")


def cache_key(source: Graph, ctx: LowerContext) -> str:
    """SHA-256 of a graph as read, its names, the options, target and blockings, and the compiler itself."""
    results = (str(op.attrs.get("temp.result", "")) for op in source.outputs)
    names = (source.name, *(op.name for op in source.ops), *results)
    return _digest("graph", *_circumstances(ctx), *names, source.hash_contents())


def file_key(
    model: object, inputs: Mapping[str, str] | None, ctx: LowerContext, limit: int = FILE_LIMIT
) -> str | None:
    """As `cache_key`, of the bytes of a model (or of the ONNX file at a path) and the shapes that are fixed in it.

    None for what is not told by those bytes alone: other formats, and ONNX with tensors in other files, whose place
    stands in the file under the name "location". UserError does not happen: what cannot be read is for the reader.
    """
    if isinstance(model, (str, os.PathLike)):
        try:
            path = Path(model)
            if format_of(path) != "onnx" or path.stat().st_size > limit:
                return None
            model = path.read_bytes()
        except (OSError, ValueError):
            return None
    if not isinstance(model, bytes) or b"location" in model:
        return None
    specs = repr(sorted((inputs or {}).items()))
    return _digest("file", *_circumstances(ctx), specs, hashlib.sha256(model).hexdigest())


def _circumstances(ctx: LowerContext) -> list[str]:
    """Everything beside the model that decides what comes out."""
    options = {
        f.name: getattr(ctx.options, f.name)
        for f in fields(ctx.options)
        if f.name not in NOT_IN_KEY
    }
    return [
        f"format {FORMAT_VERSION} abi {ABI_VERSION}",
        repr(sorted(versions().items())),
        source_fingerprint(),
        repr(sorted((name, _stable(value)) for name, value in options.items())),
        repr(ctx.target),
        repr(sorted((problem, repr(blocking)) for problem, blocking in ctx.blockings.items())),
    ]


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def _check_of(alias: str, key: str) -> str:
    return _digest("alias", alias, key)


def _stable(value: object) -> str:
    """The same text in every process: sets have no order of their own."""
    return repr(sorted(value) if isinstance(value, (set, frozenset)) else value)


@cache
def source_fingerprint() -> str:
    """SHA-256 of name, size and time of every source file that has a part in compiling.

    A version number does not change while graphc is being worked on; these do.
    """
    root = Path(__file__).parent
    digest = hashlib.sha256()
    files = [root.glob("*.py"), *((root / room).rglob("*.py") for room in _ROOMS)]
    for path in sorted(path for group in files for path in group):
        info = path.stat()
        digest.update(f"{path.relative_to(root)} {info.st_size} {info.st_mtime_ns}\n".encode())
    return digest.hexdigest()
