"""`torch.compile(model, backend="graphc")`: what Dynamo calls, by the entry point `torch_dynamo_backends`.

Dynamo captures a graph, AOTAutograd makes it one of ATen operators without mutations, and graphc compiles it when
it is first called, once per combination of sizes: then parameters have their values, which become constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ..base.collector import paused_collector
from ..base.errors import UserError
from ..driver.compiler import compile as compile_model
from ..frontend.torch.dynamo_graph import as_aten
from .torch_call import NO_GRADIENTS
from .torch_fallback import compiled_or, log
from .torch_frozen import freeze, with_gaps
from .torch_layouts import layouts_of, move_to_memory
from .torch_parameters import Codes, Parameters
from .torch_pieces import Pieces, compile_dynamic, compile_pieces, left_to_pytorch, read_dynamic
from .torch_saved import graph_bytes, graph_of, savable

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
    "aot_autograd",
    "frozen",
)

_OF_TORCH = ("strict", "report", "decompositions", "aot_autograd", "frozen")
"""Options that `graphc.compile` lacks."""


@paused_collector()
def backend(
    module: Any, examples: Sequence[Any], *, mode: str | None = None, options: Any = None
) -> Callable[..., Any]:
    """Compile a graph of Dynamo: the backend of `torch.compile(model, backend="graphc")`.

    Args:
        module: The graph.
        examples: Its inputs, with their dtypes and shapes.
        mode: A mode of `torch.compile`, which changes nothing.
        options: `strict` refuses what PyTorch would have to run; `decompositions` maps operators to functions that
            compute them from supported ones; `frozen` promises that modules and parameters no longer change; the
            others are arguments of `graphc.compile`.

    Raises:
        UserError: Gradients are required; with `strict`, any error of the compilation. Otherwise a graph that
            cannot be compiled runs in PyTorch.
    """
    import torch

    chosen = dict(options or {})
    if unknown := sorted(set(chosen) - set(_OPTIONS)):
        raise UserError(
            f"torch.compile(backend='graphc') has no option '{unknown[0]}'; it has {', '.join(_OPTIONS)}"
        )
    if torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in examples):
        raise UserError(NO_GRADIENTS)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    static = [_is_static(node) for node in placeholders]
    found = None if _needs_autograd(chosen) else _read_directly(module, examples, static, chosen)
    if found is not None:
        return found
    traced = partial(_traced, module, examples, static, chosen)
    run: Callable[..., Any] = compiled_or(
        lambda _: module.forward, traced, strict=bool(chosen.get("strict"))
    )
    return run


def _needs_autograd(options: Mapping[str, Any]) -> bool:
    """Return whether AOTAutograd must trace the graph: it also does what surrounds a call, such as autocast
    and vmap."""
    import torch

    return bool(
        options.get("aot_autograd")
        or options.get("decompositions")
        or torch.is_autocast_enabled("cpu")
        or torch._C._functorch.peek_interpreter_stack() is not None
    )


def _read_directly(
    module: Any, examples: Sequence[Any], static: Sequence[bool], options: Mapping[str, Any]
) -> Callable[..., Any] | None:
    """The graph compiled as Dynamo gives it, if all of it is supported so: AOTAutograd takes as long as Dynamo."""
    frozen = [i for i, is_static in enumerate(static) if is_static]

    def read() -> _Graph:
        graph = _Graph(as_aten(module), examples, frozen, {**options, "strict": True})
        graph.code_for(examples)
        return graph

    graph = compiled_or(partial(log.debug, "AOTAutograd traces the graph: %s"), read, is_last=False)
    if graph is None:
        return None
    if options.get("frozen") and not hasattr(module, "_backend_id"):  # to be saved, with its inputs
        code = graph.code_for(examples)
        return with_gaps(code.call, len(static), freeze(module, frozen, examples))
    return savable(graph, module)


def _traced(
    module: Any, examples: Sequence[Any], static: Sequence[bool], options: Mapping[str, Any]
) -> Callable[..., Any]:
    """The graph as AOTAutograd traces it, whose graphs are compiled when they are called."""
    from torch._dynamo.backends.common import aot_autograd

    from ..frontend.torch.program import decomposition_table

    def compiler(traced: Any, examples: Sequence[Any]) -> _Graph:
        return _Graph(traced, examples, _frozen(static, len(examples)), options)

    rules = {**decomposition_table(), **(options.get("decompositions") or {})}
    run: Callable[..., Any] = aot_autograd(
        fw_compiler=compiler, inference_compiler=compiler, decompositions=rules
    )(module, examples)
    return run


def _is_static(placeholder: Any) -> bool:
    """Return whether Dynamo says that a graph's input is a parameter or a buffer of a module."""
    return bool((placeholder.meta.get("tensor_dict") or {}).get("_dynamo_static_input_type"))


