"""A whole module as native code: what `graphc.torch.compile` returns."""

from __future__ import annotations

import io
import os
import pickle
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..base.errors import UnsupportedError, UserError
from ..driver.compiler import compile as compile_model
from ..driver.compiler import load
from ..frontend import load as load_graph
from ..frontend.torch.program import decomposed, mutated_states
from ..runtime.executor import CompiledModel
from .torch_call import NO_GRADIENTS, run
from .torch_results import Results


class CompiledModule(torch.nn.Module):  # type: ignore[misc]
    """A module compiled for inputs of these types, which takes and gives tensors without copies.

    It replaces the module also inside others. It has no parameters, and is inference in either mode.

    Results lie in memory as PyTorch's do for inputs like those it was compiled with: their strides, and views of one
    another, of inputs and of `states`, which are the buffers that the module changes. Inputs that it changes are
    changed. It can be pickled, also with `torch.save`; unpickling one is trusting native code.
    """

    def __init__(self, program: Any, options: Mapping[str, Any]) -> None:
        super().__init__()
        self.eval()
        options = dict(options)
        program = decomposed(program, options.pop("decompositions", None) or {})
        signature = program.graph_signature
        self._threads = options.get("threads")
        self._specs = (program.call_spec.in_spec, program.call_spec.out_spec)
        users = [spec for spec in signature.input_specs if spec.kind.name == "USER_INPUT"]
        self._inputs = tuple((spec.arg.name, _fixed(spec.arg)) for spec in users)
        mutated = mutated_states(program)
        held = [s.target for s in signature.input_specs if s.target in mutated]
        known = {**program.constants, **program.state_dict}
        self.states = {name: known[name].detach().clone() for name in held}
        self._results = Results(program)
        graph = load_graph(program, options.pop("inputs", None))
        graph.remove(self._results.made_later(graph))
        self.model: CompiledModel = compile_model(graph, **options)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run. Raise UserError if arguments are not like those of `compile`, or gradients are wanted."""
        leaves, structure = pytree.tree_flatten((args, kwargs))
        if structure != self._specs[0]:
            raise UserError(
                f"the compiled module takes arguments {self._specs[0]}, got {structure}; "
                "give those that it was compiled for"
            )
        tensors = self._tensors(leaves)
        taken = [*tensors.values(), *self.states.values()]
        self._results.check(taken)
        found = run(self.model, taken)
        return pytree.tree_unflatten(self._results.of(found, taken), self._specs[1])

    def _tensors(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """The arguments that are tensors, by name; all others must be those that the module was compiled with."""
        tensors, is_wanted = {}, torch.is_grad_enabled()
        for (name, fixed), leaf in zip(self._inputs, leaves, strict=True):
            if fixed is None:
                if not hasattr(leaf, "shape"):
                    raise UserError(f"input '{name}' must be a tensor, got {type(leaf).__name__}")
                if is_wanted and leaf.requires_grad:
                    raise UserError(NO_GRADIENTS)
                tensors[name] = leaf
            elif hasattr(leaf, "shape") or fixed[0] != leaf:
                raise UserError(
                    f"input '{name}' must be {fixed[0]!r}, as when it was compiled, got {leaf!r}"
                )
        return tensors

    def __getstate__(self) -> dict[str, Any]:
        specs = pickle.dumps(self._specs)
        return {**self.__dict__, "model": _bytes_of(self.model.save), "_specs": specs}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.model = _loaded(state["model"], self._threads)
        with warnings.catch_warnings():  # torch warns about its own class
            warnings.simplefilter("ignore")
            self._specs = pickle.loads(state["_specs"])


def _fixed(argument: Any) -> tuple[Any] | None:
    """The value of an argument that is not a tensor. Raise UnsupportedError for dynamic dimensions, which are none."""
    if type(argument).__name__ == "SymIntArgument":
        raise UnsupportedError(
            f"'{argument.name}': a dynamic dimension as an argument is not supported",
            "pass it as a tensor, or export it as a number",
        )
    return (argument.value,) if type(argument).__name__ == "ConstantArgument" else None


def _bytes_of(save: Callable[[Path], None]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="graphc-") as folder:
        path = Path(folder, "module.gcm")
        save(path)
        return path.read_bytes()


def _loaded(data: bytes, threads: int | None) -> CompiledModel:
    """A model of the bytes of its file, which stays mapped after it is gone."""
    handle, name = tempfile.mkstemp(suffix=".gcm", prefix="graphc-")
    try:
        with io.FileIO(handle, "w") as file:
            file.write(data)
        return load(name, threads)
    finally:
        os.unlink(name)
