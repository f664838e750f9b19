"""A compiled model as data: the compiler produces it, a `.gcm` file stores it and the executor runs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..base.aligned_memory import aligned_copy, aligned_empty, large_alignment
from ..base.derived_weights import Derivation
from ..base.errors import UserError
from ..base.file_status import file_status
from ..base.pages import FilePages
from ..base.records import dataclass
from .abi import ALIGNMENT
from .container import Opener, identity, read_container, write_container
from .metadata import Metadata, metadata_from_json
from .signature import KeyFile
from .tensors import StoredTensor
from .weights_store import SharedWeights, WeightsStore

_SECTIONS = ("constants", "object", "support")
_GRAPH, _SOURCES = "graph", "sources"
_DERIVED, _VECTORS = "derived", "vectors"
_SHARED, _STORE = "shared", "store"


@dataclass(frozen=True)
class ArtifactFile:
    """The file of an artifact: its absolute path, its hash (`container.identity`), and whether constants stay in it.

    `store`, `shared`: the folder with its large constants, and these, if they are in files of their own.
    """

    path: str
    digest: bytes
    mapped: bool = False
    store: str = ""
    shared: tuple[SharedWeights, ...] = ()

    @staticmethod
    def at(path: str | os.PathLike[str], mapped: bool = False) -> ArtifactFile:
        """Return the file with its present hash."""
        found = Path(path).absolute()
        return ArtifactFile(str(found), identity(found), mapped)

    def status(self) -> str:
        """Return words that change with the file, or with one of its constants. May raise OSError."""
        return f"{file_status(self.path)} {WeightsStore(Path(self.store)).status(self.shared)}"


@dataclass(frozen=True, eq=False)
class Artifact:
    """One compiled model.

    `constants` is u8[n], 64-byte aligned (copied when it is not), read-only. `object_code` is an object file that
    exports `graphc_entry`; `support_code` one that exports the thread pool, empty where models run serially. `graph` is
    the optimized graph as text, with constants as offsets in `constants`: what tools that look into the model read;
    empty in files of earlier versions. `origin` names it in messages: the file it was read from.
    `vector_code` is as `object_code`, for processes that may not use the tile registers that this uses.
    `derivations`: parts of `constants` that a file does not hold, as loading computes them from `sources`: weights that
    are stored one after the other. `file`: where the same artifact lies, if it does.
    """

    metadata: Metadata
    constants: np.ndarray = field(repr=False)
    object_code: bytes = field(repr=False)
    support_code: bytes = field(default=b"", repr=False)
    graph: str = field(default="", repr=False)
    origin: str = ""
    derivations: tuple[Derivation, ...] = ()
    sources: tuple[np.ndarray, ...] = field(default=(), repr=False)
    vector_code: bytes = field(default=b"", repr=False)
    file: ArtifactFile | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        constants = np.ascontiguousarray(self.constants).reshape(-1).view(np.uint8)
        # Aligned data stays where it is (mapped from the file); a copy may as well start on a huge page.
        if constants.ctypes.data % ALIGNMENT:
            constants = aligned_copy(constants, large_alignment(constants.nbytes))
        aligned = constants.view()
        aligned.flags.writeable = False
        object.__setattr__(self, "constants", aligned)

    @property
    def label(self) -> str:
        """The name for messages: `m.gcm`, or `model 'mlp'` when it never was a file."""
        return self.origin or f"model '{self.metadata.model}'"

    def on_huge_pages(self) -> Artifact:
        """Return the artifact with constants in memory of this process, on huge pages where the system gives them."""
        size = self.constants.nbytes
        held = aligned_empty((size,), np.dtype(np.uint8), large_alignment(size))
        held[...] = self.constants
        return replace(self, constants=held)

    def save(
        self,
        path: str | os.PathLike[str],
        is_entry: bool = False,
        sign: KeyFile | None = None,
        store: str | os.PathLike[str] = "",
    ) -> None:
        """Write a `.gcm` file atomically, with a signature by the private key in the file `sign`. May raise UserError.

        `store`: a folder for large constants, each in a file that artifacts share (`weights_store.py`).

        It is on the disk then. An entry of a cache is sooner or later, and until then a crash of the system may damage
        it; only the user may open it.
        """
        header, sections = self.metadata.to_json(), {"constants": self.constants.data}
        if self.derivations:
            header |= {_DERIVED: [asdict(one) for one in self.derivations]}
        if store:
            header[_STORE] = os.path.relpath(store, Path(os.path.realpath(path)).parent)
            shared = self._put(WeightsStore(Path(store)), is_entry, header)
            sections = {"constants": self._without(shared).data}
        elif self.derivations:
            weights = self._joined_sources()
            sections = {"constants": self._without(self.derivations).data, _SOURCES: weights.data}
        sections |= {
            "object": memoryview(self.object_code),
            "support": memoryview(self.support_code),
            _GRAPH: memoryview(self.graph.encode(errors="surrogatepass")),
        }
        if self.vector_code:
            sections[_VECTORS] = memoryview(self.vector_code)
        write_container(Path(path), header, sections, is_entry, sign)

    def _put(
        self, store: WeightsStore, is_entry: bool, header: dict[str, Any]
    ) -> tuple[SharedWeights, ...]:
        """Write large constants, and what some are derived from, to a store; add them to the header."""
        shared = store.put(self.graph, self.constants, is_entry)
        header[_SHARED] = [asdict(one) for one in shared]
        if self.derivations:
            weights = self._joined_sources()
            tensor = StoredTensor(_SOURCES, "U8", [weights.size], 0, weights.size)
            header[_SOURCES] = [asdict(store.put_tensor(tensor, weights, is_entry))]
        return shared

    def _joined_sources(self) -> np.ndarray:
        return np.concatenate([array.reshape(-1).view(np.uint8) for array in self.sources])

    def _without(self, parts: Sequence[Derivation | SharedWeights]) -> np.ndarray:
        """The constants except for those that loading computes or maps."""
        kept = [self.constants[a:b] for a, b in _gaps(parts, self.constants.size)]
        return np.concatenate(kept) if kept else np.zeros(0, np.uint8)

    @staticmethod
    def load(
        path: str | os.PathLike[str],
        mapped: bool = False,
        opener: Opener | None = None,
        checked: bool = True,
        key: KeyFile | None = None,
        known: Callable[[ArtifactFile], bool] | None = None,
    ) -> Artifact:
        """Read a `.gcm` file, which holds native code and must come from someone trusted. Raise UserError if it is
        corrupt.

        The constants are copied to memory, so that the file may change afterwards; they stay in the file if `mapped`
        (see `read_container`). `opener` opens the file, as that of `open`. Not `checked`: sections are not hashed.
        `key`: the file of the public key by which it must be signed. `known`: whether its files of weights were checked
        before and are unchanged.
        """
        path = Path(path)
        header, sections = read_container(path, mapped, opener, checked, key)
        if set(sections) - {_GRAPH, _SOURCES, _VECTORS} != set(_SECTIONS):
            raise UserError(
                f"{path.name}: must have the sections {', '.join(_SECTIONS)}, "
                f"got {', '.join(sections) or 'none'}; compile the model again"
            )
        stored = np.frombuffer(sections["constants"], np.uint8)
        sources = np.frombuffer(sections.get(_SOURCES, b""), np.uint8)
        derivations, file = _derivations(header, path.name), ArtifactFile.at(path, mapped)
        if _STORE in header:
            folder = Path(file.path).parent / str(header[_STORE])
            store = WeightsStore(folder, opener)
            shared, origins = (_shared(header, key, path.name) for key in (_SHARED, _SOURCES))
            file = replace(file, store=str(folder), shared=(*shared, *origins))
            checked = checked and not (known and known(file))
            constants = _mapped(stored, store, shared, path.name, checked)
            sources = _mapped(sources, store, origins, path.name, checked)
        else:
            constants = _completed(stored, sources, derivations, path.name)
        return Artifact(
            metadata=metadata_from_json(header, path.name),
            constants=constants,
            object_code=bytes(sections["object"]),
            support_code=bytes(sections["support"]),
            graph=bytes(sections.get(_GRAPH, b"")).decode(errors="surrogatepass"),
            origin=path.name,
            derivations=derivations,
            sources=(sources,),
            vector_code=bytes(sections.get(_VECTORS, b"")),
            file=file,
        )

    @staticmethod
    def read_metadata(
        path: str | os.PathLike[str], opener: Opener | None = None, key: KeyFile | None = None
    ) -> Metadata:
        """Return the metadata of a `.gcm` file without making its constants. Raise UserError if it is corrupt.

        `key`: the file of the public key by which it must be signed.
        """
        path = Path(path)
        header, _ = read_container(path, True, opener, key=key)
        _derivations(header, path.name)
        return metadata_from_json(header, path.name)

    @staticmethod
    def read_shared(
        path: str | os.PathLike[str], opener: Opener | None = None
    ) -> tuple[SharedWeights, ...]:
        """Return the constants of a `.gcm` file that are files of their own. Raise UserError if it is corrupt."""
        path = Path(path)
        header, _ = read_container(path, True, opener, checked=False)
        return _shared(header, _SHARED, path.name) + _shared(header, _SOURCES, path.name)


def _derivations(header: dict[str, Any], where: str) -> tuple[Derivation, ...]:
    """Take the derivations out of a header. May raise UserError."""
    try:
        return tuple(map(Derivation.from_json, header.pop(_DERIVED, ())))
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{where}: '{_DERIVED}' is corrupt ({error}); compile again") from error


def _shared(header: dict[str, Any], key: str, where: str) -> tuple[SharedWeights, ...]:
    """Take the constants in files of their own out of a header. May raise UserError."""
    try:
        found = tuple(map(SharedWeights.from_json, header.pop(key, ())))
        ends = [0, *(one.offset + one.size for one in found)]
        if any(one.offset < end for one, end in zip(found, ends, strict=False)):
            raise ValueError("parts overlap")
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{where}: '{key}' is corrupt ({error}); compile again") from error
    return found


def _mapped(
    stored: np.ndarray,
    store: WeightsStore,
    shared: Sequence[SharedWeights],
    where: str,
    checked: bool,
) -> np.ndarray:
    """Return constants whose large tensors are pages of their files, and the others copies of `stored`."""
    size = stored.size + sum(one.size for one in shared)
    try:
        pages = FilePages(size)
    except (OSError, OverflowError, ValueError, MemoryError) as error:
        raise UserError(
            f"{where}: no memory for {size} bytes of constants ({error}); close other programs"
        ) from error
    begin = 0
    for a, b in _gaps(shared, size):
        if b > size or b - a > stored.size - begin:
            raise UserError(f"{where}: '{_SHARED}' is corrupt (parts lie outside); compile again")
        pages.array[a:b] = stored[begin : begin + b - a]
        begin += b - a
    store.map(shared, pages, where, checked)
    return pages.array


def _completed(
    stored: np.ndarray, sources: np.ndarray, derivations: tuple[Derivation, ...], where: str
) -> np.ndarray:
    """Return the constants of a program: those that are stored, and those computed from the sources."""
    if not derivations:
        return stored
    size = stored.size + sum(one.size for one in derivations)
    constants = aligned_empty((size,), np.dtype(np.uint8), large_alignment(size))
    begin = 0
    for a, b in _gaps(derivations, size):
        constants[a:b] = stored[begin : begin + b - a]
        begin += b - a
    try:
        scratch = np.empty(max(one.size for one in derivations), np.uint8)
        for one in derivations:
            one.write(sources, constants, scratch)
    except (TypeError, ValueError) as error:
        raise UserError(f"{where}: '{_DERIVED}' is corrupt ({error}); compile again") from error
    return constants


def _gaps(parts: Sequence[Derivation | SharedWeights], size: int) -> Iterator[tuple[int, int]]:
    """Yield what lies between parts of `size` bytes."""
    begin = 0
    for one in sorted(parts, key=lambda one: one.offset):
        yield begin, one.offset
        begin = one.offset + one.size
    yield begin, size
