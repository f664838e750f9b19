"""Stable sorts of keys with their indices: by insertion, or digit by digit."""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import S32, S64, U32, U64
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Var
from .sort_keys import KeyKind

INSERTED = 32
"""Keys up to which insertion sorts them."""

WIDE_ROWS = 2048
"""Keys from which on digits have 11 bits: fewer passes, whose counts pay."""


MAX_SHARED = 16
"""Keys of 64 bits are sorted by their upper half first where at most one in `MAX_SHARED` shares a digit of it."""


@dataclass(frozen=True)
class Entries:
    """Keys and the index of each, from element `start` of two buffers on: words (u64) that end in the index, or of keys
    of 64 bits, keys and `indices` (u32)."""

    words: Buffer
    indices: Buffer | None
    start: Expr

    def put(self, b: t.LoopBuilder, at: Expr, key: Expr, index: Expr) -> None:
        """Store an entry."""
        if self.indices is None:
            high = t.cast(key, U64) << t.const(32, U64)
            self._store(b, self.words, at, high | t.cast(index, U64))
        else:
            self._store(b, self.words, at, key)
            self._store(b, self.indices, at, t.cast(index, U32))

    def word(self, b: t.LoopBuilder, at: Expr) -> Expr:
        """Return what entries are ordered by."""
        return self.words[self.start + at]

    def key(self, b: t.LoopBuilder, at: Expr) -> Expr:
        """Return the key of an entry."""
        word = self.word(b, at)
        return t.cast(word >> t.const(32, U64), U32) if self.indices is None else word

    def index(self, b: t.LoopBuilder, at: Expr) -> Expr:
        """Return the index of an entry, s64."""
        if self.indices is None:
            return t.cast(self.word(b, at) & t.const(0xFFFFFFFF, U64), S64)
        return t.cast(self.indices[self.start + at], S64)

    def held(self, b: t.LoopBuilder, at: Expr) -> tuple[Expr, ...]:
        """Return an entry, bound to names: its word, and its index if that is stored apart."""
        word = b.let("word", self.word(b, at))
        if self.indices is None:
            return (word,)
        return word, b.let("index", self.indices[self.start + at])

    def store(self, b: t.LoopBuilder, at: Expr, entry: tuple[Expr, ...]) -> None:
        """Store an entry that was `held`."""
        self._store(b, self.words, at, entry[0])
        if self.indices is not None:
            self._store(b, self.indices, at, entry[1])

    def _store(self, b: t.LoopBuilder, buffer: Buffer, at: Expr, value: Expr) -> None:
        b.store(buffer, (self.start + at,), value)


def sort(
    b: t.LoopBuilder,
    kind: KeyKind,
    pair: tuple[Entries, Entries],
    count: Expr,
    known: int,
    write: Callable[[Entries], None],
    width: int = 0,
) -> None:
    """Sort the first `count` entries of `pair[0]` in ascending order of keys and use the result.

    Args:
        known: `count` where it is a number, 0 where it is computed.
        width: bits of a digit; 0 chooses by `known`.
    """
    width = width or (11 if known >= WIDE_ROWS else 8)
    if 0 < known <= INSERTED:
        _insert(b, pair[0], count)
        write(pair[0])
    elif known:
        write(_by_digits(b, kind, pair, count, width))
    else:
        with b.when(count <= INSERTED):
            _insert(b, pair[0], count)
            write(pair[0])
        with b.otherwise():
            write(_by_digits(b, kind, pair, count, width))


def _insert(b: t.LoopBuilder, found: Entries, count: Expr) -> None:
    """Move each entry before the greater ones in front of it."""
    with b.loop("i", 1, count) as i:
        entry = found.held(b, i)
        at = b.allocate("at", S64, (1,))
        b.store(at, (0,), i)
        here = at[0]
        before = t.maximum(here - 1, 0)
        greater = found.word(b, before) > entry[0]
        with b.repeat((here > 0) & greater):
            to = b.let("to", here)
            found.store(b, to, found.held(b, to - 1))
            b.store(at, (0,), to - 1)
        found.store(b, b.let("hole", here), entry)


def _by_digits(
    b: t.LoopBuilder, kind: KeyKind, pair: tuple[Entries, Entries], count: Expr, width: int
) -> Entries:
    """Distribute by each digit, least significant first; return where the result lies.

    Many keys of 64 bits are distributed by their upper half, which tells most apart: the others are inserted, unless
    many have the same.
    """
    digits = _Digits(b, kind.shifts(width), 1 << width)
    ends = b.allocate("ends", S64, (2,))
    for number, entries in enumerate(pair):
        b.store(ends, (number,), entries.start)
    digits.count(_at(b, pair[0], ends), count)
    if kind.is_packed or width < 11:
        digits.distribute(pair[0], ends, count, t.ZERO)
        return _at(b, pair[0], ends)
    half = len(digits.shifts) // 2
    tells = digits.max_alike(half) * MAX_SHARED <= count
    first = b.let("first", t.select(tells, t.as_expr(half), t.ZERO))
    digits.distribute(pair[0], ends, count, first)
    with b.when(first > 0):
        shift = t.const(digits.shifts[half], U64)
        longest = _longest_run(b, _at(b, pair[0], ends), count, shift)
        with b.when(longest <= INSERTED):
            _insert(b, _at(b, pair[0], ends), count)
        with b.otherwise():
            digits.count(_at(b, pair[0], ends), count)
            digits.distribute(pair[0], ends, count, t.ZERO)
    return _at(b, pair[0], ends)


def _at(b: t.LoopBuilder, entries: Entries, ends: Buffer) -> Entries:
    """The entries that begin at ends[0]."""
    return Entries(entries.words, entries.indices, b.let("source", ends[0]))


