"""A process that compiles parts of programs for `kernel_pool`: pickled parts on stdin, pickled objects on stdout."""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import traceback
from typing import IO, Any

from .kernel_parts import Failure, compile_part

_LENGTH = struct.Struct("<Q")


def send(stream: IO[bytes], value: Any) -> None:
    """Write one value."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one value; raise EOFError if the other side is gone."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)


def main() -> None:
    """Compile parts until stdin ends."""
    # The parent gets the signal too, and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints must not end up between the answers
    while True:
        try:
            part, target, check = receive(sys.stdin.buffer)
        except EOFError:
            return
        answer: Any
        try:
            answer = compile_part(part, target, check)
        except Exception as error:  # noqa: BLE001 - the parent raises it
            whole = getattr(error, "whole", "") or traceback.format_exc()
            answer = Failure(f"{type(error).__name__}: {error}", whole)
        try:
            send(answers, answer)
        except BrokenPipeError:
            os._exit(0)  # the parent was killed; closing what is buffered would raise again


if __name__ == "__main__":
    main()
