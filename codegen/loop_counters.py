"""The counters of an innermost loop, in the units that its addresses need.

`128 * k` bytes would be a multiplication in each round where an address scales its index by at most 8. A second
counter, which grows by 32, gives them at a scale of 4, and `32 * k` at a scale of 1. LLVM's loop strength reduction
finds the same counters in a third of all its time for a kernel, so `aot` switches it off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .instruction_stream import InstructionStream


class LoopCounters:
    """The counters of the loop that is being emitted, by the `scales` of an index; without any there are none.

    `variable` is the operand of the loop's variable, "" outside of innermost loops.
    """

    def __init__(self, stream: InstructionStream, scales: Sequence[int]) -> None:
        self.variable = ""
        self._stream = stream
        self._scales = scales
        self._counters: dict[int, str] = {}
        """Operands of counters by the bytes that each counts per step of the variable."""

    @contextmanager
    def of_loop(self, variable: str) -> Iterator[None]:
        """The block emits the body of an innermost loop, and ends with `close`."""
        if self._scales:
            self.variable, self._counters = variable, {1: variable}
        yield
        self.variable, self._counters = "", {}

    def scaled(self, nbytes: int, size: int) -> tuple[int, str]:
        """A scale, and the counter that gives `nbytes` times the variable at it.

        `nbytes` is a multiple of an element's `size`, and that one of the scales.
        """
        for unit, counter in self._counters.items():
            if nbytes % unit == 0 and nbytes // unit in self._scales:
                return nbytes // unit, counter
        counter = self._counters[nbytes // size] = self._stream.fresh_here()
        return size, counter

    def close(self, head: list[str], begin: str, before: str, step: int) -> None:
        """Add the counters to the loop's first block, which follows `before`, and their steps to its last."""
        for unit, counter in self._counters.items():
            if counter == self.variable:
                continue
            then, last = self._stream.fresh(), self._stream.label
            self._stream.emit(f"{then} = add i64 {counter}, {step * unit}")
            first = self._times(begin, unit)
            head.insert(2, f"  {counter} = phi i64 [ {first}, %{before} ], [ {then}, %{last} ]")

    def _times(self, begin: str, unit: int) -> str:
        if begin.startswith("%"):
            return self._stream.value(f"mul i64 {begin}, {unit}", begin)
        return str(int(begin) * unit)
