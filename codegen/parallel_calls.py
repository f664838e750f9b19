"""Parallel loops: the arguments packed into a context on the stack, and a trampoline that unpacks them in the worker.

A body runs without a runtime, so a parallel loop inside a parallel loop runs serially.
"""

from __future__ import annotations

from collections.abc import Sequence

from .instruction_stream import InstructionStream, Typed


class ParallelCalls:
    """Emits the parallel loops of one function; `trampolines` maps a callee's symbol to its trampoline's text."""

    def __init__(self, stream: InstructionStream, trampolines: dict[str, str]) -> None:
        self._stream = stream
        self._trampolines = trampolines

    def call(self, callee: str, args: Sequence[Typed], count: int | str) -> None:
        """callee(*args, i) for 0 <= i < count (a number or an operand), by the runtime if there is one and it pays off.

        A count that is known when the code runs may be 1 then: that is not worth waking a thread either.
        """
        if count == 1:
            self._call_one(callee, args, "0")
        if isinstance(count, int) and count <= 1:
            return
        parallel, serial, after = (self._stream.fresh_label(n) for n in ("par", "ser", "joined"))
        alone = self._stream.value("icmp eq ptr %rt, null")
        if isinstance(count, str):
            few = self._stream.value(f"icmp sle i64 {count}, 1", count)
            alone = self._stream.value(f"or i1 {alone}, {few}", alone, few)
        self._stream.end_block(f"br i1 {alone}, label %{serial}, label %{parallel}")
        with self._stream.scope(conditional=True):
            self._stream.begin_block(parallel)
            self._start(callee, args, count)
            self._stream.end_block(f"br label %{after}")
        with self._stream.scope(conditional=True):
            self._stream.begin_block(serial)
            self._run_serially(callee, args, count, after)
        self._stream.begin_block(after)

    def _start(self, callee: str, args: Sequence[Typed], count: int | str) -> None:
        layout = _context_type(args)
        context = self._stream.fresh("ctx")
        self._stream.allocate(context, layout, 8)
        for number, (kind, operand) in enumerate(args):
            place = self._stream.value(_field(layout, context, number))
            self._stream.emit(f"store {kind} {operand}, ptr {place}")
        task = f'{callee[:-1]}.task"'
        self._trampolines.setdefault(callee, _trampoline(task, callee, args))
        start = self._stream.result("load ptr, ptr %rt")
        self._stream.emit(f"call void {start}(ptr %rt, ptr {task}, ptr {context}, i64 {count})")

    def _run_serially(
        self, callee: str, args: Sequence[Typed], count: int | str, after: str
    ) -> None:
        head, before = self._stream.fresh_label("each"), self._stream.label
        self._stream.end_block(f"br label %{head}")
        self._stream.begin_block(head)
        i, following = self._stream.fresh_here(), self._stream.fresh_here()
        self._stream.emit(f"{i} = phi i64 [ 0, %{before} ], [ {following}, %{head} ]")
        self._call_one(callee, args, i)
        self._stream.emit(f"{following} = add nsw i64 {i}, 1")
        again = self._stream.result(f"icmp slt i64 {following}, {count}")
        self._stream.end_block(f"br i1 {again}, label %{head}, label %{after}")

    def _call_one(self, callee: str, args: Sequence[Typed], number: str) -> None:
        self._stream.emit(f"call void {callee}({_operands([*args, ('i64', number)])})")


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


def _operands(args: Sequence[Typed]) -> str:
    return ", ".join(f"{kind} {operand}" for kind, operand in [("ptr", "null"), *args])


def _context_type(args: Sequence[Typed]) -> str:
    return f"{{ {', '.join(kind for kind, _ in args)} }}"


def _field(layout: str, context: str, number: int) -> str:
    return f"getelementptr {layout}, ptr {context}, i32 0, i32 {number}"
