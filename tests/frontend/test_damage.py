"""Files of every format, cut at every token and changed all over: an error of ours in one line, never anything else.

What is wrong with particular files, with full messages, is in the tests of each format.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load
from graphc.frontend.formats import FORMATS
from graphc.frontend.tvm.params import read_params
from support.files import write_anew
from support.networks import chain, perceptron

NAMES = ("onnx", "hlo", "pnnx", "tvm", "ge", "graph")
TEXTS = NAMES[1:]
TOKEN = re.compile(rb"[A-Za-z_][\w.]*|[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?|\s+|.", re.DOTALL)
ANY = re.compile(rb"")
NUMBER = re.compile(rb"[-+]?\d")
OPENING = (b"(", b"[", b"{")
DIGITS = b"9" * 10**6
DEEP = 100_000
SECONDS = 5.0  # of CPU time, for any file


class Sample:
    """A model file in a separate folder, with what it takes to read it."""

    def __init__(self, target: str, folder: Path) -> None:
        graph = chain() if target != "onnx" else perceptron()
        self.path = folder / f"m{FORMATS[target].suffix}"
        files = FORMATS[target].write(graph, self.path)
        self.data = self.path.read_bytes()
        self.specs = None
        self.constants = None
        if target == "ge":
            self.specs = {op.name: str(op.outputs[0].details) for op in graph.inputs}
            self.constants = read_params(files[1]) if len(files) > 1 else None

    def survives(self, data: bytes) -> bool:
        """Return whether these bytes are read; if not, the error is one of ours, in one line of a sensible length."""
        write_anew(self.path, data)
        started = time.process_time()
        try:
            load(self.path, self.specs, self.constants)
        except (UserError, UnsupportedError) as error:
            assert str(error).isprintable() and len(str(error)) < 20_000, str(error)
            return False
        finally:
            assert time.process_time() - started < SECONDS
        return True

    @property
    def tokens(self) -> list[tuple[int, int]]:
        """(begin, end) of each token."""
        return [found.span() for found in TOKEN.finditer(self.data) if not found[0].isspace()]

    def positions(
        self, kind: re.Pattern[bytes] | tuple[bytes, ...], most: int
    ) -> Iterator[tuple[int, int]]:
        """At most about `most` tokens of a kind, spread over the file."""
        found = [
            (begin, end)
            for begin, end in self.tokens
            if (
                self.data[begin:end] in kind
                if isinstance(kind, tuple)
                else kind.match(self.data, begin)
            )
        ]
        assert found
        yield from found[:: max(len(found) // most, 1)]


@pytest.fixture
def sample(request: pytest.FixtureRequest, tmp_path: Path) -> Sample:
    return Sample(request.param, tmp_path)


every_format = pytest.mark.parametrize("sample", NAMES, indirect=True)
every_text = pytest.mark.parametrize("sample", TEXTS, indirect=True)


@every_format
def test_the_sample_itself(sample: Sample) -> None:
    assert sample.survives(sample.data)


@every_text
def test_cut_after_every_token(sample: Sample) -> None:
    survived = sum(sample.survives(sample.data[:end]) for _, end in sample.tokens[:-1])
    assert survived < 20  # what lacks its last line break, or a result that nothing says is missing


def test_a_binary_cut_after_every_byte(tmp_path: Path) -> None:
    sample = Sample("onnx", tmp_path)
    ends = range(0, len(sample.data), max(len(sample.data) // 1000, 1))
    assert not any(sample.survives(sample.data[:end]) for end in ends)


@pytest.mark.exhaustive
@every_text
@pytest.mark.parametrize("instead", [b"", b"undefined", b"99999999999999999999"])
def test_tokens_replaced(sample: Sample, instead: bytes) -> None:
    for begin, end in sample.positions(ANY, 250):
        sample.survives(sample.data[:begin] + instead + sample.data[end:])


@every_text
def test_tokens_and_lines_doubled_or_left_out(sample: Sample) -> None:
    for begin, end in sample.positions(ANY, 250):
        sample.survives(sample.data[:end] + sample.data[begin:])
    lines = sample.data.splitlines(keepends=True)
    for number in range(len(lines)):
        sample.survives(b"".join([*lines[: number + 1], *lines[number:]]))
        sample.survives(b"".join([*lines[:number], *lines[number + 1 :]]))


@every_text
def test_numbers_of_a_million_digits(sample: Sample) -> None:
    for begin, end in sample.positions(NUMBER, 20):
        sample.survives(sample.data[:begin] + DIGITS + sample.data[end:])


@every_text
def test_brackets_a_hundred_thousand_deep(sample: Sample) -> None:
    for begin, end in sample.positions(OPENING, 10):
        opened = sample.data[begin:end] * DEEP
        sample.survives(sample.data[:begin] + opened + sample.data[end:])


def test_subgraphs_ten_thousand_deep(tmp_path: Path) -> None:
    def wrapped(field: int, inside: bytes) -> bytes:
        size, length = len(inside), bytearray()
        while size > 127:
            length.append(size & 127 | 128)
            size >>= 7
        return bytes([field << 3 | 2, *length, size]) + inside

    inside = b""
    for _ in range(10_000):  # each level is a graph in an attribute of a node of a graph
        inside = wrapped(1, wrapped(5, wrapped(6, inside)))
    sample = Sample("onnx", tmp_path)
    assert not sample.survives(wrapped(7, inside))


@cache
def _whole(target: str, folder: Path) -> Sample:
    return Sample(target, folder)


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", NAMES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_bytes_flipped_anywhere(target: str, tmp_path: Path, data: st.DataObject) -> None:
    sample = _whole(target, tmp_path)
    content = bytearray(sample.data)
    for _ in range(data.draw(st.integers(1, 4))):
        offset = data.draw(st.integers(0, len(content) - 1))
        content[offset] ^= data.draw(st.integers(1, 255))
    sample.survives(bytes(content))
