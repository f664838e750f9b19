"""Ed25519 signatures of artifacts, with keys in PEM or OpenSSH files.

A signature covers the header, which holds the SHA-256 of every section and of every external weight. It stands in the
header itself, so that renaming or copying a file keeps it. The package `cryptography` does the arithmetic.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..base.errors import UserError
from ..base.file_errors import unreadable
from ..base.pipes import read_file
from .abi import ABI_VERSION

KEY = "signature"
"""Key of the signature in the header of an artifact."""

EMPTY = {"public_key": "0" * 64, "value": "0" * 128}
"""A signature before it is computed: it has the length of all others."""

KeyFile = str | os.PathLike[str]

_MAKE = "make one with `openssl genpkey -algorithm ed25519 -out key.pem`"
_PUBLIC = "`openssl pkey -in key.pem -pubout -out key.pub` writes it"


def signer(key: KeyFile, who: str = "sign") -> Callable[[Mapping[str, Any]], dict[str, str]]:
    """Return a function from a header to its signature by the private key in a file. UserError naming `who`."""
    private = _read_key(key, who, private=True)
    public = private.public_key().public_bytes_raw().hex()
    return lambda header: {"public_key": public, "value": private.sign(_message(header)).hex()}


def verify(header: Mapping[str, Any], key: KeyFile, where: str) -> None:
    """Check the signature in a header by the public key in a file. Raise UserError if it is missing or wrong."""
    public = _read_key(key, "require_signature", private=False)
    signature = header.get(KEY)
    if signature is None:
        raise UserError(
            f"{where}: is not signed, and a signature by the key '{key}' is required; "
            "sign it when it is compiled (--sign)"
        )
    value = _bytes_of(signature, "value", where, 64)
    signed_by = _bytes_of(signature, "public_key", where, 32)
    if signed_by != public.public_bytes_raw():
        raise UserError(
            f"{where}: is signed by the key {signed_by.hex()[:16]}..., not by '{key}'; "
            "get the file, or the key, from whom you trust"
        )
    try:
        public.verify(value, _message(header))
    except _library().InvalidSignature:
        raise UserError(
            f"{where}: its signature does not fit its contents, which were changed after it was signed; "
            "get the file again from whom you trust"
        ) from None


def _message(header: Mapping[str, Any]) -> bytes:
    """The signed bytes: versions, and the header without its signature in one canonical form."""
    rest = {name: value for name, value in header.items() if name != KEY}
    return f"graphc artifact, ABI {ABI_VERSION}\n{json.dumps(rest, sort_keys=True)}".encode()


def _bytes_of(signature: object, name: str, where: str, size: int) -> bytes:
    text = signature.get(name) if isinstance(signature, dict) else None
    try:
        value = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        value = b""
    if len(value) != size:
        raise UserError(
            f"{where}: its signature is corrupt: '{name}' must be {size} bytes in hexadecimal, got {len(value)}; "
            "sign the artifact again"
        )
    return value


def _read_key(path: KeyFile, who: str, private: bool) -> Any:
    """Return the Ed25519 key in a file. May raise UserError."""
    try:
        data = read_file(path)
    except OSError as error:
        raise unreadable(path, error, who) from error
    kind, other = ("private", "public") if private else ("public", "private")
    remedy = _MAKE if private else _PUBLIC
    if _parsed(data, path, who, not private) is not None:
        raise UserError(f"{who}: '{path}' holds a {other} key, must be a {kind} one; {remedy}")
    key = _parsed(data, path, who, private)
    if key is None:
        raise UserError(f"{who}: '{path}' holds no {kind} key in PEM or OpenSSH format; {remedy}")
    library = _library()
    if not isinstance(key, library.private_key if private else library.public_key):
        found = type(key).__name__.removeprefix("_").partition("P")[0]
        raise UserError(f"{who}: '{path}' holds a key of type {found}, must be Ed25519; {_MAKE}")
    return key


def _parsed(data: bytes, path: KeyFile, who: str, private: bool) -> Any:
    """The key in a file, if it holds one of this kind. Raise UserError for one behind a password."""
    library = _library()
    kind = "private" if private else "public"
    for form in ("pem", "ssh"):
        load = getattr(library.serialization, f"load_{form}_{kind}_key")
        try:
            return load(data, None) if private else load(data)
        except TypeError as error:
            raise UserError(
                f"{who}: '{path}' is encrypted with a password; write it without one with `openssl pkey`"
            ) from error
        except (ValueError, library.UnsupportedAlgorithm):
            continue
    return None


class _Library(NamedTuple):
    """The parts of the package `cryptography` in use."""

    serialization: Any
    private_key: Any
    public_key: Any
    InvalidSignature: Any
    UnsupportedAlgorithm: Any


def _library() -> _Library:
    try:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise UserError("signatures need the package cryptography; install graphc[sign]") from error
    keys = ed25519.Ed25519PrivateKey, ed25519.Ed25519PublicKey
    return _Library(serialization, *keys, InvalidSignature, UnsupportedAlgorithm)
