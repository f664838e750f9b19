"""Layers that carry a state from token to token: LinearAttention, CausalConvWithState, of ONNX and of ONNX Runtime."""

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
    """Sizes of the values' heads; `group` heads of queries share each, or several share one of `queries` or `keys`."""

    batch: int
    length: int
    count: int
    group: int
    width: int
    value_width: int
    queries: int
    keys: int


def _linear_attention(node: NodeContext) -> list[Value]:
    """A matrix per head, to which each token adds the outer product of its key and value, and of which it reads."""
    rule = node.attr_text("update_rule", "gated_delta")
    node.must_be_plain(_PLAIN)
    if rule not in _RULES:
        raise node.rule(f"update_rule must be one of {', '.join(_RULES)}", f"'{rule}'")
    heads, dtype = _heads(node), node.details(0).dtype
    scale = node.attr_float("scale") or 1 / math.sqrt(max(heads.width, 1))
    q = _by_token(node, 0, heads, (heads.queries, heads.group, heads.width))
    rows = [node.helper("mul", q, node.constant(scale, dtype.accumulator))]
    rows.append(_by_token(node, 1, heads, (heads.keys, heads.width, 1)))
    rows.append(_by_token(node, 2, heads, (heads.count, 1, heads.value_width)))
    if _gate_is_given(node, 4, heads, "gated", (heads.count, heads.count * heads.width)):
        width = node.details(4).plain_dims[2] // heads.count
        rows.append(node.helper("exp", _by_token(node, 4, heads, (heads.count, width, 1))))
    if _gate_is_given(node, 5, heads, "delta", (heads.count, 1)):
        rows.append(_by_token(node, 5, heads, (node.details(5).plain_dims[2], 1, 1)))
    shape = (heads.batch, heads.count, heads.width, heads.value_width)
    made = _loop(node, _first_state(node, shape), rows, rule)
    y = node.transposed(made[1], (1, 0, 2, 3, 4))
    width = heads.count * heads.group * heads.value_width
    y = node.reshaped(node.converted(y, dtype), (heads.batch, heads.length, width))
    last = node.details(3).dtype if node.has(3) else dtype
    return [y, node.converted(made[0], last)]


def _heads(node: NodeContext) -> _Heads:
    many, own = head_count(node, "q_num_heads"), head_count(node, "kv_num_heads")
    q, k, v = dims = [node.details(i).plain_dims for i in range(3)]
    fits = {len(d) for d in dims} == {3} and q[:2] == k[:2] == v[:2]
    fits = fits and not max(many, own) % min(many, own) and not q[2] % many and not v[2] % own
    width = q[2] // many if fits else 0
    keys = next((n for n in (own, min(many, own)) if k[-1] == n * width), 0)
    if not keys:
        raise node.rule(
            "query, key and value must be [B, T, heads * size] of one B and T, q_num_heads a multiple of "
            "kv_num_heads or the other way round, and the heads of query and key of one size",
            f"{dims} with {many} and {own} heads",
        )
    return _Heads(q[0], q[1], own, max(many // own, 1), width, v[2] // own, min(many, own), keys)


def _by_token(node: NodeContext, index: int, heads: _Heads, dims: tuple[int, ...]) -> GraphTensor:
    """[T, B, *dims] of an input [B, T, elements], each head for all that share it, in the type that sums have."""
    x = node.tensor(index)
    apart = node.reshaped(x, (*x.details.plain_dims[:2], *dims))
    if dims[0] not in (1, heads.count):
        apart = node.helper("repeat", apart, counts=(1, 1, heads.count // dims[0], 1, 1))
    wide = node.details(0).dtype.accumulator
    return node.transposed(node.converted(apart, wide), (1, 0, 2, 3, 4))


def _gate_is_given(
    node: NodeContext, index: int, heads: _Heads, word: str, sizes: tuple[int, ...]
) -> bool:
    """Raise UserError unless a gate is there where the update rule has its word, and has one of these sizes."""
    rule, name = node.attr_text("update_rule", "gated_delta"), {4: "decay", 5: "beta"}[index]
    if node.has(index) != (word in rule):
        must = "must be given" if word in rule else "must not be given"
        raise node.rule(f"{name} {must} for update_rule '{rule}'", f"{node.count} inputs")
    lead = (heads.batch, heads.length)
    if word in rule and node.details(index).plain_dims not in [(*lead, size) for size in sizes]:
        rule = f"{name} must have shape [{lead[0]}, {lead[1]}, {' or '.join(map(str, sizes))}]"
        raise node.rule(rule, str(node.details(index)))
    return word in rule


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


_NO_STEPS = dict.fromkeys(("state_window", "state_length", "state_update_capacity"), 0)
_PLAIN = {"ndim": 1, "state_channels_last": -1, **_NO_STEPS}
"""Attributes of ONNX Runtime's kernels for GPUs, and of states of several steps."""


def _causal_convolution(node: NodeContext) -> list[Value]:
    """A convolution per channel over the past and the input; the last elements are the next past."""
    node.must_be_plain(_PLAIN)
    is_last, dilation = node.attr_int("channels_last", 0), node.attr_int("dilation", 1)
    x, weight = _channels_first(node, node.tensor(0), is_last), node.tensor(1)
    dims, kernel = x.details.plain_dims, weight.details.plain_dims
    if len(dims) != 3 or kernel[:2] != (dims[1], 1) or len(kernel) != 3 or kernel[2] < 1:
        given = f"{x.details} and {weight.details}"
        raise node.rule("input must be [B, C, L] and weight [C, 1, k]", given)
    past = (*dims[:2], (kernel[2] - 1) * dilation)
    if node.has(3):
        before = _channels_first(node, node.tensor(3), is_last)
        if before.details.plain_dims != past:
            raise node.rule(f"past_state must have shape {list(past)}", str(before.details))
        whole = node.helper("concat", before, x, axis=2)
    else:
        whole = node.helper("pad", x, before=(0, 0, past[2]), after=(0, 0, 0))
    y = node.make("convolution", whole, weight, groups=dims[1], dilations=(dilation,))
    y = biased(node, y, node.tensor(2) if node.has(2) else None)
    kind = node.attr_text("activation", "none")
    if kind not in ("none", "silu", "swish"):
        raise node.rule("activation must be none, silu or swish", f"'{kind}'")
    y = y if kind == "none" else node.helper("silu", y)
    results = [y, node.sliced(whole, 2, dims[2], past[2])]
    if not is_last:
        return [*results]
    first = (node.transposed(x, (0, 2, 1)) for x in results)
    channels = node.details(0).plain_dims[2:]
    return [node.reshaped(x, (*x.details.plain_dims[:2], *channels)) for x in first]


def _channels_first(node: NodeContext, x: GraphTensor, is_last: int) -> GraphTensor:
    """[B, C, L] of [B, L, ...] where channels are last."""
    if not is_last:
        return x
    dims = x.details.plain_dims
    return node.transposed(node.reshaped(x, (*dims[:2], math.prod(dims[2:]))), (0, 2, 1))


_READ = (("CausalConvWithState", _causal_convolution), ("LinearAttention", _linear_attention))
_DOMAINS = ("", "com.microsoft::")
HANDLERS: dict[str, Handler] = {f"{domain}{name}": f for domain in _DOMAINS for name, f in _READ}
