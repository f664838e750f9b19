"""Compiled models in other processes: pickled by value when they are small, else as the path and the hash of a file.

Unpickling a model loads native code, as `graphc.load` does; pickles from others must not be read at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import UserError
from .artifact import Artifact
from .container import identity
from .metadata import metadata_from_json

MAX_VALUE_BYTES = 16 << 20
"""Constants and code up to this size are part of the pickle; larger ones stay in the model's file, if it has one."""


def packed(artifact: Artifact) -> tuple[Any, ...]:
    """Return the arguments of `unpacked` that make this artifact again."""
    size = artifact.constants.nbytes + len(artifact.object_code) + len(artifact.vector_code)
    file = artifact.file
    if size > MAX_VALUE_BYTES and file is not None and identity(Path(file.path)) == file.digest:
        return (artifact.label, file.path, file.digest, file.mapped)
    code = artifact.object_code, artifact.support_code, artifact.graph, artifact.vector_code
    return (artifact.metadata.to_json(), np.asarray(artifact.constants), *code)


def unpacked(*parts: Any) -> Artifact:
    """Return the artifact. Raise UserError if its file is gone or has changed."""
    if len(parts) > 4:
        header, constants, code, support, graph, vectors = parts
        metadata = metadata_from_json(header, "pickled model")
        return Artifact(metadata, constants, code, support, graph, vector_code=vectors)
    label, path, digest, mapped = parts
    if identity(Path(path)) != digest:
        raise UserError(
            f"{label}: was pickled as the file '{path}', which is gone or has changed; "
            "load the model from a file that every process can read, and pickle it again"
        )
    return Artifact.load(path, mapped)
