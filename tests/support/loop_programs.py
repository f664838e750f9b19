"""Small loop nests that between them use every feature of vector loops; each takes the extent of its vector loop."""

from __future__ import annotations

from collections.abc import Callable

from graphc.base.dtypes import BF16, BOOL, F32, S8, S32, S64, DType
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.builder import LoopBuilder
from graphc.tensor_ir.nodes import Binary, Buffer, Module, Var


def module(b: LoopBuilder, *params: Buffer | Var) -> Module:
    return Module((b.function("f", params),))


def elementwise(n: int) -> Module:
    """Contiguous in the last axis, a row that all lanes share, a scalar in the body."""
    a, bias, c = Buffer("a", F32, (3, n)), Buffer("bias", F32, (3,)), Buffer("c", F32, (3, n))
    b = LoopBuilder()
    with b.loop("i", 0, 3) as i, b.loop("j", 0, n, "vector") as j:
        x = b.let("x", a[i, j] * 2.0)
        row = b.let("row", bias[i])
        b.store(c, (i, j), t.maximum(x + row, 0.0))
    return module(b, a, bias, c)


def strided(n: int) -> Module:
    """A gather, a scatter, an index table, and the loop variable as a value."""
    a, table, c = (
        Buffer("a", F32, (n + 1, 3)),
        Buffer("table", S32, (n + 1,)),
        Buffer("c", F32, (n, 2)),
    )
    d = Buffer("d", F32, (n,))
    b = LoopBuilder()
    with b.loop("j", 0, n, "vector") as j:
        b.store(c, (j, 1), a[j, 2])
        position = b.let("position", t.cast(table[j], S64))
        index = t.minimum(t.maximum(position, 0), n)
        b.store(d, (j,), a[index, 0] + t.cast(j, F32))
    return module(b, a, table, c, d)


def reduction(n: int, op: str = "add", dtype: DType = S32) -> Module:
    """Into one local, from outside the loop."""
    a, c = Buffer("a", dtype, (2, n)), Buffer("c", dtype, (2,))
    b = LoopBuilder()
    start = {
        "add": 0,
        "mul": 1,
        "min": 100,
        "max": -100 if dtype.is_signed else 0,
        "larger": -100,
        "and": 1,
        "or": 0,
    }[op]
    with b.loop("i", 0, 2) as i:
        acc = b.allocate("acc", dtype, (1,))
        b.store(acc, (0,), start)
        with b.loop("j", 0, n, "vector") as j:
            b.store(acc, (0,), Binary(op, acc[0], a[i, j]))
        b.store(c, (i,), acc[0])
    return module(b, a, c)


def inner_reduction(n: int) -> Module:
    """Each lane sums up a column in a local of the body."""
    a, c = Buffer("a", F32, (5, n)), Buffer("c", F32, (n,))
    b = LoopBuilder()
    with b.loop("j", 0, n, "vector") as j:
        acc = b.allocate("acc", F32, (2,))
        b.store(acc, (0,), 0.0)
        b.store(acc, (1,), 0.0)
        with b.loop("k", 0, 5) as k:
            here = (k % 2,)
            b.store(acc, here, acc[here] + a[k, j])
        b.store(c, (j,), acc[0] * acc[1])
    return module(b, a, c)


