"""Parallel loops: the arguments packed into a context on the stack, and a trampoline that unpacks them in the worker.

A body runs without a runtime, so a parallel loop inside a parallel loop runs serially.
"""

from __future__ import annotations

from collections.abc import Sequence

from .instruction_stream import InstructionStream, Typed
from .interruption import Polls


class ParallelCalls:
    """Emits the parallel loops of one function; `trampolines` maps a callee's symbol to its trampoline's text."""

    def __init__(
        self,
        stream: InstructionStream,
        trampolines: dict[str, str],
        polls: Polls,
        is_serial: bool = False,
    ) -> None:
        """`is_serial`: all loops run here, and their tasks get this function's runtime."""
        self._is_serial = is_serial
        self._stream = stream
        self._trampolines = trampolines
        self._polls = polls

    def call(
        self, callee: str, args: Sequence[Typed], count: int | str, tasks_per_poll: int
    ) -> None:
        """callee(*args, i) for 0 <= i < count, by the runtime if it has threads and it pays off.

        `count`: a number or an operand. `tasks_per_poll`: number of tasks, a power of two, between polls of a
        serial loop; 0 for never. A count that is known at run time may be 0 then, or 1: not worth waking a
        thread either.
        """
        if count == 1:
            self._call_one(callee, args, "0")
        if isinstance(count, int) and count <= 1:
            return
        after = self._stream.fresh_label("joined")
        if isinstance(count, int):
            self._call_all(callee, args, count, after, tasks_per_poll)
        else:
            begin = self._stream.fresh_label("some")
            some = self._stream.result(f"icmp sgt i64 {count}, 0")
            self._stream.end_block(f"br i1 {some}, label %{begin}, label %{after}")
            with self._stream.scope(conditional=True):
                self._stream.begin_block(begin)
                self._call_all(callee, args, count, after, tasks_per_poll)
        self._stream.begin_block(after)

    def _call_all(
        self, callee: str, args: Sequence[Typed], count: int | str, after: str, tasks_per_poll: int
    ) -> None:
        """All iterations, of which there are some, then on to `after`."""
        if self._is_serial:
            self._run_serially(callee, args, count, after, tasks_per_poll)
            return
        parallel, serial = (self._stream.fresh_label(name) for name in ("par", "ser"))
        alone = self._stream.value("icmp eq ptr %rt, null")
        if isinstance(count, str):
            few = self._stream.value(f"icmp sle i64 {count}, 1", count)
            alone = self._stream.value(f"or i1 {alone}, {few}", alone, few)
        threads = self._stream.fresh_label("rt")
        self._stream.end_block(f"br i1 {alone}, label %{serial}, label %{threads}")
        with self._stream.scope(conditional=True):
            self._stream.begin_block(threads)
            loop = self._stream.result("load ptr, ptr %rt")
            none = self._stream.result(f"icmp eq ptr {loop}, null")
            self._stream.end_block(f"br i1 {none}, label %{serial}, label %{parallel}")
            self._stream.begin_block(parallel)
            self._start(loop, callee, args, count)
            self._stream.end_block(f"br label %{after}")
        with self._stream.scope(conditional=True):
            self._stream.begin_block(serial)
            self._run_serially(callee, args, count, after, tasks_per_poll)

    def _start(self, loop: str, callee: str, args: Sequence[Typed], count: int | str) -> None:
        layout = _context_type(args)
        context = self._stream.fresh("ctx")
        self._stream.allocate(context, layout, 8)
        for number, (kind, operand) in enumerate(args):
            pointer = self._stream.value(_field(layout, context, number))
            self._stream.emit(f"store {kind} {operand}, ptr {pointer}")
        task = f'{callee[:-1]}.task"'
        self._trampolines.setdefault(callee, _trampoline(task, callee, args))
        self._stream.emit(f"call void {loop}(ptr %rt, ptr {task}, ptr {context}, i64 {count})")

    def _run_serially(
        self, callee: str, args: Sequence[Typed], count: int | str, after: str, tasks_per_poll: int
    ) -> None:
        stream = self._stream
        head, next_, before = stream.fresh_label("each"), stream.fresh_label("next"), stream.label
        stream.end_block(f"br label %{head}")
        stream.begin_block(head)
        i, following = stream.fresh_here(), stream.fresh_here()
        stream.emit(f"{i} = phi i64 [ 0, %{before} ], [ {following}, %{next_} ]")
        self._call_one(callee, args, i)
        stream.emit(f"{following} = add nsw i64 {i}, 1")
        if tasks_per_poll:
            self._polls.leave_loop(following, tasks_per_poll, next_, after)
        else:
            stream.end_block(f"br label %{next_}")
        stream.begin_block(next_)
        again = stream.result(f"icmp slt i64 {following}, {count}")
        stream.end_block(f"br i1 {again}, label %{head}, label %{after}")

    def _call_one(self, callee: str, args: Sequence[Typed], number: str) -> None:
        rt = "%rt" if self._is_serial else "null"
        self._stream.emit(f"call void {callee}({_operands([*args, ('i64', number)], rt)})")
        if self._is_serial:
            self._polls.leave_if_stopped()


def _trampoline(task: str, callee: str, args: Sequence[Typed]) -> str:
    """`void (ptr ctx, i64 i)`: what the runtime calls for each iteration."""
    layout = _context_type(args)
    lines = [f"define internal void {task}(ptr %ctx, i64 %i) #0 {{"]
    for number, (kind, _) in enumerate(args):
        lines.append(f"  %at.{number} = {_field(layout, '%ctx', number)}")
        lines.append(f"  %arg.{number} = load {kind}, ptr %at.{number}")
    loaded = [(kind, f"%arg.{number}") for number, (kind, _) in enumerate(args)]
    lines.append(f"  call void {callee}({_operands([*loaded, ('i64', '%i')])})")
    lines.extend(["  ret void", "}", ""])
    return "\n".join(lines)


def _operands(args: Sequence[Typed], rt: str = "null") -> str:
    return ", ".join(f"{kind} {operand}" for kind, operand in [("ptr", rt), *args])


def _context_type(args: Sequence[Typed]) -> str:
    return f"{{ {', '.join(kind for kind, _ in args)} }}"


def _field(layout: str, context: str, number: int) -> str:
    return f"getelementptr {layout}, ptr {context}, i32 0, i32 {number}"
