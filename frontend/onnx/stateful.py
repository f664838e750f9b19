"""Layers that carry a state from token to token: LinearAttention, CausalConvWithState."""

from __future__ import annotations

import math

from ...base.records import dataclass
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.control import CountedLoop, Round
from ..correspondence.compositions.windows import biased
from ..op_builder import OpBuilder, Value
from .heads import head_count
from .scope import Handler, NodeContext

_RULES = ("linear", "gated", "delta", "gated_delta")


@dataclass(frozen=True)
class _Heads:
    """Sizes of the keys' heads; `group` heads of queries share each."""

    batch: int
    length: int
    count: int
    group: int
    width: int
    value_width: int


def _linear_attention(node: NodeContext) -> list[Value]:
    """A matrix per head, to which each token adds the outer product of its key and value, and of which it reads."""
    rule = node.attr_text("update_rule")
    if rule not in _RULES:
        raise node.rule(f"update_rule must be one of {', '.join(_RULES)}", f"'{rule}'")
    heads, dtype = _heads(node), node.details(0).dtype
    wide = dtype.accumulator
    scale = node.attr_float("scale") or 1 / math.sqrt(max(heads.width, 1))
    q = _by_token(node, 0, (heads.count, heads.group, heads.width))
    q = node.helper("mul", q, node.constant(scale, wide))
    rows = [q, _by_token(node, 1, (heads.count, heads.width, 1))]
    rows.append(_by_token(node, 2, (heads.count, 1, heads.value_width)))
    gates = [_decay(node, heads, "gated" in rule), _rate(node, heads, "delta" in rule)]
    shape = (heads.batch, heads.count, heads.width, heads.value_width)
    state = _first_state(node, shape)
    made = _loop(node, state, [*rows, *(x for x in gates if x is not None)], rule)
    y = node.transposed(made[1], (1, 0, 2, 3, 4))
    width = heads.count * heads.group * heads.value_width
    y = node.reshaped(node.converted(y, dtype), (heads.batch, heads.length, width))
    last = node.details(3).dtype if node.has(3) else dtype
    return [y, node.converted(made[0], last)]