def _longest_run(b: t.LoopBuilder, entries: Entries, count: Expr, shift: Expr) -> Expr:
    """The length of the longest run of keys that agree from bit `shift` on, less one; or that of the first long one."""
    run, longest, at = (b.allocate(name, S64, (1,)) for name in ("run", "longest", "at"))
    for buffer, value in ((run, 0), (longest, 0), (at, 1)):
        b.store(buffer, (0,), value)
    goes_on = at[0] < count
    is_short = longest[0] <= INSERTED
    with b.repeat(goes_on & is_short):
        i = b.let("i", at[0])
        differ = entries.word(b, i) ^ entries.word(b, i - 1)
        same = t.equal(differ >> shift, t.const(0, U64))
        length = b.let("length", t.select(same, run[0] + 1, t.const(0, S64)))
        b.store(run, (0,), length)
        b.store(longest, (0,), t.maximum(longest[0], length))
        b.store(at, (0,), i + 1)
    return b.let("longest", longest[0])


class _Digits:
    """Offsets of the entries of each value of each digit: counts at first."""

    def __init__(self, b: t.LoopBuilder, shifts: range, size: int) -> None:
        self.b, self.shifts, self.size = b, shifts, size
        self.starts = b.allocate("starts", S32, (len(shifts) * size,))

    def _at(self, digit: Expr | int, word: Expr, shift: Expr) -> Expr:
        moved = word >> shift & t.const(self.size - 1, U64)
        return digit * self.size + t.cast(moved, S64)

    def count(self, source: Entries, count: Expr) -> None:
        """Count all digits in one pass."""
        b, starts = self.b, self.starts
        with b.loop("d", 0, starts.shape[0], "vector") as d:
            b.store(starts, (d,), 0)
        with b.loop("i", 0, count) as i:
            word = b.let("word", source.word(b, i))
            for digit, shift in enumerate(self.shifts):
                at = b.let("at", self._at(digit, word, t.const(shift, U64)))
                b.store(starts, (at,), starts[at] + 1)

    def max_alike(self, digit: int) -> Expr:
        """Return the number of keys with the most frequent value of a digit."""
        b = self.b
        most = b.allocate("most", S32, (1,))
        b.store(most, (0,), 0)
        with b.loop("d", digit * self.size, (digit + 1) * self.size, "vector") as d:
            b.store(most, (0,), t.maximum(most[0], self.starts[d]))
        return t.cast(most[0], S64)

    def distribute(self, entries: Entries, ends: Buffer, count: Expr, first: Expr) -> None:
        """Distribute the entries from ends[0] on by the digits from `first` on; there they are afterwards.

        A digit that all keys share needs no distribution.
        """
        b = self.b
        with b.loop("digit", first, len(self.shifts)) as digit:
            source, target = (
                Entries(entries.words, entries.indices, b.let(name, ends[at]))
                for at, name in enumerate(("source", "target"))
            )
            position = digit * self.shifts.step + self.shifts.start
            shift = t.cast(b.let("shift", position), U64)
            same = self.starts[self._at(digit, source.word(b, t.ZERO), shift)]
            with b.when(t.cast(same, S64) < count):
                self._add_up(digit)
                with b.loop("i", 0, count) as i:
                    entry = source.held(b, i)
                    which = b.let("which", self._at(digit, entry[0], shift))
                    to = b.let("to", self.starts[which])
                    target.store(b, t.cast(to, S64), entry)
                    b.store(self.starts, (which,), to + 1)
                b.store(ends, (0,), target.start)
                b.store(ends, (1,), source.start)

    def _add_up(self, digit: Expr) -> None:
        """Replace the counts of each value by the offsets of its entries."""
        b, starts = self.b, self.starts
        total = b.allocate("total", S32, (1,))
        b.store(total, (0,), 0)
        base = b.let("base", digit * self.size)
        with b.loop("d", 0, self.size) as d:
            at = b.let("at", base + d)
            amount = b.let("amount", starts[at])
            so_far = b.let("so_far", total[0])
            b.store(starts, (at,), so_far)
            b.store(total, (0,), so_far + amount)


BLOCK = 8
"""Elements that are tested in vectors before any of them is looked at."""


def collect(
    b: t.LoopBuilder,
    size: int | Expr,
    fails: Callable[[Expr], Expr],
    put: Callable[[Expr, Expr], None],
) -> Var:
    """Collect the elements of 0 <= i < size that pass, in order; return their number.

    Args:
        fails: whether element i fails the test.
        put: stores element i at a position, which may be that behind the last element found.
    """
    count = b.allocate("count", S64, (1,))
    b.store(count, (0,), 0)
    whole = b.let("whole", t.as_expr(size) // BLOCK * BLOCK)
    with b.loop("base", 0, whole, step=BLOCK) as base:
        hit = b.allocate("hit", S32, (1,))
        b.store(hit, (0,), 0)
        with b.loop("i", 0, BLOCK, "vector") as i:
            passes = t.select(fails(base + i), t.const(0, S32), t.const(1, S32))
            b.store(hit, (0,), hit[0] | passes)
        with b.when(t.unequal(hit[0], 0)):
            _append(b, (base, base + BLOCK), count, fails, put)
    _append(b, (whole, t.as_expr(size)), count, fails, put)
    return b.let("found", count[0])


def _append(
    b: t.LoopBuilder,
    span: tuple[Expr, Expr],
    count: Buffer,
    fails: Callable[[Expr], Expr],
    put: Callable[[Expr, Expr], None],
) -> None:
    """Write each element behind those found; it counts if it passes: no branch to predict."""
    with b.loop("i", *span) as i:
        at = b.let("at", count[0])
        put(at, i)
        step = t.select(fails(i), t.const(0, S64), t.const(1, S64))
        b.store(count, (0,), at + step)
