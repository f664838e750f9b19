from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import graphc
from support.control import endless

INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
"""A shell starts what it runs in the background with SIGINT ignored, which processes inherit."""

INTERRUPTED_CALL = """
import os, runpy, threading
from graphc.runtime import executor
make_caller = executor.make_caller

def interrupted(*model):
    call = make_caller(*model)
    def begin(arrays):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        return call(arrays)
    return begin

executor.make_caller = interrupted
runpy.run_module("graphc", run_name="__main__")
"""

CLEANING = """
import os, time
from graphc.cli import interrupt
interrupt.GRACE_SECONDS = 0.1
interrupt.end_soon_after_interrupt(130)
for _ in range(2):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(0.3)
        print("cleaned up")
"""


def python(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", INTERRUPTIBLE + program, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_an_endless_loop_of_a_model_is_stopped(tmp_path: Path) -> None:
    graphc.compile(endless()).save(tmp_path / "endless.gcm")
    done = python(INTERRUPTED_CALL, "run", str(tmp_path / "endless.gcm"))
    assert done.returncode == 130, done.stderr


def test_what_handles_the_signal_itself_is_left_alone() -> None:
    done = python(CLEANING)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "cleaned up\n" * 2
