"""A compiled model as data: the compiler produces it, a `.gcm` file stores it and the executor runs it."""

from __future__ import annotations

import os
from dataclasses import field
from pathlib import Path

import numpy as np

from ..base.aligned_memory import aligned_copy, large_alignment
from ..base.errors import UserError
from ..base.records import dataclass
from .abi import ALIGNMENT
from .container import Opener, read_container, write_container
from .metadata import Metadata, metadata_from_json

_SECTIONS = ("constants", "object", "support")
_GRAPH = "graph"


@dataclass(frozen=True, eq=False)
class Artifact:
    """One compiled model.

    `constants` is u8[n], 64-byte aligned (copied when it is not), read-only. `object_code` is an object file that
    exports `graphc_entry`; `support_code` one that exports the thread pool, empty where models run serially. `graph` is
    the optimized graph as text, with constants as offsets in `constants`: what tools that look into the model read;
    empty in files of earlier versions. `origin` names it in messages: the file it was read from.
    """

    metadata: Metadata
    constants: np.ndarray = field(repr=False)
    object_code: bytes = field(repr=False)
    support_code: bytes = field(default=b"", repr=False)
    graph: str = field(default="", repr=False)
    origin: str = ""

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

    def save(self, path: str | os.PathLike[str], durable: bool = True) -> None:
        """Write a `.gcm` file atomically. UserError when the system refuses it.

        It is on the disk then; not `durable`: sooner or later, and until then a crash of the system may damage it.
        """
        write_container(
            Path(path),
            self.metadata.to_json(),
            {
                "constants": self.constants.data,
                "object": memoryview(self.object_code),
                "support": memoryview(self.support_code),
                _GRAPH: memoryview(self.graph.encode(errors="surrogatepass")),
            },
            durable,
        )

    @staticmethod
    def load(
        path: str | os.PathLike[str], mapped: bool = False, opener: Opener | None = None
    ) -> Artifact:
        """Read a `.gcm` file, which holds native code and must come from someone trusted. UserError when it is damaged.

        The constants are copied to memory, so that the file may change afterwards; they stay in the file if `mapped`
        (see `read_container`). `opener` opens the file, as that of `open`.
        """
        path = Path(path)
        header, sections = read_container(path, mapped, opener)
        if set(sections) - {_GRAPH} != set(_SECTIONS):
            raise UserError(
                f"{path.name}: must have the sections {', '.join(_SECTIONS)}, "
                f"got {', '.join(sections) or 'none'}; compile the model again"
            )
        return Artifact(
            metadata=metadata_from_json(header, path.name),
            constants=np.frombuffer(sections["constants"], np.uint8),
            object_code=bytes(sections["object"]),
            support_code=bytes(sections["support"]),
            graph=bytes(sections.get(_GRAPH, b"")).decode(errors="surrogatepass"),
            origin=path.name,
        )
