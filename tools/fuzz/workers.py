"""Worker processes that check cases and may die or hang of them: started anew as often as need be."""

from __future__ import annotations

import json
import os
import queue
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import IO, Any

from .outcome import DEAD, SLOW, Outcome

Job = dict[str, Any]
TIMEOUT = 60.0
"""Seconds after which a case is slow."""

MEMORY = 12 << 30
"""Bytes of address space of a worker: far more than any case needs, far less than the machine has."""

CASES_PER_PROCESS = 1500
"""Number of cases after which a worker is restarted, so that nothing it keeps adds up."""


class Worker:
    """One process; `check` asks it and outlives whatever happens to it."""

    def __init__(self, timeout: float = TIMEOUT, memory: int = MEMORY) -> None:
        self._timeout = timeout
        self._memory = memory
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._requested = 0

    def check(self, job: Job) -> Outcome:
        """The outcome of one case."""
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None and process.stdin is not None
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
            line = self._line(process)
        except BrokenPipeError:
            line = b""
        if line is None:
            self.close()
            return Outcome(SLOW, "", f"no answer within {self._timeout:g} s", (), self._timeout)
        if not line.endswith(b"\n"):
            return self._death(process)
        self._requested += 1
        if self._requested >= CASES_PER_PROCESS:
            self.close()
        return Outcome.from_json(json.loads(line))

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout, self._errors):
                if stream is not None:
                    with suppress(BrokenPipeError):  # what it did not read goes with it
                        stream.close()
        self._process, self._errors, self._requested = None, None, 0

    def _start(self) -> None:
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        words = [sys.executable, "-P", "-m", f"{__package__}.worker", "--memory", str(self._memory)]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environ
        )

    def _line(self, process: subprocess.Popen[bytes]) -> bytes | None:
        """The answer; None where it takes too long."""
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], self._timeout)
        return process.stdout.readline() if ready else None

    def _death(self, process: subprocess.Popen[bytes]) -> Outcome:
        code = process.wait()
        assert self._errors is not None
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
        self.close()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return Outcome(DEAD, "", " ".join((how, *said))[:300])


class Workers:
    """Several of them. A context: they end with it."""

    def __init__(self, count: int, timeout: float = TIMEOUT, memory: int = MEMORY) -> None:
        self._workers = [Worker(timeout, memory) for _ in range(count)]

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.close()

    def check_all(self, jobs: Iterable[tuple[int, Job]]) -> Iterator[tuple[int, Outcome]]:
        """(number, outcome) of (number, job), in whatever order they are ready."""
        todo, lock = iter(jobs), threading.Lock()
        done: queue.Queue[tuple[int, Outcome] | None] = queue.Queue()
        stop = threading.Event()

        def serve(worker: Worker) -> None:
            try:
                while not stop.is_set():
                    with lock:
                        number, job = next(todo, (-1, None))
                    if job is None:
                        break
                    done.put((number, worker.check(job)))
            finally:
                done.put(None)

        threads = [threading.Thread(target=serve, args=(w,), daemon=True) for w in self._workers]
        for thread in threads:
            thread.start()
        running = len(threads)
        try:
            while running:
                answer = done.get()
                if answer is None:
                    running -= 1
                else:
                    yield answer
        finally:
            stop.set()
