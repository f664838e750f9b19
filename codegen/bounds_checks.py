"""Checked accesses (`-X check-bounds`): every load and store first compares its indices with its buffer's size.

The first access outside of its buffer is not made: its function writes what and where to `rt` (runtime/abi.py) and
returns, and so do those that called it. In checked code, parallel loops run serially, as tasks have no `rt`.
"""

from __future__ import annotations

from ..runtime.abi import RT_ERROR, RT_ERROR_INDEX, RT_STOPPED, VIOLATED
from ..tensor_ir.nodes import Buffer, Function
from .instruction_stream import InstructionStream
from .llvm_types import lane_mask

VIOLATED_TEXT = f"""
declare void @llvm.trap()

; Ends the call: an access at %site would be outside of its buffer. Without an %rt nobody could be told.
define internal void @graphc_violated(ptr %rt, ptr %site, i64 %index) nounwind uwtable noinline {{
entry:
  %none = icmp eq ptr %rt, null
  br i1 %none, label %trap, label %report
trap:
  call void @llvm.trap()
  unreachable
report:
  %error_at = getelementptr i8, ptr %rt, i64 {RT_ERROR}
  %index_at = getelementptr i8, ptr %rt, i64 {RT_ERROR_INDEX}
  %stopped_at = getelementptr i8, ptr %rt, i64 {RT_STOPPED}
  store ptr %site, ptr %error_at
  store i64 %index, ptr %index_at
  store i32 {VIOLATED}, ptr %stopped_at
  ret void
}}
"""


class BoundsChecks:
    """Emits the checks of one function; `helpers` receives the texts that they need."""

    def __init__(self, stream: InstructionStream, helpers: set[str], function: Function) -> None:
        self._stream = stream
        self._helpers = helpers
        self._where = function.note.partition(" [")[0] or function.name

    def check(self, verb: str, buffer: Buffer, first: str, span: int, limit: str) -> None:
        """Return from the function unless the `span` elements from `first` on are among the `limit` of the buffer.

        `first` and `limit` are operands; `verb` is what the access does.
        """
        is_known = not first.startswith("%") and not limit.startswith("%")
        if is_known and 0 <= int(first) <= int(limit) - span:
            return
        stream = self._stream
        last = stream.result(f"sub i64 {limit}, {span}")
        is_large = stream.result(f"icmp sge i64 {last}, 0")
        is_inside = stream.result(f"icmp ule i64 {first}, {last}")
        is_right = stream.result(f"and i1 {is_large}, {is_inside}")
        bad, on = stream.fresh_label("outside"), stream.fresh_label("inside")
        stream.end_block(f"br i1 {is_right}, label %{on}, label %{bad}")
        with stream.scope(conditional=True):
            stream.begin_block(bad)
            site = self._site(f"{self._where}: {verb} {span} of '{buffer.name}'")
            stream.emit(f"call void @graphc_violated(ptr %rt, ptr {site}, i64 {first})")
            stream.end_block("ret void")
        stream.begin_block(on)

    def check_lanes(
        self, verb: str, buffer: Buffer, indices: str, lanes: int, active: int, limit: str
    ) -> None:
        """The same of a vector of indices, of which the first `active` are used."""
        kind = f"<{lanes} x i64>"
        if active < lanes:
            used = f"<{lanes} x i1> {lane_mask(lanes, active)}"
            indices = self._stream.value(f"select {used}, {kind} {indices}, {kind} zeroinitializer")
        name = f"llvm.vector.reduce.umax.v{lanes}i64"
        self.check(verb, buffer, self._stream.intrinsic(name, "i64", (kind, indices)), 1, limit)

    def _site(self, text: str) -> str:
        self._helpers.add(VIOLATED_TEXT)
        data = text.encode()
        name = f"@graphc_site.{len(self._helpers)}"
        letters = "".join(f"\\{byte:02x}" for byte in data)
        self._helpers.add(f'{name} = internal constant [{len(data) + 1} x i8] c"{letters}\\00"\n')
        return name
