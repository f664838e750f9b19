"""Signed artifacts: what is signed loads, and everything else that claims to be ends with one sentence."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphc
from graphc.base.errors import UserError
from graphc.cli import main
from graphc.runtime.artifact import Artifact
from graphc.runtime.signature import KEY
from support.forgery import forge
from support.native import add_artifact

pytest.importorskip("cryptography")
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

PEM, RAW_PRIVATE = forms.Encoding.PEM, forms.PrivateFormat.PKCS8
KeyPair = tuple[Path, Path]


def write_keys(folder: Path, private: Any, name: str = "key") -> KeyPair:
    own, public = folder / f"{name}.pem", folder / f"{name}.pub"
    own.write_bytes(private.private_bytes(PEM, RAW_PRIVATE, forms.NoEncryption()))
    spki = forms.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(private.public_key().public_bytes(PEM, spki))
    return own, public


@pytest.fixture
def keys(tmp_path: Path) -> KeyPair:
    return write_keys(tmp_path, ed25519.Ed25519PrivateKey.generate())


@pytest.fixture
def signed(tmp_path: Path, keys: KeyPair) -> Path:
    add_artifact().save(tmp_path / "m.gcm", sign=keys[0])
    return tmp_path / "m.gcm"


def test_a_signed_artifact_loads_with_and_without_its_key(signed: Path, keys: KeyPair) -> None:
    plain = Artifact.load(signed)
    assert Artifact.load(signed, key=keys[1]).metadata == plain.metadata
    moved = signed.rename(signed.with_name("renamed.gcm"))
    assert Artifact.load(moved, mapped=True, key=keys[1]).metadata == plain.metadata
    assert graphc.load(moved, require_signature=keys[1]).inputs == plain.metadata.arguments


def test_openssh_keys_sign_and_verify(tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    own, public = tmp_path / "id_ed25519", tmp_path / "id_ed25519.pub"
    own.write_bytes(key.private_bytes(PEM, forms.PrivateFormat.OpenSSH, forms.NoEncryption()))
    public.write_bytes(
        key.public_key().public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH)
    )
    add_artifact().save(tmp_path / "m.gcm", sign=own)
    assert Artifact.load(tmp_path / "m.gcm", key=public).metadata.model == "add"


def test_signing_twice_gives_the_same_bytes(signed: Path, keys: KeyPair) -> None:
    again = signed.with_name("again.gcm")
    Artifact.load(signed).save(again, sign=keys[0])
    assert again.read_bytes() == signed.read_bytes()
    Artifact.load(signed).save(again)
    assert f'"{KEY}"'.encode() not in again.read_bytes()  # a signature is not carried along


def change_model(header: dict[str, Any]) -> None:
    header["model"] = "other"


def change_section(header: dict[str, Any]) -> None:
    header["sections"][0]["sha256"] = "0" * 64


def remove(header: dict[str, Any]) -> None:
    del header[KEY]


def replace(**values: object) -> Callable[[dict[str, Any]], None]:
    return lambda header: header[KEY].update(values)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (change_model, "its signature does not fit its contents"),
        (change_section, "its signature does not fit its contents"),
        (remove, "is not signed, and a signature by the key"),
        (replace(value="ab" * 10), "must be 64 bytes in hexadecimal, got 10"),
        (replace(value="xy" * 64), "must be 64 bytes in hexadecimal, got 0"),
        (replace(value=7), "must be 64 bytes in hexadecimal, got 0"),
        (replace(public_key="00" * 31), "'public_key' must be 32 bytes"),
        (replace(public_key="00" * 32), "is signed by the key 0000000000000000..., not by"),
        (lambda header: header.update({KEY: "x"}), "its signature is corrupt"),
    ],
)
def test_forged_headers_are_refused(
    change: Callable[[dict[str, Any]], None], said: str, signed: Path, keys: KeyPair
) -> None:
    forge(signed, change)
    with pytest.raises(UserError, match=said) as caught:
        Artifact.load(signed, key=keys[1])
    assert "m.gcm" in str(caught.value) and "\n" not in str(caught.value)


def test_another_key_is_refused(signed: Path, tmp_path: Path) -> None:
    _, other = write_keys(tmp_path, ed25519.Ed25519PrivateKey.generate(), "other")
    with pytest.raises(UserError, match=r"m\.gcm: is signed by the key .{16}\.\.\., not by"):
        Artifact.load(signed, key=other)


def test_a_changed_section_of_a_signed_artifact_is_refused(signed: Path, keys: KeyPair) -> None:
    data = bytearray(signed.read_bytes())
    data[-1] ^= 1
    signed.write_bytes(data)
    with pytest.raises(UserError, match="is corrupt"):
        Artifact.load(signed, key=keys[1])


def encrypted(folder: Path) -> Path:
    key = ed25519.Ed25519PrivateKey.generate()
    path = folder / "encrypted.pem"
    path.write_bytes(key.private_bytes(PEM, RAW_PRIVATE, forms.BestAvailableEncryption(b"secret")))
    return path


def text(folder: Path) -> Path:
    (folder / "text").write_text("no key")
    return folder / "text"


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


BAD_KEYS: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "missing": (lambda f: f / "gone.pem", "there is no file", "there is no file"),
    "folder": (lambda f: f, "cannot read", "cannot read"),
    "text": (text, "holds no private key", "holds no public key"),
    "pipe": (pipe, "holds no private key", "holds no public key"),
    "encrypted": (encrypted, "is encrypted with a password", "is encrypted with a password"),
    "rsa": (
        lambda f: write_keys(f, rsa.generate_private_key(65537, 2048), "rsa")[0],
        "holds a key of type RSA, must be Ed25519",
        "holds a private key, must be a public one",
    ),
    "ec, public": (
        lambda f: write_keys(f, ec.generate_private_key(ec.SECP256R1()), "ec")[1],
        "holds a public key, must be a private one",
        "holds a key of type EC, must be Ed25519",
    ),
}


@pytest.mark.parametrize("case", BAD_KEYS)
def test_bad_keys_end_with_one_sentence(
    case: str, signed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, for_signing, for_checking = BAD_KEYS[case]
    path = make(signed.parent)
    with pytest.raises(UserError, match=f"sign: .*{for_signing}"):
        add_artifact().save(signed.with_name("n.gcm"), sign=path)
    assert not signed.with_name("n.gcm").exists()
    assert main(["run", str(signed), "--require-signature", str(path)]) == 2
    out, err = capsys.readouterr()
    assert not out and for_checking in err and err.count("\n") == 1


def test_the_command_line_signs(tmp_path: Path, keys: KeyPair) -> None:
    model, signed = str(Path(__file__).parents[2] / "examples/mlp.onnx"), str(tmp_path / "s.gcm")
    assert main(["compile", model, "-q", "-o", signed, "--sign", str(keys[0])]) == 0
    assert main(["run", signed, "--require-signature", str(keys[1])]) == 0
    assert main(["compile", model, "-q", "--sign", str(keys[0])]) == 2
    library = str(tmp_path / "m.so")
    assert main(["compile", model, "-q", "-o", library, "--sign", str(keys[0])]) == 2


def test_openssl_verifies_with_the_same_keys(tmp_path: Path, keys: KeyPair) -> None:
    """The key files are those of OpenSSL, where it is installed."""
    try:
        words = ["openssl", "pkey", "-in", str(keys[0]), "-pubout"]
        done = subprocess.run(words, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    assert done.stdout == keys[1].read_bytes()


def test_the_header_tells_who_signed(signed: Path) -> None:
    begin = signed.read_bytes().index(b'{"')  # a hash before it may hold a brace
    header, _ = json.JSONDecoder().raw_decode(signed.read_bytes()[begin:].decode(errors="replace"))
    assert len(header[KEY]["public_key"]) == 64 and len(header[KEY]["value"]) == 128
