"""Interruption of running code: the polls that read the runtime's hook, and the function they call.

`rt` has a hook that tells whether the call is to end, and `stopped`, its last answer (runtime/abi.py). The hook may be
slow, so `graphc_poll` calls it a few times a second, by the cycle counter. Polls stand where a lot of work lies between
them: between kernels, in loops over kernels, and in parallel loops that run serially; the thread pool polls by itself.
A function that sees `stopped` returns at once.
"""

from __future__ import annotations

from ..runtime.abi import RT_CHECKED, RT_ENDED, RT_HOOK, RT_STOPPED
from ..tensor_ir.nodes import (
    Allocate,
    Block,
    Const,
    For,
    Function,
    If,
    ParallelInvoke,
    Prefetch,
    Stmt,
    While,
)
from ..tensor_ir.visitor import walk_statements
from .instruction_stream import InstructionStream

PERIOD_CYCLES = 1 << 28
"""Cycles between two questions: a tenth of a second where the counter has 2.7 GHz."""

KERNELS_PER_POLL = 8
"""Calls of kernels from one poll to the next: reading the cycle counter takes 7 ns, a small kernel ten times that."""

ROUNDS_PER_POLL = 16
"""The same of the iterations of a loop over kernels."""

STATEMENTS_PER_POLL = 1 << 16
"""Estimated statements between two polls of a parallel loop that runs serially: some 30 microseconds."""

UNKNOWN_TRIPS = 64
"""Assumed iterations of a loop whose bounds are known at run time."""

CYCLES_DECLARATION = "declare i64 @llvm.readcyclecounter()"

POLL_TEXT = f"""
; Whether the call is to end: asks the hook of %rt, if there is one and the last question was long ago.
define internal i32 @graphc_poll(ptr %rt) nounwind uwtable noinline {{
entry:
  %none = icmp eq ptr %rt, null
  br i1 %none, label %go_on, label %look
look:
  %hook_at = getelementptr i8, ptr %rt, i64 {RT_HOOK}
  %checked_at = getelementptr i8, ptr %rt, i64 {RT_CHECKED}
  %stopped_at = getelementptr i8, ptr %rt, i64 {RT_STOPPED}
  %hook = load ptr, ptr %hook_at
  %unwatched = icmp eq ptr %hook, null
  br i1 %unwatched, label %known, label %watched
watched:
  %now = call i64 @llvm.readcyclecounter()
  %checked = load i64, ptr %checked_at
  %passed = sub i64 %now, %checked
  %late = icmp ugt i64 %passed, {PERIOD_CYCLES}
  br i1 %late, label %ask, label %known
ask:
  store i64 %now, ptr %checked_at
  %answer = call i32 %hook(ptr %rt)
  %silent = icmp eq i32 %answer, 0
  br i1 %silent, label %known, label %stop
stop:
  store atomic i32 %answer, ptr %stopped_at monotonic, align 4
  br label %known
known:
  %stopped = load atomic i32, ptr %stopped_at monotonic, align 4
  ret i32 %stopped
go_on:
  ret i32 0
}}
"""
"""`i32 @graphc_poll(ptr rt)`, which any thread may call that runs the call; `rt` may be null."""

END_TEXT = f"""
; The end of a call that was stopped: makes %rt ready for the next one and notifies the requester.
define internal void @graphc_end(ptr %rt) nounwind uwtable noinline {{
entry:
  %stopped_at = getelementptr i8, ptr %rt, i64 {RT_STOPPED}
  %ended_at = getelementptr i8, ptr %rt, i64 {RT_ENDED}
  store i32 0, ptr %stopped_at
  %ended = load ptr, ptr %ended_at
  %nobody = icmp eq ptr %ended, null
  br i1 %nobody, label %done, label %tell
tell:
  store ptr null, ptr %ended_at
  %ignored = call i32 %ended(ptr %rt)
  br label %done
done:
  ret void
}}
"""
"""`void @graphc_end(ptr rt)`, which the entry calls."""

IDLE = "@graphc_idle"
IDLE_TEXT = f"{IDLE} = internal constant [{RT_STOPPED + 8} x i8] zeroinitializer, align 8\n"
"""An `rt` that nobody stops."""


