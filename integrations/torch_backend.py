"""`torch.compile(model, backend="graphc")`: what Dynamo calls, by the entry point `torch_dynamo_backends`.

Dynamo captures a graph, AOTAutograd makes it one of ATen operators without mutations, and graphc compiles it when it is
first called, once per combination of sizes: then parameters have their values, which become constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ..base.dims import Size, evaluate
from ..base.errors import UnsupportedError, UserError
from ..driver.compiler import compile as compile_model
from ..frontend.torch.sizes import Sizes
from .torch_pieces import compile_open, compile_pieces, log

_OPTIONS = (
    "strict",
    "threads",
    "target",
    "disabled",
    "cache",
    "jobs",
    "tuning",
    "report",
    "decompositions",
)

_OF_TORCH = ("strict", "report", "decompositions")
"""Options that `graphc.compile` lacks."""


def backend(
    module: Any, examples: Sequence[Any], *, mode: str | None = None, options: Any = None
) -> Callable[..., Any]:
    """Compile a graph of Dynamo's.

    `options`: `strict` refuses what PyTorch would have to run itself, `decompositions` has a function for each operator
    that others compute; the rest are those of `graphc.compile`. UserError where gradients are wanted.
    """
    import torch
    from torch._dynamo.backends.common import aot_autograd

    chosen = dict(options or {})
    if unknown := sorted(set(chosen) - set(_OPTIONS)):
        raise UserError(
            f"torch.compile(backend='graphc') has no option '{unknown[0]}'; it has {', '.join(_OPTIONS)}"
        )
    if torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in examples):
        raise UserError(
            "torch.compile(backend='graphc') compiles inference, but gradients are wanted here; "
            "call the model under torch.no_grad() or torch.inference_mode()"
        )
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    static = [_is_static(node) for node in placeholders]
    compiler = partial(_compiled, static=static, options=chosen)
    from ..frontend.torch.program import decomposition_table

    rules = {**decomposition_table(), **(chosen.get("decompositions") or {})}
    run: Callable[..., Any] = aot_autograd(
        fw_compiler=compiler, inference_compiler=compiler, decompositions=rules
    )(module, examples)
    return run


def _is_static(placeholder: Any) -> bool:
    """Whether Dynamo says that a graph's input is a parameter or a buffer of a module."""
    return bool((placeholder.meta.get("tensor_dict") or {}).get("_dynamo_static_input_type"))


def _compiled(
    module: Any, examples: Sequence[Any], *, static: Sequence[bool], options: Mapping[str, Any]
) -> Callable[[list[Any]], list[Any]]:
    """A graph of AOTAutograd's as a function of its arguments in a list, which it empties.

    Symbolic sizes stay open in one piece of code; where that is not supported, each combination of sizes has its own.
    """
    frozen = _frozen(static, len(examples))
    codes: dict[Any, _Code] = {}
    is_open = any(not hasattr(x, "shape") for x in examples)

    def code_of(args: list[Any]) -> _Code:
        nonlocal is_open
        found = codes.get(None)
        if found is not None and found.fits(args):
            return found
        if is_open and (found is None or not found.is_current(args)):
            try:
                found = codes[None] = _Code(module, args, frozen, options, is_open=True)
            except UnsupportedError as error:
                is_open = False
                log.info("each combination of sizes is compiled by itself: %s", error)
            else:
                if found.fits(args):
                    return found
        key = tuple([tuple(x.shape) if hasattr(x, "shape") else x for x in args])
        found = codes.get(key)
        if found is None or not found.is_current(args):
            found = codes[key] = _Code(module, args, frozen, options)
        return found

    def call(args: list[Any]) -> list[Any]:
        results = code_of(args).call(args)
        args.clear()
        return results

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _frozen(static: Sequence[bool], count: int) -> list[int]:
    """The positions of parameters and buffers that no call of this graph changes."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None or not len(static) == count == len(metadata.input_info):
        return []
    mutated = [info.mutates_data or info.mutates_metadata for info in metadata.input_info]
    return [i for i in range(count) if static[i] and not mutated[i]]


class _Code:
    """A graph for one state of its parameters, and for one combination of sizes or all that its symbols allow."""

    def __init__(
        self,
        module: Any,
        args: Sequence[Any],
        frozen: Sequence[int],
        options: Mapping[str, Any],
        is_open: bool = False,
    ) -> None:
        self._frozen = frozen
        self._state = self._state_of(args)
        settings = {name: value for name, value in options.items() if name not in _OF_TORCH}
        constants = {i: args[i] for i in frozen}
        compiler = partial(compile_model, **settings)
        if is_open:
            pieces = compile_open(module, constants, compiler)
            layouts = _open_layouts(module)
        else:
            fixed, layouts = _with_examples(module, args)
            constants |= {i: x for i, x in enumerate(args) if not hasattr(x, "shape")}
            pieces = compile_pieces(fixed, constants, compiler, bool(options.get("strict")))
        if "report" in options:
            options["report"].append(pieces)
        self._pieces, self._layouts, self._sizes = pieces.call, layouts, pieces.sizes

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether open sizes are in their ranges, and parameters as they were."""
        inside = all(size.least <= args[i] <= size.most for i, size in self._sizes)
        return inside and self.is_current(args)

    def is_current(self, args: Sequence[Any]) -> bool:
        """Whether parameters are where and what they were."""
        return self._state_of(args) == self._state

    def _state_of(self, args: Sequence[Any]) -> list[Any]:
        frozen = [args[i] for i in self._frozen]
        return [(x.data_ptr(), None if x.is_inference() else x._version) for x in frozen]

    def call(self, args: Sequence[Any]) -> list[Any]:
        """The results, in the strides that PyTorch's own operators would give them."""
        results = self._pieces(args)
        values = {size.name: args[i] for i, size in self._sizes}
        for i, strides in self._layouts:
            wanted = tuple(evaluate(step, values) for step in strides)
            if results[i].stride() != wanted:
                results[i] = (
                    results[i].new_empty_strided(results[i].shape, wanted).copy_(results[i])
                )
        return results


Layouts = list[tuple[int, tuple[Size, ...]]]
"""Results whose elements may lie in another order, and their strides."""


def _with_examples(module: Any, args: Sequence[Any]) -> tuple[Any, Layouts]:
    """A copy of the graph with examples of the sizes of `args`, and the results whose elements lie in another order."""
    import copy

    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    copied = copy.copy(module)
    copied.graph = copy.deepcopy(module.graph)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(x, static_shapes=True) if hasattr(x, "shape") else x for x in args]
    FakeTensorProp(copied, mode).propagate_dont_convert_inputs(*fakes)
    (output,) = [node for node in copied.graph.nodes if node.op == "output"]
    examples: list[Any] = [getattr(x, "meta", {}).get("val") for x in output.args[0]]
    layouts = [
        (i, x.stride())
        for i, x in enumerate(examples)
        if hasattr(x, "stride") and not x.is_contiguous()
    ]
    return copied, layouts


def _open_layouts(module: Any) -> Layouts:
    """The strides of all results, as expressions. UnsupportedError where one is none."""
    (output,) = [node for node in module.graph.nodes if node.op == "output"]
    layouts, sizes = [], Sizes()
    for i, node in enumerate(output.args[0]):
        example: Any = getattr(node, "meta", {}).get("val")
        if not hasattr(example, "stride"):
            continue
        strides = [sizes.of(step) for step in example.stride()]
        known = tuple(step for step in strides if step is not None)
        if len(known) != len(strides):
            raise UnsupportedError(f"result {i} has strides that are no expressions of sizes")
        layouts.append((i, known))
    return layouts