class _Graph:
    """A graph of ATen operators as a function of its arguments in a list, which it empties.

    Symbolic sizes stay dynamic in one piece of code; where that is not supported, each combination of sizes has
    its own.
    """

    _boxed_call = True  # what PyTorch asks for, to pass a list that may be emptied

    def __init__(
        self,
        module: Any,
        examples: Sequence[Any],
        frozen: Sequence[int],
        options: Mapping[str, Any],
    ) -> None:
        self._module, self._options, self._frozen = module, options, frozen
        self._varying = [i for i, x in enumerate(examples) if _is_varying(x)]
        self._is_dynamic = any(not hasattr(x, "shape") for x in examples)
        self._parameters = Parameters(self._frozen)

    def __call__(self, args: list[Any]) -> list[Any]:
        results = self.code_for(args).call(args)
        args.clear()
        return results

    def __getstate__(self) -> dict[str, Any]:
        options = {name: value for name, value in self._options.items() if name != "report"}
        own = {"_module": graph_bytes(self._module), "_options": options, "_parameters": None}
        return {**self.__dict__, **own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._module, self._parameters = graph_of(state["_module"]), Parameters(self._frozen)

    def code_for(self, args: Sequence[Any]) -> _Code:
        """Return the code compiled for arguments like these. May raise UnsupportedError."""
        return self._code(args, self._parameters.codes(args))

    def _code(self, args: Sequence[Any], codes: Codes) -> _Code:
        """Return the code for these sizes, compiled on first use; the key `None` holds the code for all sizes."""
        found: _Code | None = codes.get(None)
        if self._is_dynamic and found is None:
            found = compiled_or(
                partial(log.info, "each combination of sizes is compiled by itself: %s"),
                partial(self._compiled, args, is_dynamic=True),
                is_last=False,
            )
            self._is_dynamic = found is not None
            if found is not None:
                codes[None] = found
        if found is not None and found.fits(args):
            return found
        values = [args[i] for i in self._varying]
        key = tuple([tuple(x.shape) if hasattr(x, "shape") else x for x in values])
        found = codes.get(key)
        if found is None:
            found = codes[key] = self._compiled(args)
        return found

    @paused_collector()
    def _compiled(self, args: Sequence[Any], is_dynamic: bool = False) -> _Code:
        varying = bool(self._varying)
        return _Code(self._module, args, self._frozen, self._options, is_dynamic, varying)


def _is_varying(example: Any) -> bool:
    """Return whether a graph takes arguments of several sizes there: Dynamo has checked all others."""
    return not all(type(size) is int for size in getattr(example, "shape", (None,)))


def _frozen(static: Sequence[bool], count: int) -> list[int]:
    """The positions of parameters and buffers that no call of this graph changes.

    Attributes of Dynamo's graph, which its `prepare_freezing` makes of parameters, come before its inputs.
    """
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    attributes = count - len(static)
    if metadata is None or attributes < 0 or len(metadata.input_info) != count:
        return []
    kept = [*[True] * attributes, *static]
    changed = [info.mutates_data or info.mutates_metadata for info in metadata.input_info]
    return [i for i in range(count) if kept[i] and not changed[i]]


class _Code:
    """A graph compiled with its parameters, for one combination of sizes or all that its symbols allow."""

    def __init__(
        self,
        module: Any,
        args: Sequence[Any],
        frozen: Sequence[int],
        options: Mapping[str, Any],
        is_dynamic: bool = False,
        varying: bool = False,
    ) -> None:
        settings = {name: value for name, value in options.items() if name not in _OF_TORCH}
        constants = {i: args[i] for i in frozen}
        compiler = partial(compile_model, **settings)
        strict = bool(options.get("strict"))
        pieces: Pieces
        layouts: Any

        def compile_fixed() -> tuple[Pieces, Any]:
            fixed = _with_examples(module, args) if varying else module
            known = constants | {i: x for i, x in enumerate(args) if not hasattr(x, "shape")}
            return compile_pieces(fixed, known, compiler, strict), layouts_of(fixed)

        if is_dynamic:
            found = read_dynamic(module, constants)
            layouts = layouts_of(module, found.sizes)  # before the work of compiling
            pieces = compile_dynamic(module, found, compiler)
        else:
            left = partial(left_to_pytorch, module)
            pieces, layouts = compiled_or(
                lambda reason: (left(reason), None), compile_fixed, strict=strict
            )
        if "report" in options:
            options["report"].append(pieces)
        self._pieces, self._layouts, self._sizes = pieces.call, layouts, pieces.sizes

    def fits(self, args: Sequence[Any]) -> bool:
        """Return whether dynamic dimensions are in their ranges."""
        return self._sizes(args) is not None

    def call(self, args: Sequence[Any]) -> list[Any]:
        """The results, where PyTorch's own operators would have them."""
        results = self._pieces(args)
        if self._layouts:
            move_to_memory(results, self._layouts, self._sizes(args) or {})
        return results


def _with_examples(module: Any, args: Sequence[Any]) -> Any:
    """A copy of a graph whose examples have symbolic sizes, with those of `args`."""
    import copy

    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    copied = copy.copy(module)
    copied.graph = copy.deepcopy(module.graph)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(x, static_shapes=True) if hasattr(x, "shape") else x for x in args]
    FakeTensorProp(copied, mode).propagate_dont_convert_inputs(*fakes)
    return copied
