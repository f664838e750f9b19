"""The shape rules of opcodes without windows and index maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from .shape_site import Site
from .shapes import Shape, tuple_shape
from .syntax import Called, PadRange, SliceRange
from .window_rules import WINDOW_RULES

Rule = Callable[[Site], "Shape | None"]
_REAL = {"c64": "f32", "c128": "f64"}


def _retyped(shape: Shape, type_: str) -> Shape:
    return shape if shape.type == type_ else replace(shape, type=type_)


def _unary(site: Site) -> Shape:
    site.count(1)
    return site.array(0)


def _absolute(site: Site) -> Shape:
    x = _unary(site)
    return _retyped(x, _REAL.get(x.type, x.type))


def _finite(site: Site) -> Shape:
    return _retyped(_unary(site), "pred")


def _identity(site: Site) -> Shape:
    site.count(1)
    return site.operands[0]


def _first(site: Site) -> Shape:
    site.count(1, -1)
    return site.operands[0]


def _binary(site: Site) -> Shape:
    site.count(2)
    return _same(site, 0, 1)


def _same(site: Site, first: int, second: int) -> Shape:
    a, b = site.array(first), site.array(second)
    if a is not b and not a.matches(b):
        raise site.fail(f"operands must have one shape, got {a.logical()} and {b.logical()}")
    return a


def _compare(site: Site) -> Shape:
    return _retyped(_binary(site), "pred")


def _complex(site: Site) -> Shape:
    x = _binary(site)
    return _retyped(x, "c128" if x.type == "f64" else "c64")


def _select(site: Site) -> Shape:
    site.count(3)
    condition, x = site.array(0), _same(site, 1, 2)
    if condition.type != "pred" or condition.dims not in ((), x.dims):
        raise site.fail(
            f"operand 0 must be pred[] or {_retyped(x, 'pred').logical()}, got {condition.logical()}"
        )
    return x


def _clamp(site: Site) -> Shape:
    site.count(3)
    x = site.array(1)
    for index in (0, 2):
        bound = site.array(index)
        if bound.type != x.type or bound.dims not in ((), x.dims):
            raise site.fail(f"bounds must be scalars or {x.logical()}, got {bound.logical()}")
    return x


def _convert(site: Site) -> Shape:
    return _retyped(_unary(site), site.written().type)


def _broadcast(site: Site) -> Shape:
    site.count(1)
    x, out = site.array(0), site.written()
    axes = site.axes("dimensions", out.rank, () if not x.dims else None)
    if len(axes) != x.rank or any(out.dims[a] != d for a, d in zip(axes, x.dims, strict=True)):
        raise site.fail(
            f"dimensions must map every axis of {x.logical()} to one of {out.logical()} of its size, "
            f"got {{{','.join(map(str, axes))}}}"
        )
    return Shape(x.type, out.dims)


def _reshape(site: Site) -> Shape:
    site.count(1, -1)
    x, out = site.array(0), site.written()
    if x.size != out.size and min((*x.dims, *out.dims)) >= 0:
        raise site.fail(f"{x.logical()} and {out.logical()} must have as many elements")
    return Shape(x.type, out.dims)


def _transpose(site: Site) -> Shape:
    x = _unary(site)
    perm = site.axes("dimensions", x.rank)
    if len(perm) != x.rank:
        raise site.fail(f"dimensions must name each of the {x.rank} axes once, got {len(perm)}")
    return Shape(x.type, tuple(x.dims[axis] for axis in perm))


def _reverse(site: Site) -> Shape:
    x = _unary(site)
    site.axes("dimensions", x.rank)
    return x


def _slice(site: Site) -> Shape:
    x = _unary(site)
    ranges: tuple[SliceRange, ...] = site.attribute("slice", tuple)
    if len(ranges) != x.rank:
        raise site.fail(f"slice must have {x.rank} ranges, got {len(ranges)}")
    sizes = []
    for axis, (start, limit, stride) in enumerate(ranges):
        if not 0 <= start <= limit <= x.dims[axis] or stride < 1:
            raise site.fail(
                f"the range of axis {axis} must lie in its {x.dims[axis]} elements, "
                f"got [{start}:{limit}:{stride}]"
            )
        sizes.append(-(-(limit - start) // stride))
    return Shape(x.type, tuple(sizes))


def _concatenate(site: Site) -> Shape:
    site.count(1, -1)
    x = site.array(0)
    axes = site.axes("dimensions", x.rank)
    if len(axes) != 1:
        raise site.fail(f"dimensions must name one axis, got {len(axes)}")
    (axis,) = axes
    total = 0
    for index in range(len(site.operands)):
        y = site.array(index)
        if y.type != x.type or y.dims[:axis] + y.dims[axis + 1 :] != (
            x.dims[:axis] + x.dims[axis + 1 :]
        ):
            raise site.fail(
                f"operands must agree but for axis {axis}, got {x.logical()} and {y.logical()}"
            )
        total += y.dims[axis]
    return Shape(x.type, (*x.dims[:axis], total, *x.dims[axis + 1 :]))


def _pad(site: Site) -> Shape:
    site.count(2)
    x, value = site.array(0), site.array(1)
    ranges: tuple[PadRange, ...] = site.attribute("padding", tuple)
    if len(ranges) != x.rank or not value.matches(Shape(x.type)):
        raise site.fail(
            f"it must have a {x.type}[] value and padding for {x.rank} axes, "
            f"got {value.logical()} and {len(ranges)}"
        )
    sizes = tuple(
        max(size - 1, 0) * p.interior + size + p.low + p.high
        for size, p in zip(x.dims, ranges, strict=True)
    )
    if any(size < 0 for size in sizes) or any(p.interior < 0 for p in ranges):
        raise site.fail(f"padding must not make a size negative, got {list(sizes)}")
    return Shape(x.type, sizes)


def _iota(site: Site) -> Shape:
    site.count(0)
    out = site.written()
    axis = site.attribute("iota_dimension", int, 0 if out.rank == 1 else None)
    if not 0 <= axis < out.rank:
        raise site.fail(f"iota_dimension must be an axis of {out.logical()}, got {axis}")
    return out


def _tuple(site: Site) -> Shape:
    return tuple_shape(tuple(site.operands))


def _element(site: Site) -> Shape:
    site.count(1)
    x = site.operands[0]
    index = site.attribute("index", int)
    if not x.is_tuple or not 0 <= index < len(x.elements):
        raise site.fail(f"{x.logical()} has no element {index}")
    return x.elements[index]


def _call(attribute: str) -> Rule:
    def rule(site: Site) -> Shape:
        parameters, result = site.called(attribute)
        site.takes(attribute, parameters, site.operands)
        return result

    return rule


def _map(site: Site) -> Shape:
    site.count(1, -1)
    x = site.array(0)
    for index in range(len(site.operands)):
        if site.array(index).dims != x.dims:
            raise site.fail("operands must have one shape")
    parameters, result = site.called("to_apply")
    site.takes("to_apply", parameters, [Shape(y.type) for y in site.operands])
    return Shape(result.type, x.dims)


def _while(site: Site) -> Shape:
    site.count(1)
    state = site.operands[0]
    for name, wanted in (("condition", Shape("pred")), ("body", state)):
        parameters, result = site.called(name)
        site.takes(name, parameters, [state])
        if not result.matches(wanted):
            raise site.fail(f"{name} must give {wanted.logical()}, got {result.logical()}")
    return state


def _conditional(site: Site) -> Shape:
    site.count(2, -1)
    if "branch_computations" in site.instruction.attributes:
        branches: tuple[Called, ...] = site.attribute("branch_computations", tuple)
    else:
        branches = tuple(
            site.attribute(f"{word}_computation", Called) for word in ("true", "false")
        )
    if len(branches) != len(site.operands) - 1:
        raise site.fail(f"it must have {len(branches) + 1} operands, got {len(site.operands)}")
    if site.array(0).dims or site.array(0).type not in ("pred", "s32"):
        raise site.fail(f"operand 0 must be pred[] or s32[], got {site.operands[0].logical()}")
    results = []
    for branch, operand in zip(branches, site.operands[1:], strict=True):
        parameters, result = site.computation(branch)
        site.takes(f"branch '{branch.name}'", parameters, [operand])
        results.append(result)
    for result in results[1:]:
        if not result.matches(results[0]):
            raise site.fail(
                f"branches must give one shape, got {results[0].logical()} and {result.logical()}"
            )
    return results[0]


def _bits(site: Site) -> Shape | None:
    """bitcast: as many bits, which the written shape must have; checked where the elements are whole bytes."""
    site.count(1)
    x, out = site.operands[0], site.written()
    widths = [_width(x), _width(out)]
    if None not in widths and math.prod(x.dims) * widths[0] != math.prod(out.dims) * widths[1]:  # type: ignore[operator]
        raise site.fail(f"{x.logical()} and {out.logical()} must have as many bits")
    return None


def _width(shape: Shape) -> int | None:
    digits = "".join(c for c in shape.type if c.isdigit())
    return (
        int(digits) if shape.type in {f"{k}{digits}" for k in ("s", "u", "f", "bf", "c")} else None
    )


def _reduce(site: Site) -> Shape:
    site.count(2, -1)
    count = len(site.operands) // 2
    if len(site.operands) % 2:
        raise site.fail(f"it must have an initial value for each array, got {len(site.operands)}")
    x = site.array(0)
    axes = site.axes("dimensions", x.rank)
    parameters, result = site.called("to_apply")
    for index in range(count):
        if site.array(index).dims != x.dims or site.array(count + index).dims:
            raise site.fail("its arrays must have one shape and its initial values must be scalars")
    if len(parameters) != 2 * count or any(p.dims or p.is_tuple for p in parameters):
        raise site.fail(f"to_apply must take {2 * count} scalars, got {len(parameters)}")
    dims = tuple(size for axis, size in enumerate(x.dims) if axis not in axes)
    results = result.elements if result.is_tuple else (result,)
    if len(results) != count or any(r.dims for r in results):
        raise site.fail(f"to_apply must give {count} scalars, got {result.logical()}")
    shapes = tuple(Shape(r.type, dims) for r in results)
    return tuple_shape(shapes) if result.is_tuple else shapes[0]


def _sort(site: Site) -> Shape:
    site.count(1, -1)
    x = site.array(0)
    site.axes("dimensions", x.rank)
    parameters, result = site.called("to_apply")
    site.takes("to_apply", parameters, [Shape(y.type) for y in site.operands for _ in range(2)])
    if (
        any(site.array(i).dims != x.dims for i in range(len(site.operands)))
        or result.type != "pred"
    ):
        raise site.fail("its arrays must have one shape and to_apply must give pred[]")
    return x if len(site.operands) == 1 else tuple_shape(tuple(site.operands))


def _top_k(site: Site) -> Shape:
    site.count(1)
    x, k = site.array(0), site.attribute("k", int)
    if not x.dims or not 0 <= k <= x.dims[-1]:
        raise site.fail(f"k must not exceed the last axis of {x.logical()}, got {k}")
    dims = (*x.dims[:-1], k)
    return tuple_shape((Shape(x.type, dims), Shape("s32", dims)))


def _batch_norm(count: int) -> Rule:
    """x, then `count` arrays of one value a feature, and dy for the gradient."""

    def rule(site: Site) -> Shape:
        is_gradient = site.instruction.opcode == "batch-norm-grad"
        site.count(count + 1 + is_gradient)
        x, axis = site.array(0), site.attribute("feature_index", int)
        if not 0 <= axis < x.rank:
            raise site.fail(f"feature_index must be an axis of {x.logical()}, got {axis}")
        feature = Shape(x.type, (x.dims[axis],))
        for index in range(1, len(site.operands)):
            wanted = x if is_gradient and index == count + 1 else feature
            if not site.array(index).matches(wanted):
                raise site.fail(
                    f"operand {index} must be {wanted.logical()}, got {site.array(index).logical()}"
                )
        is_inference = site.instruction.opcode == "batch-norm-inference"
        return x if is_inference else tuple_shape((x, feature, feature))

    return rule


def _random_bits(site: Site) -> Shape | None:
    """The shape of the bits is free, that of the state goes through."""
    site.count(1)
    out = site.written()
    if out.is_tuple and (len(out.elements) != 2 or not out.elements[0].matches(site.array(0))):
        raise site.fail(
            f"its result must be ({site.array(0).logical()}, bits), got {out.logical()}"
        )
    bits = out.elements[1] if out.is_tuple else out
    if bits.type[0] not in "su":
        raise site.fail(f"its bits must be integers, got {bits.logical()}")
    return None


def _dimension_size(site: Site) -> Shape:
    site.axes("dimensions", _unary(site).rank)
    return Shape("s32")


_SAME_SHAPE = (
    "negate exponential log sqrt rsqrt tanh logistic sine cosine tan floor ceil sign erf exponential-minus-one "
    "log-plus-one cbrt not round-nearest-even round-nearest-afz popcnt count-leading-zeros sinh cosh asin acos atan "
    "asinh acosh atanh reduce-precision cholesky"
)  # fmt: skip
_TWO_OF_ONE_SHAPE = (
    "add subtract multiply divide maximum minimum power remainder and or xor atan2 shift-left shift-right-logical "
    "shift-right-arithmetic mulhi"
)

RULES: dict[str, Rule] = {
    **dict.fromkeys(_SAME_SHAPE.split(), _unary),
    **dict.fromkeys(_TWO_OF_ONE_SHAPE.split(), _binary),
    **dict.fromkeys(("abs", "real", "imag"), _absolute),
    **dict.fromkeys(("copy", "opt-barrier", "domain"), _identity),
    **dict.fromkeys(("add-dependency", "set-dimension-size"), _first),
    "is-finite": _finite, "compare": _compare, "complex": _complex, "select": _select, "clamp": _clamp,
    "convert": _convert, "broadcast": _broadcast, "reshape": _reshape, "dynamic-reshape": _reshape,
    "transpose": _transpose, "reverse": _reverse, "slice": _slice, "concatenate": _concatenate, "pad": _pad,
    "iota": _iota, "tuple": _tuple, "get-tuple-element": _element, "call": _call("to_apply"),
    "fusion": _call("calls"), "map": _map, "while": _while, "conditional": _conditional, "bitcast": _bits,
    "bitcast-convert": _bits, "reduce": _reduce, "sort": _sort, "topk": _top_k,
    "get-dimension-size": _dimension_size, "batch-norm-inference": _batch_norm(4),
    "batch-norm-training": _batch_norm(2), "batch-norm-grad": _batch_norm(3), "rng-bit-generator": _random_bits,
    **WINDOW_RULES,
}  # fmt: skip
"""Opcode to rule; other opcodes have the written shape."""
