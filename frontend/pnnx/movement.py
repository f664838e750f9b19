"""Operators that change a tensor's shape, order or number of copies: the reshape family, concat, pad."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...graph_ir.ir.graph import GraphTensor
from .arithmetic import promoted
from .builder import Builder
from .scope import Handler, Node, Value


def _identity(node: Node) -> Value:
    return node.tensor_of()


# Reshape family.


def _reshape(node: Node) -> Value:
    """-1 is inferred, 0 is the size of the same axis of the input."""
    x = node.tensor_of()
    old = x.details.plain_dims
    shape = node.integers("shape")
    # For an empty tensor a 0 can only mean a size of 0, unless there is a -1.
    if x.details.elements or -1 in shape:
        for axis, size in enumerate(shape):
            if size == 0 and axis >= len(old):
                raise node.rule(
                    "a size of 0 copies the input's, which has no such axis",
                    f"{list(old)} to {shape}",
                )
        shape = [old[axis] if size == 0 else size for axis, size in enumerate(shape)]
    return node.make("reshape", x, shape=_with_rest(node, old, shape))


def _with_rest(node: Node, old: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """The shape with its -1 inferred."""
    wanted = f"{list(old)} to {list(shape)}"
    if min(shape, default=0) < -1 or list(shape).count(-1) > 1:
        raise node.rule("sizes must be 0 or more, and at most one may be -1", wanted)
    if -1 not in shape:
        return tuple(shape)
    rest = math.prod(size for size in shape if size != -1)
    total = math.prod(old)
    if not rest or total % rest:
        raise node.rule("the size of -1 cannot be found", wanted)
    return tuple(total // rest if size == -1 else size for size in shape)


def _reshape_as(node: Node) -> Value:
    return node.make("reshape", node.tensor_of(), shape=node.tensor_of("other").details.plain_dims)


def _flatten(node: Node) -> Value:
    x = node.tensor_of()
    dims = x.details.plain_dims
    first, last = (
        node.axis(node.integer(n, d), len(dims)) for n, d in (("start_dim", 0), ("end_dim", -1))
    )
    if first > last:
        raise node.rule("start_dim must not be after end_dim", f"{first} and {last}")
    merged = math.prod(dims[first : last + 1])
    return node.make("reshape", x, shape=(*dims[:first], merged, *dims[last + 1 :]))


def _unflatten(node: Node) -> Value:
    x = node.tensor_of()
    dims = x.details.plain_dims
    axis = node.axis(node.integer("dim"), len(dims))
    parts = _with_rest(node, dims[axis : axis + 1], node.integers("sizes"))
    return node.make("reshape", x, shape=(*dims[:axis], *parts, *dims[axis + 1 :]))


def _squeeze(node: Node) -> Value:
    """Axes with sizes other than 1 are kept."""
    x = node.tensor_of()
    dims = x.details.plain_dims
    given = [node.axis(axis, len(dims)) for axis in node.integers("dim", ())]
    axes = given if node.given("dim") else range(len(dims))
    shape = tuple(d for axis, d in enumerate(dims) if d != 1 or axis not in axes)
    return node.make("reshape", x, shape=shape)


def _unsqueeze(node: Node) -> Value:
    x = node.tensor_of()
    given = node.integers("dim")
    rank = x.details.rank + len(given)
    axes = {node.axis(axis, rank) for axis in given}
    if len(axes) != len(given):
        raise node.rule("dims must be distinct", str(given))
    rest = iter(x.details.plain_dims)
    shape = tuple(1 if axis in axes else next(rest) for axis in range(rank))
    return node.make("reshape", x, shape=shape)


# Axes in another order.


def _permute(node: Node) -> Value:
    x = node.tensor_of()
    perm = tuple(node.axis(axis, x.details.rank) for axis in node.integers("dims"))
    return node.make("transpose", x, perm=perm)


def _transpose(node: Node) -> Value:
    x = node.tensor_of()
    perm = list(range(x.details.rank))
    a, b = (node.axis(node.integer(name), x.details.rank) for name in ("dim0", "dim1"))
    if perm:
        perm[a], perm[b] = perm[b], perm[a]
    return node.make("transpose", x, perm=tuple(perm))


def _t(node: Node) -> Value:
    x = node.tensor_of()
    if x.details.rank > 2:
        raise node.rule("the input must have at most 2 axes", str(x.details))
    return node.make("transpose", x, perm=tuple(reversed(range(x.details.rank))))


def _move_axes(node: Node) -> Value:
    """Move the axes `source` to the positions `destination`, the others in order."""
    x = node.tensor_of()
    rank = x.details.rank
    sources, places = (
        [node.axis(axis, rank) for axis in node.integers(name)]
        for name in ("source", "destination")
    )
    if len(set(sources)) != len(sources) or sorted({*places}) != sorted(places):
        raise node.rule("axes must be distinct", f"{sources} to {places}")
    if len(sources) != len(places):
        raise node.rule("source and destination must have one length", f"{sources} and {places}")
    rest = iter(axis for axis in range(rank) if axis not in sources)
    target = dict(zip(places, sources, strict=True))
    perm = tuple(target[i] if i in target else next(rest) for i in range(rank))
    return node.make("transpose", x, perm=perm)


# Copies.


def _expand(node: Node) -> Value:
    """-1 keeps a size; axes may be added in front."""
    x = node.tensor_of()
    dims = x.details.plain_dims
    sizes = node.integers("sizes" if "shape" not in node.op.params else "shape")
    added = len(sizes) - len(dims)
    if added < 0 or -1 in sizes[:added]:
        raise node.rule(
            "sizes must cover every axis, new ones with a number", f"{sizes} for {list(dims)}"
        )
    old = (*[1] * added, *dims)
    shape = [d if size == -1 else size for d, size in zip(old, sizes, strict=True)]
    return node.make("broadcast", x, shape=tuple(shape))


def _expand_as(node: Node) -> Value:
    return node.make(
        "broadcast", node.tensor_of(), shape=node.tensor_of("other").details.plain_dims
    )


def _repeat(key: str) -> Callable[[Node], Value]:
    """Tensor.repeat must name every axis; torch.tile may leave out the first ones."""

    def run(node: Node) -> Value:
        x = node.tensor_of()
        counts = node.integers(key)
        dims = list(x.details.plain_dims)
        if key == "dims":
            counts = [1] * (len(dims) - len(counts)) + counts
        if len(counts) < len(dims) or min(counts, default=0) < 0:
            raise node.rule("there must be a count for every axis", f"{counts} for {dims}")
        dims = [1] * (len(counts) - len(dims)) + dims
        # [d0, d1] -> [1, d0, 1, d1] -> [r0, d0, r1, d1] -> [r0 * d0, r1 * d1]
        apart = node.reshaped(x, [n for dim in dims for n in (1, dim)])
        pairs = list(zip(counts, dims, strict=True))
        repeated = node.broadcast(apart, [n for pair in pairs for n in pair])
        return node.reshaped(repeated, [count * dim for count, dim in pairs])

    return run


def _repeat_each(node: Node) -> Value:
    """Repeat every element along an axis `repeats` times; without an axis, of the flattened tensor."""
    x, count = node.tensor_of(), node.integer("repeats")
    node.argument("output_size")
    if count < 0:
        raise node.rule("repeats must not be negative", str(count))
    if not node.given("dim"):
        x = node.reshaped(x, (x.details.elements,))
    axis = node.axis(node.integer("dim"), x.details.rank) if node.given("dim") else 0
    dims = x.details.plain_dims
    apart = node.reshaped(x, (*dims[: axis + 1], 1, *dims[axis + 1 :]))
    wide = node.broadcast(apart, (*dims[: axis + 1], count, *dims[axis + 1 :]))
    return node.reshaped(wide, (*dims[:axis], dims[axis] * count, *dims[axis + 1 :]))


# Several tensors.


def _tensors(node: Node) -> list[GraphTensor]:
    values = (
        node.values[0]
        if len(node.values) == 1 and isinstance(node.values[0], list)
        else node.values
    )
    items = values if isinstance(values, list) else [values]
    tensors = [x for x in items if isinstance(x, GraphTensor)]
    if not tensors or len(tensors) != len(items):
        raise node.rule("all inputs must be tensors", f"{len(tensors)} of {len(items)}")
    return promoted(node, *tensors)


def _cat(node: Node) -> Value:
    tensors = _tensors(node)
    axis = node.axis(node.integer("dim", 0), tensors[0].details.rank)
    return node.make("concat", *tensors, axis=axis)


def _stack(node: Node) -> Value:
    tensors = _tensors(node)
    dims = tensors[0].details.plain_dims
    axis = node.axis(node.integer("dim", 0), len(dims) + 1)
    shape = (*dims[:axis], 1, *dims[axis:])
    if any(x.details.plain_dims != dims for x in tensors):
        shapes = ", ".join(str(list(x.details.plain_dims)) for x in tensors)
        raise node.rule("inputs must have one shape", shapes)
    return node.make(
        "concat", *(node.helper("reshape", x, shape=shape) for x in tensors), axis=axis
    )


# Borders.

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad(node: Node) -> Value:
    value = node.number("value", 0.0)
    return padded(
        node, node.tensor_of(), node.integers("pad"), node.word("mode", "constant"), value
    )


def _pad_module(mode: str, spatial: int) -> Handler:
    def run(node: Node) -> Value:
        widths = node.integers("padding")
        widths = widths * (2 * spatial) if len(widths) == 1 else widths
        return padded(node, node.tensor_of(), widths, mode, node.number("value", 0.0))

    return Handler(run)


def padded(
    node: Builder, x: GraphTensor, widths: list[int], mode: str, value: float = 0.0
) -> GraphTensor:
    """`widths` are (before, after) of the last axis, then of the one before it, and so on."""
    rank = x.details.rank
    if len(widths) % 2 or len(widths) > 2 * rank:
        raise node.rule(
            "there must be two widths for each padded axis", f"{widths} for {x.details}"
        )
    before, after = [0] * rank, [0] * rank
    for number in range(len(widths) // 2):
        before[rank - 1 - number], after[rank - 1 - number] = widths[2 * number : 2 * number + 2]
    if mode not in _MODES:
        raise node.rule(f"mode must be {', '.join(_MODES)}", mode)
    if mode == "circular" and min(widths, default=0) < 0:
        raise node.unsupported("mode=circular with negative widths")
    attrs: dict[str, object] = {
        "before": tuple(before),
        "after": tuple(after),
        "mode": _MODES[mode],
    }
    if mode == "constant":
        attrs["value"] = value
    return node.make("pad", x, **attrs)


# Channels and pixels.


def _pixel_shuffle(node: Node) -> Value:
    x, factor = node.tensor_of(), node.integer("upscale_factor")
    *outer, c, h, w = _image(node, x)
    if factor < 1 or c % (factor * factor):
        raise node.rule("channels must divide by the square of upscale_factor", f"{c} and {factor}")
    inner, n = c // (factor * factor), len(outer)
    apart = node.reshaped(x, (*outer, inner, factor, factor, h, w))
    perm = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return node.reshaped(node.transposed(apart, perm), (*outer, inner, h * factor, w * factor))


def _pixel_unshuffle(node: Node) -> Value:
    x, factor = node.tensor_of(), node.integer("downscale_factor")
    *outer, c, h, w = _image(node, x)
    if factor < 1 or h % factor or w % factor:
        raise node.rule("image sizes must divide by downscale_factor", f"{h}, {w} and {factor}")
    n = len(outer)
    apart = node.reshaped(x, (*outer, c, h // factor, factor, w // factor, factor))
    perm = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return node.reshaped(
        node.transposed(apart, perm), (*outer, c * factor * factor, h // factor, w // factor)
    )


def _channel_shuffle(node: Node) -> Value:
    x, groups = node.tensor_of(), node.integer("groups")
    n, c, *space = _image(node, x)
    if groups < 1 or c % groups:
        raise node.rule("channels must divide by groups", f"{c} and {groups}")
    apart = node.reshaped(x, (n, groups, c // groups, *space))
    moved = node.transposed(apart, (0, 2, 1, *range(3, 3 + len(space))))
    return node.reshaped(moved, x.details.plain_dims)


def _image(node: Node, x: GraphTensor) -> tuple[int, ...]:
    if x.details.rank < 3:
        raise node.rule("the input must have channels, height and width", str(x.details))
    return x.details.plain_dims


_PADS = {
    "Zero": "constant",
    "Constant": "constant",
    "Reflection": "reflect",
    "Replication": "replicate",
    "Circular": "circular",
}

_BY_NAME: dict[str, Handler] = {
    "reshape": Handler(_reshape, ("input", "shape")),
    "view": Handler(_reshape, ("input", "shape")),
    "reshape_as": Handler(_reshape_as, ("input", "other")),
    "view_as": Handler(_reshape_as, ("input", "other")),
    "flatten": Handler(_flatten),
    "unflatten": Handler(_unflatten, ("input", "dim", "sizes")),
    "squeeze": Handler(_squeeze),
    "unsqueeze": Handler(_unsqueeze),
    "permute": Handler(_permute),
    "transpose": Handler(_transpose),
    "t": Handler(_t),
    "expand": Handler(_expand, ("input", "sizes")),
    "expand_as": Handler(_expand_as, ("input", "other")),
    "repeat": Handler(_repeat("sizes"), ("input", "sizes")),
    "tile": Handler(_repeat("dims"), ("input", "dims")),
    "repeat_interleave": Handler(_repeat_each, ("input", "repeats", "dim", "output_size")),
    "movedim": Handler(_move_axes, ("input", "source", "destination")),
    "swapaxes": Handler(_transpose, ("input", "dim0", "dim1")),
    "broadcast_to": Handler(_expand, ("input", "sizes")),
    "cat": Handler(_cat, ("*",)),
    "concat": Handler(_cat, ("*",)),
    "stack": Handler(_stack, ("*",)),
    **{name: Handler(_identity) for name in ("contiguous", "detach", "positive")},
}

HANDLERS: dict[str, Handler] = {
    **{f"{prefix}.{name}": h for prefix in ("torch", "Tensor") for name, h in _BY_NAME.items()},
    **{f"aten::{n}": _BY_NAME[n] for n in ("movedim", "repeat_interleave", "swapaxes")},
    "nn.Unflatten": Handler(_unflatten, ("input", "dim", "sizes")),
    "nn.Identity": Handler(_identity),
    "nn.Flatten": Handler(_flatten),
    "F.pad": Handler(_pad, ("input", "pad")),
    **{
        f"nn.{kind}Pad{n}d": _pad_module(mode, n) for kind, mode in _PADS.items() for n in (1, 2, 3)
    },
    "nn.PixelShuffle": Handler(_pixel_shuffle),
    "F.pixel_shuffle": Handler(_pixel_shuffle),
    "nn.PixelUnshuffle": Handler(_pixel_unshuffle),
    "F.pixel_unshuffle": Handler(_pixel_unshuffle),
    "nn.ChannelShuffle": Handler(_channel_shuffle),
    "F.channel_shuffle": Handler(_channel_shuffle),
}
"""Operators of this family."""