def blocked(n: int) -> Module:
    """Rows of 16 in blocks of 16, as in NCHW16c: contiguous behind a division and a remainder."""
    blocks = -(-n // 16)
    a, c = Buffer("a", F32, (max(blocks, 1), 4, 16)), Buffer("c", F32, (4, n))
    b = LoopBuilder()
    with b.loop("i", 0, 4) as i, b.loop("j", 0, n, "vector") as j:
        b.store(c, (i, j), a[j // 16, i, j % 16])
    return module(b, a, c)


def several_accumulators(n: int) -> Module:
    """Two slots, one of them chosen by an inner loop, and a fused multiply-add."""
    a, c = Buffer("a", F32, (3, n)), Buffer("c", F32, (4,))
    b = LoopBuilder()
    acc = b.allocate("acc", F32, (3,))
    dot = b.allocate("dot", F32, (1,))
    for slot in range(3):
        b.store(acc, (slot,), 1.0)
    b.store(dot, (0,), 3.0)
    with b.loop("j", 0, n, "vector") as j:
        with b.loop("k", 0, 3) as k:
            b.store(acc, (k,), acc[k] + a[k, j])
        b.store(dot, (0,), t.fma(a[0, j], a[1, j], dot[0]))
    for slot in range(3):
        b.store(c, (slot,), acc[slot])
    b.store(c, (3,), dot[0])
    return module(b, a, c)


def branches(n: int) -> Module:
    """A branch that lanes share stays a branch; one that varies makes the loop serial."""
    a, c, d = Buffer("a", F32, (2, n)), Buffer("c", F32, (2, n)), Buffer("d", F32, (n,))
    b = LoopBuilder()
    with b.loop("i", 0, 2) as i:
        with b.loop("j", 0, n, "vector") as j, b.when(t.equal(i, 1)):
            b.store(c, (i, j), a[0, j])
        with b.loop("j", 0, n, "vector") as j, b.when(j < n // 2):
            b.store(d, (j,), a[i, j])
    return module(b, a, c, d)


def split_among_tasks(n: int) -> Module:
    """Bounds known at run time only."""
    a, c, total = Buffer("a", S32, (n,)), Buffer("c", S32, (n,)), Buffer("total", S32, (3,))
    b = LoopBuilder()
    piece = -(-n // 3)
    with b.loop("task", 0, 3, "parallel") as task:
        begin = t.minimum(task * piece, n)
        end = t.minimum(begin + piece, n)
        acc = b.allocate("acc", S32, (1,))
        b.store(acc, (0,), 0)
        with b.loop("j", begin, end, "vector") as j:
            b.store(c, (j,), a[j] + 1)
            b.store(acc, (0,), acc[0] + a[j])
        b.store(total, (task,), acc[0])
    return module(b, a, c, total)


def selects(n: int) -> Module:
    """Comparisons, selections and conversions of several widths in one body."""
    a, c, d = Buffer("a", S8, (n,)), Buffer("c", BF16, (n,)), Buffer("d", BOOL, (n,))
    b = LoopBuilder()
    with b.loop("j", 0, n, "vector") as j:
        x = b.let("x", t.cast(a[j], F32))
        positive = b.let("positive", x > 0.0)
        b.store(c, (j,), t.cast(t.select(positive, t.unary("sqrt", x), -x), BF16))
        b.store(d, (j,), positive)
    return module(b, a, c, d)


def while_loop(n: int) -> Module:
    """Halves a row until its sum is below one: the number of rounds depends on the data."""
    a, c, rounds = (
        Buffer("a", F32, (n + 1,)),
        Buffer("c", F32, (n + 1,)),
        Buffer("rounds", S64, (1,)),
    )
    b = LoopBuilder()
    total = b.allocate("total", F32, (1,))
    b.store(total, (0,), 1.0)
    b.store(rounds, (0,), 0)
    with b.loop("i", 0, n + 1, "vector") as i:
        b.store(c, (i,), t.minimum(t.maximum(a[i], -100.0), 100.0))
    running = total[0] >= 1.0
    with b.repeat(t.Binary("and", running, rounds[0] < 40)):
        b.store(total, (0,), 0.0)
        with b.loop("j", 0, n + 1, "vector") as j:
            half = b.let("half", c[j] * 0.5)
            b.store(c, (j,), half)
        with b.loop("k", 0, n + 1) as k:
            b.store(total, (0,), total[0] + c[k])
        b.store(rounds, (0,), rounds[0] + 1)
    return module(b, a, c, rounds)


PROGRAMS: tuple[Callable[[int], Module], ...] = (
    elementwise,
    strided,
    reduction,
    inner_reduction,
    blocked,
    several_accumulators,
    branches,
    split_among_tasks,
    selects,
    while_loop,
)
