"""The whole Tensor IR: loop nests over buffers, on one page.

Semantics --------- Types. Every expression has a `dtype` and a number of `lanes` (1 = scalar). Operands of one
operation agree in both; `Broadcast`, `Ramp` and `Cast` convert. Index arithmetic is `s64`, loop variables are
scalar `s64`.

Arithmetic. Integers wrap. Integer division and remainder round towards minus infinity; x // 0 and x % 0 are 0 and MIN
// -1 is MIN. Float division is IEEE; floats have no `mod` but the intrinsic `fmod`. `min` and `max` return NaN when
either operand is NaN. A shift by the bit width or more gives 0 (or the sign, for a signed right shift); a negative
amount counts as at least the bit width. Casts round once. Float to integer truncates and saturates, NaN becomes 0.
Casting to bool tests for != 0. f32 arithmetic is never reordered or contracted; a fused multiply-add is written `fma`.
Floats of 16 bits or less and integers of 2 and 4 bits are storage types: they are loaded, stored, cast and selected;
arithmetic other than `dot2` converts them to f32 and to bytes. `dot2(acc, a, b)` and `dot4(acc, a, b)` add to each lane
of acc the dot product of 2 or 4 neighboring lanes of a and b: bf16 x bf16 to f32, s16 x s16 to s32; u8 or s8 x s8 to
s32. Integers wrap; `dot2` of u8 x s8 to s16 saturates the sum of two terms, then adds it. Of two bf16 terms, which are
exact, the second is added first and each sum is rounded to f32; a subnormal operand or sum may count as zero there, as
it does for `vdpbf16ps`, so that results agree within 2^-126 times the largest other operand, 1 at least.

Memory. A `Buffer` is a dense row-major array. Its sizes are numbers, or, for a parameter, expressions of the
function's own scalar parameters called `size_...`: sizes that are known when a model runs, from 0 to 2^31 - 1.
Distinct parameters of one function may alias only if an op was planned in place: then each element is written at the
address from which it was last read. Indices are in bounds. `Load` and `Store` with `lanes` > 1 touch `lanes`
consecutive elements from the indexed one. `active` (a constant, 0 < active <= lanes) limits that to the first
`active`: the others are neither read nor written, and load as zero. A `Load` whose last index has lanes > 1 is a
gather, a `Store` with such an index a scatter. Locals (`Allocate`) start undefined, live to the end of the enclosing
block, and are private to a parallel iteration.

Loops. `begin` and `end` are evaluated once; `step` is a positive constant. `serial` runs in order. `parallel`: the
iterations are independent and may run at the same time. `unrolled`: bounds are constants; copied by the unroll pass.
`vector`: iterations are independent except for accumulations of the form `x[c] = op(x[c], value)` into a local
with an index free of the loop variable, op of REDUCE_OPS, or fma(a, b, x[c]), in any order.

`While` evaluates its condition, loads included, before every iteration; it ends when the body makes it false.

A `Let` binds a name once; it is visible to the end of the enclosing block. Expressions have no side effects.
"""

from __future__ import annotations

from typing import Literal, Union

from ..base.contraction import accumulator_of
from ..base.dtypes import DType
from ..base.records import dataclass
from .expressions import BINARY_OPS as BINARY_OPS
from .expressions import COMPARE_OPS as COMPARE_OPS
from .expressions import UNARY_OPS as UNARY_OPS
from .expressions import Binary as Binary
from .expressions import Broadcast as Broadcast
from .expressions import Buffer as Buffer
from .expressions import Call as Call
from .expressions import Cast as Cast
from .expressions import Compare as Compare
from .expressions import Const as Const
from .expressions import Expr as Expr
from .expressions import Load as Load
from .expressions import Ramp as Ramp
from .expressions import Select as Select
from .expressions import Shuffle as Shuffle
from .expressions import Storage as Storage
from .expressions import Unary as Unary
from .expressions import Var as Var

REDUCE_OPS = ("add", "mul", "min", "max", "larger", "and", "or")

LoopKind = Literal["serial", "parallel", "unrolled", "vector"]


# --- statements ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Store:
    """Write `value` (its lanes say how many elements) to a buffer from the element at `indices` on."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    active: int | None = None


@dataclass(frozen=True, slots=True)
class Let:
    """Bind `var` to a value until the enclosing block ends."""

    var: Var
    value: Expr


@dataclass(frozen=True)
class Allocate:
    """Make a local buffer until the enclosing block ends."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Block:
    """Statements in order."""

    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class For:
    """A loop `for var in range(begin, end, step)`."""

    var: Var
    begin: Expr
    end: Expr
    body: Stmt
    kind: LoopKind = "serial"
    step: int = 1


@dataclass(frozen=True)
class If:
    """Run `then` if the scalar bool holds, else `otherwise` (if given)."""

    condition: Expr
    then: Stmt
    otherwise: Stmt | None = None


@dataclass(frozen=True)
class While:
    """Run `body` while the scalar bool, evaluated before every iteration, holds."""

    condition: Expr
    body: Stmt


@dataclass(frozen=True)
class Slice:
    """The address of an element of a buffer, passed to a function or intrinsic. The callee may see another shape, and
    another dtype where `buffer` is the u8 arena."""

    buffer: Buffer
    indices: tuple[Expr, ...]


