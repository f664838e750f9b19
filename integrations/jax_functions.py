"""`graphc.jax`: JAX functions compiled by graphc instead of XLA. Needs the package jax.

    f = graphc.jax.jit(lambda x, w: jax.nn.relu(x @ w))
    y = f(x, w)

JAX traces the function to HLO, which graphc reads and compiles, once per combination of shapes and dtypes. The module
is not named `graphc.jax`, as a file jax.py in the root of a checkout would shadow jax itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.errors import UserError
from ..base.records import dataclass
from ..driver.compiler import compile
from ..runtime.executor import CompiledModel
from ..targets.isa import Target


@dataclass(frozen=True)
class _Compiled:
    """One specialization: the model, and the pytree structure of its results with the types of its leaves.

    A complex array is two of the model's, the real and the imaginary part.
    """

    model: CompiledModel
    structure: Any
    dtypes: tuple[np.dtype, ...]


def jit(
    function: Callable[..., Any] | None = None,
    *,
    target: str | Target = "native",
    threads: int | None = None,
    disabled: Iterable[str] = (),
) -> Any:
    """Compile a JAX function to native code, once per combination of shapes and dtypes; also a decorator.

    Args:
        function: A traceable function of pytrees of arrays, without side effects. Take gradients inside of it.
        target: As for `graphc.compile`.
        threads: As for `graphc.compile`.
        disabled: As for `graphc.compile`.

    Returns:
        A function of the same arguments. Its results are NumPy arrays, which JAX accepts.

    Raises:
        UserError: JAX is not installed.
        UnsupportedError: At the first call, for operations that are not supported.
    """
    if function is None:
        return functools.partial(jit, target=target, threads=threads, disabled=disabled)
    return JitFunction(function, target, threads, tuple(disabled))


class JitFunction:
    """A JAX function with its compiled specializations. Made by `jit`."""

    def __init__(
        self,
        function: Callable[..., Any],
        target: str | Target,
        threads: int | None,
        disabled: Sequence[str],
    ) -> None:
        self._jax = _import_jax()
        self._function = function
        # Unused arguments stay parameters, so that the model's inputs are the leaves of the arguments.
        self._traced = self._jax.jit(function, keep_unused=True)
        self._compile_hlo = functools.partial(
            compile, target=target, threads=threads, disabled=tuple(disabled)
        )
        self._cache: dict[Any, _Compiled] = {}
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run; compile first if these shapes and dtypes are new."""
        leaves, structure = self._jax.tree.flatten((args, kwargs))
        key = (structure, *map(_kind, leaves))
        if key not in self._cache:
            self._cache[key] = self._compile(args, kwargs)
        compiled = self._cache[key]
        specs = compiled.model.inputs
        parts = [part for leaf in leaves for part in _parts(leaf)]
        # JAX may compute in another type than that of the argument: f64 as f32, a Python number in a type that holds
        # it.
        arrays = [
            np.asarray(part, spec.dtype.numpy) for part, spec in zip(parts, specs, strict=True)
        ]
        results = iter(compiled.model.run(None, _named(specs, arrays)))
        joined = [_joined(dtype, results) for dtype in compiled.dtypes]
        return self._jax.tree.unflatten(compiled.structure, joined)

    def lower(self, *args: Any, **kwargs: Any) -> str:
        """The HLO text compiled for such arguments."""
        text: str = self._lowered(args, kwargs).compiler_ir("hlo").as_hlo_text(True)
        return text

    def model(self, *args: Any, **kwargs: Any) -> CompiledModel:
        """The model compiled for such arguments: to save, profile or inspect."""
        return self._compile(args, kwargs).model

    @property
    def cache_size(self) -> int:
        """Number of specializations compiled so far."""
        return len(self._cache)

    def _lowered(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._traced.lower(*args, **kwargs)

    def _compile(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Compiled:
        lowered = self._lowered(args, kwargs)
        # Large constants too: they are often weights.
        text = lowered.compiler_ir("hlo").as_hlo_text(True)
        model = self._compile_hlo(text.encode())
        leaves, structure = self._jax.tree.flatten(lowered.out_info)
        return _Compiled(model, structure, tuple(leaf.dtype for leaf in leaves))


def _named(specs: Sequence[Any], arrays: Sequence[np.ndarray]) -> Mapping[str, np.ndarray]:
    return {spec.name: array for spec, array in zip(specs, arrays, strict=True)}


def _parts(leaf: Any) -> Sequence[Any]:
    """An argument as the model takes it."""
    return (np.real(leaf), np.imag(leaf)) if np.iscomplexobj(leaf) else (leaf,)


def _joined(dtype: np.dtype, results: Iterator[np.ndarray]) -> np.ndarray:
    """The next result of a type."""
    first = next(results)
    if dtype.kind != "c":
        return first
    whole = np.empty(first.shape, dtype)
    whole.real, whole.imag = first, next(results)
    return whole


def _kind(leaf: Any) -> Any:
    """The part of a leaf that selects a specialization: shape and dtype, or the type of a Python number."""
    if hasattr(leaf, "dtype") and hasattr(leaf, "shape"):
        return leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False)
    return type(leaf)


def _import_jax() -> Any:
    try:
        import jax
    except ImportError as error:
        raise UserError(
            f"graphc.jax needs the package jax, which is missing here ({error}); pip install jax"
        ) from error
    return jax
