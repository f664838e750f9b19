"""Sizes of which HLO text has only a bound, `f32[<=8,4]`: dynamic ones of the parameters, and what follows
from them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from types import MappingProxyType

from ...base.dims import Dim, Size, Symbol, bounds, size, symbols_of
from ...base.errors import UserError
from ...base.size_limits import check_equal, limited
from ...base.size_queries import lone_symbol
from ...base.symbols import Limits
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..dynamic_names import DynamicNames
from ..shape_spec import InputSpec, InputSpecs, check_names, check_size
from .shapes import DTYPES, Shape

_PART = re.compile(r"\.(real|imag)\Z")


class ParameterTypes:
    """The types of the graph's inputs: those that the text says, and for sizes with a bound dynamic ones, from 1 on.

    `specs` name these, bound them or fix them; `limits` are what they must be, by name.
    """

    def __init__(
        self, label: str, specs: InputSpecs, limits: Limits = MappingProxyType({})
    ) -> None:
        self.label, self.specs, self.limits = label, specs, limits
        given = symbols_of(one for spec in specs.values() for one in spec.dims)
        self.dynamic_names = DynamicNames(symbol.name for symbol in given)
        self.names: list[str] = []

    def __call__(self, shape: Shape, name: str) -> LogicalTensor:
        """Return the type of the input `name`. Raise UserError if its spec contradicts the text.

        The parts of complex numbers, `z.real` and `z.imag`, have the sizes of `z`.
        """
        dtype = DTYPES[shape.type]
        check_size(f"parameter '{name}'", dtype, shape.dims)
        self.names.append(name)
        spec = self.specs.get(name)
        if spec is not None:
            self._check(shape, name, spec)
        dims = [
            self._open(shape.dims[axis], name, axis, spec) if axis in shape.dynamic else known
            for axis, known in enumerate(shape.dims)
        ]
        return LogicalTensor(dtype, tuple(limited(one, self.limits) for one in dims))

    def check_names(self) -> None:
        """Raise UserError for specs of inputs that there are not."""
        check_names(self.label, "input", self.specs, self.names)

    def _open(self, bound: int, name: str, axis: int, spec: InputSpec | None) -> Size:
        """The size of an axis that may be up to `bound`."""
        wanted = spec.dims[axis] if spec else self.dynamic_names.size("", _PART.sub("", name), axis)
        symbol = lone_symbol(wanted)
        if symbol is not None and not symbol.has_range:
            return size(Symbol(symbol.name, 1, bound))
        return wanted

    def _check(self, shape: Shape, name: str, spec: InputSpec) -> None:
        """Raise UserError for another dtype, other fixed sizes, or sizes that may be beyond their bound."""
        who = f"{self.label}: input '{name}'"
        given = f"{spec.dtype}[{','.join(map(str, spec.dims))}]"
        declares = f"the file declares {shape.logical()}, got {given}"
        if (spec.dtype, len(spec.dims)) != (DTYPES[shape.type], shape.rank):
            raise UserError(f"{who}: {declares}; dtype and number of axes must agree")
        for axis, (wanted, known) in enumerate(zip(spec.dims, shape.dims, strict=True)):
            if axis not in shape.dynamic and wanted != known:
                raise UserError(f"{who}: {declares}; fixed sizes must agree")
            symbol = lone_symbol(wanted)
            is_free = symbol is not None and not symbol.has_range
            if not is_free and bounds(wanted)[1] > known:
                raise UserError(f"{who}: {declares}; a size must be within its bound")


def common_sizes(
    shapes: Sequence[Sequence[Size]], bounded: Collection[int] = ()
) -> tuple[Size, ...] | None:
    """The sizes of values of one shape, where some have the bound of an axis for its size; None for other shapes.

    `bounded`: axes that the text writes as a bound. NeedsLimit for two dynamic sizes that can be one.
    """
    if len({len(dims) for dims in shapes}) > 1:
        return None
    found = [
        _common(sizes, axis in bounded) for axis, sizes in enumerate(zip(*shapes, strict=True))
    ]
    sizes = tuple(one for one in found if one is not None)
    return sizes if len(sizes) == len(found) else None


def _common(sizes: Sequence[Size], is_bounded: bool) -> Size | None:
    open_, known = (
        list(dict.fromkeys(x for x in sizes if isinstance(x, Dim) is wanted))
        for wanted in (True, False)
    )
    for other in open_[1:]:
        check_equal(open_[0], other)
        return None
    if len(set(sizes)) > 1 and not is_bounded:
        return None
    least: Size = open_[0] if open_ else min(known)
    return least if all(bounds(least)[1] <= bound for bound in known) else None


def is_within(found: Size, written: int, is_bound: bool) -> bool:
    """Return whether a size is the written one, or within it where that is a bound."""
    return found == written or (is_bound and bounds(found)[1] <= written)


def reshaped_sizes(sizes: Sequence[Size], written: Shape, shape: Shape) -> tuple[Size, ...] | None:
    """The sizes of a reshape's result `shape`: of its axes with a bound, what the elements of the operand leave.

    Axes are matched in groups of as many elements as the shapes say; None where two sizes of a group are dynamic.
    """
    if not shape.dynamic:
        return shape.dims if math.prod(sizes) == shape.size else None
    result: list[Size] = []
    at = start = 0
    given = written.dims
    while at < len(sizes) or start < shape.rank:
        stop, end = _group(given, at, shape.dims, start)
        part = _resolved(sizes[at:stop], shape, range(start, end))
        if part is None:
            return None
        result += part
        at, start = stop, end
    return tuple(result)


def _group(given: Sequence[int], at: int, wanted: Sequence[int], start: int) -> tuple[int, int]:
    """Return the ends of the next groups of axes with equal numbers of elements."""
    stop, end = min(at + 1, len(given)), min(start + 1, len(wanted))
    while (left := math.prod(given[at:stop])) != (right := math.prod(wanted[start:end])):
        if left < right and stop < len(given):
            stop += 1
        elif end < len(wanted):
            end += 1
        else:
            return len(given), len(wanted)
    return stop, end


def _resolved(sizes: Sequence[Size], shape: Shape, axes: range) -> list[Size] | None:
    """The sizes of some axes of a shape that have as many elements as these sizes."""
    open_ = [axis for axis in axes if axis in shape.dynamic]
    known = math.prod(shape.dims[axis] for axis in axes if axis not in shape.dynamic)
    if len(sizes) == len(axes) == len(open_) == 1:
        return list(sizes)
    elements = math.prod(sizes)
    if len(open_) > 1 or not known:
        return None
    if not open_:
        return [shape.dims[axis] for axis in axes] if elements == known else None
    rest = elements // known
    if rest * known != elements:
        return None
    return [rest if axis in open_ else shape.dims[axis] for axis in axes]
