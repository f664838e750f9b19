"""Signals while native code runs: Ctrl-C ends the call, and other handlers of Python run within a tenth of a second.

Python notes a signal and handles it between two bytecodes of the main thread; inside a native call there are none. So
the code asks its hook a few times a second (runtime/abi.py), and the hook runs bytecodes: then the handlers of pending
signals run, and what they raise ends the call and is raised from it.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Generator
from functools import partial
from typing import Any

from ..base.errors import InternalError
from .abi import VIOLATED, HookFunction, Runtime


class WatchedRuntime:
    """The `rt` of one running call, with the threads of a pool and a hook that lets Python handle signals.

    `pool`: the address of an `rt` whose loops it runs, None to run them serially.
    """

    def __init__(self, pool: int | None, is_bound: bool = False) -> None:
        self._raised: list[BaseException] = []
        self._struct = struct = Runtime()
        handler = _handle_signals(self._raised, struct if is_bound else None)
        next(handler)
        # A method of C: signals are handled inside the generator's `try`, not before it, as in a function of Python.
        self._hook = HookFunction(handler.send)
        struct.hook = ctypes.cast(self._hook, ctypes.c_void_p)
        if pool:
            shared = Runtime.from_address(pool)
            struct.parallel_for, struct.pool = shared.parallel_for, shared.pool
        self.pointer = ctypes.c_void_p(ctypes.addressof(struct))

    def error(self, model: str, code: int) -> BaseException:
        """Return the exception for a status code of a model's call."""
        if self._raised:
            return self._raised.pop()
        if code == VIOLATED and self._struct.error:
            site = self._struct.error.decode(errors="replace")
            at = self._struct.error_index
            return InternalError(f"model '{model}': {site} from {at} on is out of bounds")
        return InternalError(f"model '{model}': native code returned {code}")


def _handle_signals(
    raised: list[BaseException], bound: Runtime | None
) -> Generator[int, int, None]:
    """Answers the hook: 1 where a handler raised something, which is appended to `raised`.

    Nobody sees what a `bound` call returns: there, what was raised is raised again once the call has ended.
    """
    answer = 0
    at_end = None
    while True:
        try:
            while True:
                yield answer
                answer = 0
        except GeneratorExit:
            return
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises belongs to the caller of the model
            answer = 1
            if bound is None:
                raised.append(error)
            else:
                # Kept: the frame of the call refers to this generator.
                at_end = _raise_here(type(error))
                bound.ended = ctypes.cast(at_end, ctypes.c_void_p)


def _raise_here(kind: type[BaseException]) -> Any:
    """Return a native function that raises an exception in this thread, before its next bytecode.

    It consists of C only: a Python function would raise at its first bytecode, inside a callback that drops
    the exception.
    """
    thread = ctypes.c_ulong(threading.get_ident())
    return HookFunction(
        partial(ctypes.pythonapi.PyThreadState_SetAsyncExc, thread, ctypes.py_object(kind))
    )
