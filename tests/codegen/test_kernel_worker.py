"""The process that compiles parts: what it does when the one it works for is gone."""

import subprocess
import sys

from graphc.codegen.kernel_worker import send


def test_it_ends_silently_when_nobody_reads_its_answers() -> None:
    command = [sys.executable, "-m", "graphc.codegen.kernel_worker"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as worker:
        assert worker.stdin and worker.stdout and worker.stderr
        worker.stdout.close()
        send(worker.stdin, (None, None, False))  # no part: the answer is a failure
        assert worker.stderr.read() == b""
    assert worker.returncode == 0