class Polls:
    """Emits the polls of one function; `helpers` receives the names of the texts above that it needs."""

    def __init__(self, stream: InstructionStream, helpers: set[str]) -> None:
        self._stream = stream
        self._helpers = helpers
        self._calls = 0
        self._rt = "%rt"

    def begin(self) -> None:
        """Emit the start of a function that calls others, from which on there is an `rt`."""
        self._helpers.add(IDLE_TEXT)
        none = self._stream.result("icmp eq ptr %rt, null")
        self._rt = self._stream.result(f"select i1 {none}, ptr {IDLE}, ptr %rt")

    def after_kernel(self) -> None:
        """Leave the function if the call was stopped; every few kernels, ask."""
        self._calls += 1
        if self._calls % KERNELS_PER_POLL == 0:
            self._leave_if(self._ask())
        else:
            self.leave_if_stopped()

    def leave_if_stopped(self) -> None:
        """Leave the function if the call was stopped; not for functions without an `rt`, before `begin`."""
        pointer = self._stream.value(f"getelementptr i8, ptr {self._rt}, i64 {RT_STOPPED}")
        self._leave_if(self._stream.result(f"load atomic i32, ptr {pointer} monotonic, align 4"))

    def counter(self) -> str:
        """Before a loop over kernels: what counts its iterations."""
        counter = self._stream.fresh("rounds")
        self._stream.allocate(counter, "i32", 4)
        self._stream.emit(f"store i32 0, ptr {counter}")
        return counter

    def each_round(self, counter: str) -> None:
        """Emit a poll in the body of a loop over kernels, in some of its iterations."""
        stream = self._stream
        before = stream.result(f"load i32, ptr {counter}")
        after = stream.result(f"add i32 {before}, 1")
        stream.emit(f"store i32 {after}, ptr {counter}")
        low = stream.result(f"and i32 {after}, {ROUNDS_PER_POLL - 1}")
        now = stream.result(f"icmp eq i32 {low}, 0")
        ask, on = stream.fresh_label("ask"), stream.fresh_label("on")
        stream.end_block(f"br i1 {now}, label %{ask}, label %{on}")
        with stream.scope(conditional=True):
            stream.begin_block(ask)
            self._leave_if(self._ask())
            stream.end_block(f"br label %{on}")
        stream.begin_block(on)

    def leave_loop(self, done: str, rounds: int, on: str, away: str) -> None:
        """End the block of a loop: ask every `rounds`, a power of two; go to `away` if stopped, else to `on`."""
        stream = self._stream
        low = stream.result(f"and i64 {done}, {rounds - 1}")
        now = stream.result(f"icmp eq i64 {low}, 0")
        ask = stream.fresh_label("ask")
        stream.end_block(f"br i1 {now}, label %{ask}, label %{on}")
        stream.begin_block(ask)
        stop = stream.result(f"icmp ne i32 {self._ask()}, 0")
        stream.end_block(f"br i1 {stop}, label %{away}, label %{on}")

    def _ask(self) -> str:
        self._helpers.add(POLL_TEXT)
        self._stream.declares.add(CYCLES_DECLARATION)
        return self._stream.result(f"call i32 @graphc_poll(ptr {self._rt})")

    def _leave_if(self, code: str) -> None:
        stream = self._stream
        stop = stream.result(f"icmp ne i32 {code}, 0")
        leave, on = stream.fresh_label("leave"), stream.fresh_label("on")
        stream.end_block(f"br i1 {stop}, label %{leave}, label %{on}")
        with stream.scope(conditional=True):
            stream.begin_block(leave)
            stream.end_block("ret void")
        stream.begin_block(on)


def tasks_per_poll(task: Function, count: int | str) -> int:
    """Return the number of iterations of a parallel loop between polls, a power of two; 0 if no number of iterations is
    enough work."""
    each = max(_statements(task.body), 1)
    tasks = count if isinstance(count, int) else UNKNOWN_TRIPS
    if each * tasks < 2 * STATEMENTS_PER_POLL:
        return 0
    return 1 << max(STATEMENTS_PER_POLL // each, 1).bit_length() - 1


def has_tasks(function: Function) -> bool:
    """Return whether a function has parallel loops."""
    return any(isinstance(s, ParallelInvoke) for s in walk_statements(function.body))


def _statements(s: Stmt) -> int:
    """Return an estimate of the number of executed statements."""
    if isinstance(s, Block):
        return sum(map(_statements, s.body))
    if isinstance(s, For):
        return _trips(s) * (1 + _statements(s.body))
    if isinstance(s, While):
        return UNKNOWN_TRIPS * (1 + _statements(s.body))
    if isinstance(s, If):
        return 1 + max(_statements(s.then), _statements(s.otherwise) if s.otherwise else 0)
    return 0 if isinstance(s, (Allocate, Prefetch)) else 1


def _trips(s: For) -> int:
    if isinstance(s.begin, Const) and isinstance(s.end, Const):
        return len(range(int(s.begin.value), int(s.end.value), s.step))
    return UNKNOWN_TRIPS