@dataclass(frozen=True)
class Epilogue:
    """Applied by a `Brgemm` to each finished element before its store: C[row, col] = value.

    `acc` is the accumulated element, `row` and `col` are its indices relative to the slice of C. `lets` are
    bound in order before `value`.
    """

    row: Var
    col: Var
    acc: Var
    value: Expr
    lets: tuple[Let, ...] = ()


@dataclass(frozen=True)
class PrefetchHint:
    """A hint: `elements` from `address` on will be read soon. They may lie outside the buffer: nothing is read."""

    address: Slice
    elements: int


Stride = Union[int, Expr]


@dataclass(frozen=True)
class Matrices:
    """An operand of a `Brgemm`: element (b, i, j) lies b * batch + i * row + j * col elements after `address`.

    `tile`, if not 0, is the distance of the first elements of register tiles: rows are `row` apart within one.
    """

    address: Slice
    row: Stride
    col: Stride = 1
    batch: Stride = 0
    tile: int = 0

    @property
    def buffer(self) -> Buffer:
        """Return the buffer, which is 1-D."""
        return self.address.buffer

    def of_row(self, row: Expr, tile_rows: Stride) -> Expr:
        """Return the offset of a row, which is the first of a tile of `tile_rows` if tiles are apart."""
        return row // tile_rows * self.tile if self.tile else row * self.row

    @property
    def strides(self) -> tuple[Stride, Stride, Stride]:
        """Return (batch, row, col)."""
        return self.batch, self.row, self.col


@dataclass(frozen=True)
class Brgemm:
    """Batch-reduce GEMM: C[i, j] = epilogue(C0 + sum over b < batch, l < k of A[b, i, l] * B[b, l, j]), i < m, j < n.

    `accumulate`: C0 is the old C[i, j], else 0. k, where `k_group` is 1, and strides may be expressions. B and C are
    contiguous along j. Each row of B is readable for `n_padded` >= n columns, C is written for n. Operands are
    converted to the dtype of `accumulator`, which is that of C unless an epilogue converts. `k_group` > 1 multiplies
    that many neighboring k in one `dot2` or `dot4`: A is contiguous along k, and B[b, l, j] lies
    l // k_group * row + j * k_group + l % k_group after B[b, 0, 0], zero for l from k to the end of the last group.
    `tile_rows` is the height of the register tile, which decides how many partial sums each element has.
    Cache lines named by `prefetch` are prefetched meanwhile, spread evenly over the steps.

    `multiply` names the instruction of two-dimensional registers that multiplies (`tile_registers`). `tile_rows` is the
    height of one of them then; it and m may be expressions. A is readable from row m - tile_rows on, also where that is
    negative, and, as B, for k up to the padding of the last step, where B is zero and A finite.
    """

    c: Matrices
    a: Matrices
    b: Matrices
    m: Stride
    n: int
    k: Stride
    batch: int
    accumulate: bool
    n_padded: int
    tile_rows: Stride
    k_group: int = 1
    epilogue: Epilogue | None = None
    prefetch: tuple[PrefetchHint, ...] = ()
    multiply: str = ""

    @property
    def dynamic(self) -> tuple[Expr, ...]:
        """Return the sizes that are expressions."""
        return tuple(x for x in (self.m, self.k, self.tile_rows) if not isinstance(x, int))

    @property
    def accumulator(self) -> DType:
        """Return the dtype of the sums."""
        return accumulator_of(self.a.buffer.dtype, self.b.buffer.dtype)


@dataclass(frozen=True)
class Prefetch:
    """A hint that the cache line at `address`, in its buffer or outside, is wanted in L1 or L2, at level 0 in L1 to be
    written."""

    address: Slice
    level: int = 2


@dataclass(frozen=True)
class Invoke:
    """Call a function of the module: slices for buffer parameters, scalar expressions for variables."""

    function: str
    args: tuple[Slice | Expr, ...]


@dataclass(frozen=True)
class ParallelInvoke:
    """Call `function(*args, i)` for 0 <= i < count, iterations independent: an outlined parallel loop."""

    function: str
    args: tuple[Slice | Expr, ...]
    count: int | Expr


Stmt = Union[Store, Let, Allocate, Block, For, If, While, Brgemm, Prefetch, Invoke, ParallelInvoke]

# --- program -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    """A procedure. Parameters are buffers (passed as addresses) and scalar variables. `note` says what it computes.

    `in_order`: the order of its statements keeps what they use in registers, and LLVM should not change it.
    """

    name: str
    params: tuple[Buffer | Var, ...]
    body: Block
    note: str = ""
    in_order: bool = False


@dataclass(frozen=True)
class Module:
    """Functions of unique names; `entry` is the one that runs the model, or "" for a part of a program.
    The entry's parameters are buffers called x0, x1, ... (the model's inputs), y0, y1, ... (its outputs), `constants`
    and `arena` (bytes), then its sizes `size_...`, in the order of callers. `checked`: the code checks its accesses.
    """

    functions: tuple[Function, ...]
    entry: str = ""
    checked: bool = False

    def function(self, name: str) -> Function:
        """Return the function called `name`; raise KeyError if there is none."""
        for function in self.functions:
            if function.name == name:
                return function
        raise KeyError(name)
