"""The graph of a decoder: embeddings of new tokens and caches in, logits and longer caches out.

    embeddings      f32 [1, T, width]             rows of the embedding, times `embedding_scale`
    rows            s64 [K]                       the new tokens whose logits are wanted, from 0 on
    past_key_0      f32 [1, kv_heads, P, size]    and past_value_0, of every layer (`caches.py`)
    logits          f32 [1, K, vocabulary]
    present_key_0   f32 [1, kv_heads, P + T, size]

T new tokens follow P old ones; T, P and K are dynamic. Caches of layers with a window have W tokens instead of P, any
number that holds the window. Each present output may share the memory of its past input.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ...base.dims import Size, Symbol, bounds, size
from ...base.dtypes import F32, F64, S64, DType
from ...base.errors import UserError
from ...graph_ir.ir.graph import Graph, GraphTensor
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.compositions.experts import routes_of
from ..correspondence.compositions.heads import capped
from ..correspondence.compositions.indexing import positions
from ..correspondence.compositions.rotary import rotary
from ..op_builder import OpBuilder
from .caches import Cache, caches, rounded
from .config import DecoderConfig, Rotary
from .linear import linear
from .weights import Weight, Weights, refuse

_READ_ELSEWHERE = re.compile(
    r"token_embd\.weight|rope_(freqs|factors_(long|short))\.weight|blk\.\d+\.attn_rot_embd\..*|(v|mm)\..*"
)
"""Tensors of embeddings, of rotary embedding, and of parts that are not the decoder."""

EMBEDDINGS, ROWS, LOGITS = "embeddings", "rows", "logits"


def decoder_graph(
    config: DecoderConfig,
    weights: Weights,
    new: Size,
    past: Size,
    cache: DType = F32,
    kept: Size | None = None,
    wanted: Size | None = None,
) -> Graph:
    """Return the graph of a decoder for `new` tokens after `past` ones. Raise UserError for a missing or misshapen
    weight.

    `cache`: the type of keys and values, f32, f16, bf16 or s8. `kept`: the old tokens that layers with a window have,
    any number up to `past` by default. `wanted`: the tokens whose logits are wanted, any number of the new ones by
    default.
    """
    if kept is None:
        kept = past if isinstance(past, int) else size(Symbol("W", 0, bounds(past)[1]))
    decoder = Decoder(config, weights, new, past, kept, cache)
    decoder.wanted = wanted or decoder.wanted
    return decoder.graph()


class Decoder:
    """Builds the graph of one sequence."""

    def __init__(
        self,
        config: DecoderConfig,
        weights: Weights,
        new: Size,
        past: Size,
        kept: Size,
        cache: DType,
    ) -> None:
        self.config, self.weights, self.new, self.past, self.kept = config, weights, new, past, kept
        self.cache, self.caches = cache, caches(config, cache)
        self.build = OpBuilder(Graph("decoder"), "decoder", "decoder")
        self.angles: dict[Rotary, tuple[GraphTensor, GraphTensor]] = {}
        self.presents: list[GraphTensor] = []
        self.outer: tuple[Size, Size] = 1, new  # sequences, and new tokens of each
        self.wanted = size(Symbol("K", 1, bounds(new)[1]))  # tokens whose logits are results
        self._read: set[str] = set()  # names of weights

    def graph(self) -> Graph:
        """Build all of it."""
        config, build = self.config, self.build
        graph, count = build.graph, self.wanted
        x = graph.make_input(LogicalTensor(F32, (*self.outer, config.width)), EMBEDDINGS)
        rows = self.select_rows(count)
        x = build.reshaped(x, (self.new, config.width))
        pasts = [graph.make_input(self.past_of(one), one.past) for one in self.caches]
        each = len(pasts) // config.layers
        for layer in range(config.layers):
            x = self._layer(x, layer, pasts[each * layer : each * (layer + 1)])
        if rows is not None:
            x = build.helper("gather", x, rows, axis=0)
        head = "output" if "output.weight" in self.weights else "token_embd"
        logits = self._linear(self._norm(x, "output_norm"), head, config.vocabulary)
        logits = capped(build, logits, config.logit_cap)
        shape = (self.outer[0], 1 if rows is None else count, config.vocabulary)
        graph.make_output(build.reshaped(logits, shape), LOGITS)
        for one, present in zip(self.caches, self.presents, strict=True):
            graph.make_output(present, one.present)
        others = [name for name in self.weights if name not in self._read]
        unknown = [name for name in others if not _READ_ELSEWHERE.fullmatch(name)]
        refuse(unknown, f"model '{config.name}'")
        return graph

    def select_rows(self, count: Size) -> GraphTensor | None:
        """Make the input of the new tokens whose logits are wanted; None where they are all."""
        return self.build.graph.make_input(LogicalTensor(S64, (count,)), ROWS)

    def past_of(self, cache: Cache) -> LogicalTensor:
        """Return the type of a cache before the step."""
        tokens = self.kept if cache.is_local else self.past
        return LogicalTensor(cache.dtype, (1, self.config.kv_heads, tokens, cache.size))

    def _layer(self, x: GraphTensor, layer: int, pasts: Sequence[GraphTensor]) -> GraphTensor:
        at, add = f"blk.{layer}.", self.build.helper
        y = self._attention(self._norm(x, f"{at}attn_norm"), layer, pasts)
        x = add("add", x, self._norm(y, f"{at}post_attention_norm", optional=True))
        y = self._feed_forward(self._norm(x, f"{at}ffn_norm"), at)
        return add("add", x, self._norm(y, f"{at}post_ffw_norm", optional=True))

    def _attention(self, x: GraphTensor, layer: int, pasts: Sequence[GraphTensor]) -> GraphTensor:
        config, build, at = self.config, self.build, f"blk.{layer}."
        q, k, v = self._projections(x, at)
        q = self._norm(q, f"{at}attn_q_norm", optional=True)
        k = self._norm(k, f"{at}attn_k_norm", optional=True)
        if config.rotated[layer]:
            q, k = (self._rotated(one, layer) for one in (q, k))
        news = [
            part
            for one in (k, v)
            for part in rounded(build, build.transposed(one, (0, 2, 1, 3)), self.cache)
        ]
        whole = [self.grown(*pair) for pair in zip(pasts, news, strict=True)]
        self.presents += whole
        each = len(whole) // 2  # keys, their scales where there are some, values, theirs
        keys, values, *scales = (whole[i] for first in range(each) for i in (first, first + each))
        window = config.window if config.is_local[layer] else 0
        scaling = {"scale": config.query_scale, "cap": config.score_cap, "window": window}
        y = build.helper(
            "cached_attention", q, keys, values, self.lengths(layer), *scales, **scaling
        )
        y = build.reshaped(y, (self.new, config.heads * config.value_size))
        return self._linear(y, f"{at}attn_output", config.width)

    def grown(self, past: GraphTensor, new: GraphTensor) -> GraphTensor:
        """Return a cache with the rows of the new tokens."""
        return self.build.helper("concat", past, new, axis=2)

    def lengths(self, layer: int) -> GraphTensor:
        """Return the keys of a layer of each sequence, s64 [sequences]."""
        past = self.kept if self.config.keeps_window(layer) else self.past
        return self.build.helper("dynamic_sizes", values=(past + self.new,))

    def _projections(self, x: GraphTensor, at: str) -> list[GraphTensor]:
        """Q, K and V, each [sequences, tokens, heads, size]."""
        config, build = self.config, self.build
        shapes = [
            (config.heads, config.key_size),
            (config.kv_heads, config.key_size),
            (config.kv_heads, config.value_size),
        ]
        widths = [heads * one for heads, one in shapes]
        if f"{at}attn_qkv.weight" in self.weights:
            parts = self._parts(self._linear(x, f"{at}attn_qkv", sum(widths)), widths)
        else:
            names = ("attn_q", "attn_k", "attn_v")
            parts = [
                self._linear(x, at + name, width) for name, width in zip(names, widths, strict=True)
            ]
        return [build.reshaped(y, (*self.outer, *s)) for y, s in zip(parts, shapes, strict=True)]

    def _parts(self, x: GraphTensor, widths: Sequence[int]) -> list[GraphTensor]:
        """Neighboring columns of x."""
        starts = [sum(widths[:i]) for i in range(len(widths))]
        return [self.build.sliced(x, 1, *part) for part in zip(starts, widths, strict=True)]

    def _rotated(self, x: GraphTensor, layer: int) -> GraphTensor:
        config = self.config
        cos, sin = self._angles(config.local_rotary if config.is_local[layer] else config.rotary)
        return rotary(self.build, x, cos, sin, config.rotates_pairs)

    def positions(self) -> GraphTensor:
        """Return the positions of the new tokens, s64 [sequences, tokens, 1]."""
        return positions(self.build, self.new, 1, 3, self.past)

    def _angles(self, rotary_config: Rotary) -> tuple[GraphTensor, GraphTensor]:
        """The cos and sin of the new tokens' positions, f32 [sequences, tokens, pairs]; angles are exact, in f64."""
        if rotary_config not in self.angles:
            build = self.build
            at = build.converted(self.positions(), F64)
            angles = build.helper("mul", at, build.constant(rotary_config.frequencies, F64))
            gain = build.constant(rotary_config.gain, F32)
            found = [build.converted(build.helper(name, angles), F32) for name in ("cos", "sin")]
            if rotary_config.gain != 1:
                found = [build.helper("mul", one, gain) for one in found]
            self.angles[rotary_config] = found[0], found[1]
        return self.angles[rotary_config]

    def _feed_forward(self, x: GraphTensor, at: str) -> GraphTensor:
        config = self.config
        if f"{at}ffn_gate_inp.weight" in self.weights:
            return self._experts(x, at)
        hidden = self._weight(f"{at}ffn_down.weight").dims[-1]
        if f"{at}ffn_gate.weight" in self.weights:
            gate, up = (self._linear(x, at + name, hidden) for name in ("ffn_gate", "ffn_up"))
        else:
            both = self._linear(x, f"{at}ffn_up", 2 * hidden)
            gate, up = self._parts(both, [hidden, hidden])
        return self._linear(self._gated(gate, up), f"{at}ffn_down", config.width)

    def _gated(self, gate: GraphTensor, up: GraphTensor) -> GraphTensor:
        build = self.build
        if self.config.architecture.gelu:
            gate = build.helper("gelu", gate, approximate="tanh")
        else:
            gate = build.helper("silu", gate)
        return build.helper("mul", gate, up)

    def _experts(self, x: GraphTensor, at: str) -> GraphTensor:
        """The k experts that the router prefers, weighted by a softmax of their scores, or of all."""
        build, k = self.build, self.config.experts_used
        gate, up, down = self._expert_layers(at)
        count = down.dims[0]
        scores = self._linear(x, f"{at}ffn_gate_inp", count)
        if not self.config.joins_to_one:
            scores = build.helper("softmax", scores, axis=1)
        weights, chosen = build.outputs("top_k", scores, k=k, axis=1, largest=True)
        if self.config.joins_to_one:
            weights = build.helper("softmax", weights, axis=1)
        routes = routes_of(build, weights, build.converted(chosen, S64), count)
        rows = build.helper("gather", x, routes.rows, axis=0)
        factors = (linear(build, rows, one, routes) for one in (gate, up))
        return routes.joined(build, linear(build, self._gated(*factors), down, routes))

    def _expert_layers(self, at: str) -> tuple[Weight, Weight, Weight]:
        """Return the gates, their factors and the layers after them: of as many experts, all of one size."""
        width, name = self.config.width, f"{at}ffn_down_exps.weight"
        down = self._weight(name)
        if len(down.dims) != 3 or down.dims[1] != width:
            rule = f"must be [experts, {width}, hidden size]"
            raise self._wrong(name, rule, str(list(down.dims)))
        count, _, hidden = down.dims
        gate, up = (
            self._weight(f"{at}ffn_{one}_exps.weight", count, hidden, width)
            for one in ("gate", "up")
        )
        return gate, up, down

    def _norm(self, x: GraphTensor, name: str, optional: bool = False) -> GraphTensor:
        """The RMS norm of the last axis; x itself where an optional one has no weight."""
        if optional and f"{name}.weight" not in self.weights:
            return x
        weight = self._weight(f"{name}.weight", x.details.plain_dims[-1])
        scale = self.build.constant(weight.values(), F32)
        return self.build.helper("rms_norm", x, scale, epsilon=self.config.epsilon)

    def _linear(self, x: GraphTensor, name: str, rows: int) -> GraphTensor:
        """x [T, k] times the transposed weight [rows, k], plus a bias where there is one."""
        weight = self._weight(f"{name}.weight", rows, x.details.plain_dims[-1])
        y = linear(self.build, x, weight)
        if f"{name}.bias" in self.weights:
            bias = self._weight(f"{name}.bias", rows).values()
            y = self.build.helper("add", y, self.build.constant(bias, F32))
        return y

    def _weight(self, name: str, *dims: Size) -> Weight:
        """Raise UserError if it is missing or, where `dims` are given, has others."""
        found = self.weights.get(name)
        if found is None:
            raise self._wrong(name, "must be in the file", "no tensor of that name")
        if dims and found.dims != dims:
            raise self._wrong(name, f"must be {list(dims)}", str(list(found.dims)))
        self._read.add(name)
        return found

    def _wrong(self, name: str, rule: str, values: str) -> UserError:
        text = f"model '{self.config.name}': '{name}' {rule}, got {values}"
        return UserError(text)


def embedded(config: DecoderConfig, weights: Weights, tokens: np.ndarray) -> np.ndarray:
    """Return the embeddings of tokens s64 [T], f32 [1, T, width]; only their rows of the file are read."""
    rows = weights["token_embd.weight"].values(tokens)
    return (rows * np.float32(config.embedding_scale))[None]