def _heads(node: NodeContext) -> _Heads:
    many, own = head_count(node, "q_num_heads"), head_count(node, "kv_num_heads")
    dims = [node.details(i).plain_dims for i in range(3)]
    q, k, v = dims
    fits = {len(d) for d in dims} == {3} and q[:2] == k[:2] == v[:2] and many % own == 0
    if not fits or q[2] % many or k[2] * many != q[2] * own or v[2] % own:
        raise node.rule(
            "query, key and value must be [B, T, heads * size] of one B and T, q_num_heads a multiple of "
            "kv_num_heads, and the heads of query and key of one size",
            f"{dims} with {many} and {own} heads",
        )
    return _Heads(q[0], q[1], own, many // own, q[2] // many, v[2] // own)


def _by_token(node: NodeContext, index: int, dims: tuple[int, ...]) -> GraphTensor:
    """[T, B, *dims] of an input [B, T, elements], in the type that sums have."""
    x = node.tensor(index)
    apart = node.reshaped(x, (*x.details.plain_dims[:2], *dims))
    order = (1, 0, *range(2, apart.details.rank))
    return node.transposed(node.converted(apart, node.details(0).dtype.accumulator), order)


def _decay(node: NodeContext, heads: _Heads, wanted: bool) -> GraphTensor | None:
    """Return the decay of the state: a factor per head, or per element of its keys; [T, B, heads, width or 1, 1]."""
    sizes = (heads.count, heads.count * heads.width)
    if not _gate_is_given(node, 4, "decay", heads, wanted, sizes):
        return None
    width = node.details(4).plain_dims[2] // heads.count
    return node.helper("exp", _by_token(node, 4, (heads.count, width, 1)))


def _rate(node: NodeContext, heads: _Heads, wanted: bool) -> GraphTensor | None:
    """Return the factor of an update, [T, B, heads or 1, 1, 1]."""
    if not _gate_is_given(node, 5, "beta", heads, wanted, (heads.count, 1)):
        return None
    return _by_token(node, 5, (node.details(5).plain_dims[2], 1, 1))


def _gate_is_given(
    node: NodeContext, index: int, name: str, heads: _Heads, wanted: bool, sizes: tuple[int, ...]
) -> bool:
    """Raise UserError unless a gate is there where the update rule has one, and has one of these sizes."""
    rule = node.attr_text("update_rule")
    if node.has(index) != wanted:
        must = "must be given" if wanted else "must not be given"
        raise node.rule(f"{name} {must} for update_rule '{rule}'", f"{node.count} inputs")
    if not wanted:
        return False
    lead, given = (heads.batch, heads.length), node.details(index)
    if given.plain_dims not in [(*lead, size) for size in sizes]:
        rule = f"{name} must have shape [{lead[0]}, {lead[1]}, {' or '.join(map(str, sizes))}]"
        raise node.rule(rule, str(given))
    return True


def _first_state(node: NodeContext, shape: tuple[int, ...]) -> GraphTensor:
    wide = node.details(0).dtype.accumulator
    if not node.has(3):
        return node.helper("broadcast", node.constant(0, wide), shape=shape)
    if node.details(3).plain_dims != shape:
        raise node.rule(f"past_state must have shape {list(shape)}", str(node.details(3)))
    return node.converted(node.tensor(3), wide)


def _loop(
    node: NodeContext, first: GraphTensor, rows: list[GraphTensor], rule: str
) -> list[GraphTensor]:
    """The last state, and what each token reads: [T, B, heads, group, size]."""

    def step(
        build: OpBuilder, trip: GraphTensor, states: list[GraphTensor], fixed: list[GraphTensor]
    ) -> Round:
        q, k, v, *gates = (build.helper("gather", x, trip, axis=0) for x in fixed)
        state = states[0]
        if "gated" in rule:
            state = build.helper("mul", state, gates[0])
        if "delta" in rule:
            seen = build.helper("mul", state, k)
            seen = build.helper("reduce_sum", seen, axes=(2,), keep_dims=True)
            v = build.helper("mul", gates[-1], build.helper("sub", v, seen))
        state = build.helper("add", state, build.helper("mul", k, v))
        return Round([state], [build.helper("matmul_core", q, state)])

    length = node.details(0).plain_dims[1]
    return CountedLoop(node, length, None, [False]).make([first], rows, step)


def _causal_convolution(node: NodeContext) -> list[Value]:
    """A convolution per channel over the past and the input; the last elements are the next past."""
    x, weight = node.tensor(0), node.tensor(1)
    dims, kernel = x.details.plain_dims, weight.details.plain_dims
    if len(dims) != 3 or kernel[:2] != (dims[1], 1) or len(kernel) != 3 or kernel[2] < 1:
        raise node.rule(
            "input must be [B, C, L] and weight [C, 1, k]", f"{x.details} and {weight.details}"
        )
    past = (*dims[:2], kernel[2] - 1)
    if node.has(3):
        if node.details(3).plain_dims != past:
            raise node.rule(f"past_state must have shape {list(past)}", str(node.details(3)))
        whole = node.helper("concat", node.tensor(3), x, axis=2)
    else:
        whole = node.helper("pad", x, before=(0, 0, past[2]), after=(0, 0, 0))
    y = node.make("convolution", whole, weight, groups=dims[1])
    y = biased(node, y, node.tensor(2) if node.has(2) else None)
    kind = node.attr_text("activation")
    if kind not in ("none", "silu", "swish"):
        raise node.rule("activation must be none, silu or swish", f"'{kind}'")
    y = y if kind == "none" else node.helper("silu", y)
    return [y, node.sliced(whole, 2, dims[2], past[2])]


HANDLERS: dict[str, Handler] = {
    "CausalConvWithState": _causal_convolution,
    "LinearAttention": _linear_attention,
}
