"""Compiles the parts of a program in several processes, including this one: LLVM holds one lock per process.

The other processes are started early, as their imports take a while, and take parts when they are ready. The object of
a part does not depend on the process that compiles it.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from ..base.errors import InternalError
from ..targets.isa import Target
from .kernel_parts import CompiledPart, Failure, Part, compile_part
from .kernel_worker import receive, send

if TYPE_CHECKING:
    import subprocess
    from types import TracebackType

OnPart = Callable[[int, int], None]
"""Progress: (parts done, parts in all)."""

_LOG = logging.getLogger("graphc.codegen")


class KernelPool:
    """A pool of this process and `jobs - 1` others. A context manager: the others end with it."""

    def __init__(self, jobs: int) -> None:
        self._workers = [_start() for _ in range(jobs - 1)]

    def __enter__(self) -> KernelPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _stop(self._workers)

    def compile(
        self, parts: Sequence[Part], target: Target, check: bool, on_part: OnPart | None = None
    ) -> list[CompiledPart]:
        """The object of every part, in order. Raise InternalError if one cannot be compiled."""
        work = _Work(parts, target, check, on_part)
        threads = [
            threading.Thread(target=work.by_worker, args=(worker,), daemon=True)
            for worker in self._workers
        ]
        for thread in threads:
            thread.start()
        work.here()
        for thread in threads:
            thread.join()
        return work.results()


def compile_apart(part: Part, target: Target) -> CompiledPart:
    """Compile a part that may end the process that does so. Raise InternalError with LLVM's last words if it does."""
    with tempfile.TemporaryFile() as words:
        worker = _start(words)
        try:
            return _ask(worker, part, target, check=False)
        except InternalError as error:
            words.seek(0)
            lines = words.read().decode(errors="replace").strip().splitlines()
            said = f": {lines[-1].rpartition('Assertion ')[2]}" if lines else ""
            raise InternalError(f"{error}{said}", error.whole) from error
        finally:
            _stop([worker])


def _start(words: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """A worker with this process's module path. Nothing is imported from the folder it happens to be in (-P).

    `words`: a file for what it prints.
    """
    import subprocess  # small models are compiled in this process alone

    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    command = [sys.executable, "-P", "-m", f"{__package__}.kernel_worker"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=words, env=environ)


def _stop(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.wait()
        for stream in (worker.stdin, worker.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # unread input is discarded
                    stream.close()


def _ask(worker: subprocess.Popen[bytes], part: Part, target: Target, check: bool) -> CompiledPart:
    assert worker.stdin is not None and worker.stdout is not None
    try:
        send(worker.stdin, (part, target, check))
        answer = receive(worker.stdout)
    except (EOFError, OSError) as error:
        raise InternalError(
            f"the process that compiled {part.label} ended with code {worker.wait()}"
        ) from error
    if isinstance(answer, Failure):
        raise InternalError(f"{part.label}: {answer.message}", answer.whole)
    found: CompiledPart = answer
    return found


class _Work:
    """The parts not yet started, and the results of the others."""

    def __init__(
        self, parts: Sequence[Part], target: Target, check: bool, on_part: OnPart | None
    ) -> None:
        self._parts, self._target, self._check = parts, target, check
        self._on_part = on_part
        self._pending = deque(range(len(parts)))
        self._done: dict[int, CompiledPart] = {}
        self._error: BaseException | None = None
        self._lock = threading.Lock()

    def here(self) -> None:
        """Compile parts in this process until none is left."""
        while (number := self._next()) is not None:
            try:
                self._keep(number, compile_part(self._parts[number], self._target, self._check))
            except BaseException as error:  # noqa: BLE001 - `results` raises it, once the workers have stopped
                self._fail(error)

    def by_worker(self, worker: subprocess.Popen[bytes]) -> None:
        """Have parts compiled by a worker until none is left."""
        while (number := self._next()) is not None:
            part = self._parts[number]
            try:
                self._keep(number, _ask(worker, part, self._target, self._check))
            except RecursionError:
                # Pickle recurses more deeply into an expression than the passes do.
                _LOG.info("%s is nested too deeply to be sent", part.label)
                with self._lock:
                    self._pending.append(number)
                return
            except Exception as error:  # noqa: BLE001 - as above
                self._fail(error)

    def results(self) -> list[CompiledPart]:
        """Every part's object; raises the first error."""
        # A part nested too deeply for the last worker may come back after this process has finished its own.
        self.here()
        if self._error is not None:
            raise self._error
        return [self._done[number] for number in range(len(self._parts))]

    def _next(self) -> int | None:
        with self._lock:
            return self._pending.popleft() if self._pending and self._error is None else None

    def _keep(self, number: int, part: CompiledPart) -> None:
        with self._lock:
            self._done[number] = part
            if self._on_part:
                self._on_part(len(self._done), len(self._parts))

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._error = self._error or error
