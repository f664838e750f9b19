"""Bytes that identify ops, graphs and attribute values by their contents."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import numpy as np

from ...base.dims import Dim, symbols_of
from ...base.mapped_file import release
from .format import Format
from .logical_tensor import LogicalTensor

Token = bytes | memoryview


class Comparable:
    """Base of what has contents; the names of ops and `temp.` attributes are none."""

    def content_tokens(self) -> Iterator[Token]:
        """Bytes that identify the contents."""
        raise NotImplementedError

    def hash_contents(self) -> str:
        """SHA-256 of the contents. Equal hashes: compare with `compare_contents`."""
        return digest(self.content_tokens())

    def compare_contents(self, other: Comparable) -> bool:
        """Return whether the contents are equal."""
        pairs = zip_longest(self.content_tokens(), other.content_tokens())
        return all(mine == theirs for mine, theirs in pairs)


def digest(tokens: Iterable[Token]) -> str:
    """SHA-256 of tokens, each with its length."""
    found, small = hashlib.sha256(), bytearray()  # most tokens are a few bytes: hashed together
    for token in tokens:
        small += len(token).to_bytes(8, "little")
        if isinstance(token, memoryview):
            found.update(small)
            found.update(token)
            small.clear()
            release(np.asarray(token.obj))
        else:
            small += token
    found.update(small)
    return found.hexdigest()


def attribute_tokens(value: Any) -> Iterator[Token]:
    """Bytes that identify an attribute value; dictionary keys that start with `temp.` are ignored.

    For a contiguous array they are its memory itself.
    """
    if isinstance(value, np.ndarray):
        native = np.asarray(value, dtype=value.dtype.newbyteorder("="))
        yield f"{native.dtype}{native.shape}".encode()
        yield np.ascontiguousarray(native).reshape(-1).view(np.uint8).data
    elif hasattr(value, "content_tokens"):  # a graph
        yield from value.content_tokens()
    elif isinstance(value, dict):
        kept = sorted(key for key in value if not key.startswith("temp."))
        yield f"{len(kept)}{{".encode()
        for key in kept:
            yield key.encode()
            yield from attribute_tokens(value[key])
    elif isinstance(value, (list, tuple)):
        yield f"{len(value)}[".encode()
        for item in value:
            yield from attribute_tokens(item)
    elif isinstance(value, LogicalTensor):
        yield f"{value.dtype}{value.plain_dims}{_ranges(value.plain_dims)}".encode()
        yield from attribute_tokens(value.format)
    elif isinstance(value, Dim):
        yield f"{value}{_ranges((value,))}".encode()
    elif isinstance(
        value, Format
    ):  # the letters are ignored: equal layouts may be spelled differently
        yield f"{value.order}{value.blocks}".encode()
    else:
        yield repr(value.item() if isinstance(value, np.generic) else value).encode()


def _ranges(sizes: Iterable[object]) -> str:
    """The ranges of the symbols in sizes, whose text has only names."""
    return "".join(f" {symbol.name} in {symbol.range_text}" for symbol in symbols_of(sizes))
