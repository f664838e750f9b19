"""Ctrl-C ends a command within a second, also while it is inside native code, which Python waits for.

Python notes a signal and handles it before its next bytecode: after the native call, which may take minutes or, with an
endless loop in a model, forever. The note comes through a pipe to a separate thread, which ends the process if
nothing has handled the signal soon.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

GRACE_SECONDS = 1.0
"""Time for the command to end by itself: it cleans up files and prints a sentence."""


def end_soon_after_interrupt(code: int) -> None:
    """Install it for the rest of the process, which ends with `code`; main thread, and Python's own handler, only."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        return
    handled = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        handled.set()
        raise KeyboardInterrupt

    source, sink = os.pipe()
    os.set_blocking(sink, False)
    signal.signal(signal.SIGINT, interrupt)
    signal.set_wakeup_fd(sink, warn_on_full_buffer=False)
    watch = threading.Thread(target=_watch, args=(source, handled, code), daemon=True)
    watch.start()


def _watch(source: int, handled: threading.Event, code: int) -> None:
    while number := os.read(source, 1):
        if number[0] == signal.SIGINT and not handled.wait(GRACE_SECONDS):
            print("graphc: interrupted inside native code", file=sys.stderr, flush=True)
            os._exit(code)
        handled.clear()
