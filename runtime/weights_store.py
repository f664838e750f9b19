"""Large constants of compiled models outside of their artifacts: one safetensors file each, named by its SHA-256.

Models that have a packed tensor in common, variants with other shapes or for other CPUs, refer to one file, and all
processes that map it share its pages. A file is written once and never changed; `sha256sum` checks it.

The data of a file begins at a page. In the constants of a model a tensor of at least `MIN_BYTES` begins at a page too
and fills whole ones (`graph_ir/lowering/constant_section.py`), so that it can be mapped.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from ..base.aligned_memory import SHARED_FROM as MIN_BYTES
from ..base.errors import UserError
from ..base.file_errors import unreadable, unwritable
from ..base.file_status import file_status
from ..base.pages import PAGE, FilePages
from ..base.pipes import without_waiting
from ..base.records import dataclass
from ..base.whole_file import whole_file
from .tensors import StoredTensor, stored_tensors

SUFFIX = ".safetensors"
_LOG = logging.getLogger("graphc.cache")
Opener = Callable[[str, int], int]


@dataclass(frozen=True)
class SharedWeights:
    """A part of the constants, and the SHA-256 of the file that holds it."""

    offset: int
    size: int
    sha256: str

    @staticmethod
    def from_json(facts: Any) -> SharedWeights:
        """Return the value that `dataclasses.asdict` made plain. May raise KeyError, TypeError or ValueError."""
        offset, size, digest = facts["offset"], facts["size"], facts["sha256"]
        if not type(offset) is type(size) is int or offset < 0 or size <= 0:
            raise ValueError("offset and size must be numbers")
        if type(digest) is not str or len(bytes.fromhex(digest)) != 32 or len(digest) != 64:
            raise ValueError("sha256 must be 64 hexadecimal digits")
        return SharedWeights(offset, size, digest)


class WeightsStore:
    """A folder of such files. `opener` opens them, as that of `open`."""

    def __init__(self, folder: Path, opener: Opener | None = None) -> None:
        self.folder = folder
        self._opener = opener or without_waiting

    def path(self, digest: str) -> Path:
        """Return the file with a SHA-256."""
        return self.folder / f"{digest}{SUFFIX}"

    def files(self) -> Iterator[Path]:
        """The files of the folder."""
        return self.folder.glob(f"*{SUFFIX}")

    def put(
        self, graph: str, constants: np.ndarray, is_entry: bool = False
    ) -> tuple[SharedWeights, ...]:
        """Write the large tensors of a model that are not there yet; return all of them. May raise UserError.

        `is_entry`: of a cache, as `Artifact.save` has it.
        """
        return tuple(
            self.put_tensor(tensor, constants[tensor.begin : tensor.end], is_entry)
            for tensor in stored_tensors(graph, constants.nbytes)
            if tensor.end - tensor.begin >= MIN_BYTES and tensor.begin % PAGE == 0
        )

    def put_tensor(
        self, tensor: StoredTensor, data: np.ndarray, is_entry: bool = False
    ) -> SharedWeights:
        """Write the bytes of one tensor. May raise UserError."""
        try:
            self.folder.mkdir(mode=0o700 if is_entry else 0o777, parents=True, exist_ok=True)
            digest = self._write(_head(tensor), data.data, is_entry)
        except OSError as error:
            raise unwritable(self.folder, error) from error
        return SharedWeights(tensor.begin, data.nbytes, digest)

    def map(
        self, parts: Sequence[SharedWeights], pages: FilePages, where: str, checked: bool
    ) -> None:
        """Map the files over their parts of the constants; `checked`: compare their SHA-256 first. May raise
        UserError."""
        for part in parts:
            with self._open(part, where) as file:
                info = os.fstat(file.fileno())
                begin = info.st_size - part.size
                is_right = stat.S_ISREG(info.st_mode) and begin > 0 and not begin % PAGE
                if not is_right or (
                    checked and hashlib.file_digest(file, "sha256").hexdigest() != part.sha256
                ):
                    raise UserError(
                        f"{where}: weights file '{self.path(part.sha256)}' does not have the SHA-256 of its name: it "
                        "is corrupt or was replaced; restore it, or compile the model again"
                    )
                try:
                    pages.map(part.offset, file.fileno(), begin, part.size)
                except OSError as error:
                    raise unreadable(self.path(part.sha256), error, where) from error

    def corrupt(self, paths: Iterable[Path]) -> list[Path]:
        """Return the files whose SHA-256 is not their name, or which must not be read."""
        found = []
        for path in paths:
            try:
                with open(path, "rb", buffering=0, opener=self._opener) as file:
                    if f"{hashlib.file_digest(file, 'sha256').hexdigest()}{SUFFIX}" == path.name:
                        continue
            except FileNotFoundError:
                continue
            except OSError as error:
                _LOG.debug("'%s' is as good as corrupt (%s)", path, error.strerror)
            found.append(path)
        return found

    def status(self, parts: Sequence[SharedWeights]) -> str:
        """Return a word that changes with any of the files. May raise OSError."""
        texts = [file_status(self.path(part.sha256)) for part in parts]
        return hashlib.sha256(" ".join(texts).encode()).hexdigest()

    def _open(self, part: SharedWeights, where: str) -> FileIO:
        path = self.path(part.sha256)
        try:
            return open(path, "rb", buffering=0, opener=self._opener)
        except (OSError, ValueError) as error:
            missing = "copy the folder of weights along with the artifact, or compile again"
            raise unreadable(path, error, where, missing) from error

    def _write(self, head: bytes, data: memoryview, is_entry: bool) -> str:
        digest = hashlib.sha256(head)
        digest.update(data)
        path = self.path(digest.hexdigest())
        try:
            os.utime(path)  # so that `graphc cache gc` sees that it is in use
            if path.stat().st_size == len(head) + data.nbytes:
                return digest.hexdigest()
        except FileNotFoundError:
            pass
        with whole_file(path, durable=not is_entry, private=is_entry) as file:
            file.write(head)
            file.write(data)
        return digest.hexdigest()


def _head(tensor: StoredTensor) -> bytes:
    """The header of a file with one tensor, whose data begin at a page."""
    size = tensor.end - tensor.begin
    about = {"format": "graphc", **({"layout": tensor.layout} if tensor.layout else {})}
    entry = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [0, size]}
    text = json.dumps({"__metadata__": about, "weights": entry}).encode()
    text += b" " * (-(8 + len(text)) % PAGE)
    return struct.pack("<Q", len(text)) + text
