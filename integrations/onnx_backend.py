"""`graphc.onnx_backend`: graphc as a backend of the onnx package, for tools and tests that take one.

    rep = graphc.onnx_backend.prepare(model)
    (y,) = rep.run([x])

A model whose shapes depend on the inputs of a run, or on values in them (axes, sizes, numbers of repetitions), is
compiled at its first run for such inputs and again for others: as many times as there are different ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper, numpy_helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from ..base.dtypes import from_numpy
from ..base.errors import GraphcError, UserError
from ..driver.compiler import compile
from ..frontend.correspondence.scoped import NotKnownError
from ..runtime.executor import CompiledModel

__all__ = [
    "GraphcBackend",
    "GraphcModel",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]

_LARGEST_KEY = 1024
"""Elements of an input that a model may be compiled for the value of."""

Array = np.ndarray[Any, Any]

Feeds = dict[str, Array | None]
"""Arrays by the names of inputs; an element of a sequence is `x.0`. None for a sequence or option without any."""


class GraphcModel(BackendRep):
    """A model ready to run. Made by `prepare`; `options` are those of `graphc.compile`."""

    def __init__(self, model: ModelProto, **options: Any) -> None:
        self._model = model
        self._options = options
        weights = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [x.name for x in model.graph.input if x.name not in weights]
        self._values: list[
            str
        ] = []  # inputs whose values decide what is compiled, in the order they were met
        self._compiled: dict[Any, CompiledModel] = {}
        self._outputs = list(model.graph.output)
        self._result = namedtupledict("Outputs", [x.name for x in model.graph.output])

    def compile_ahead(self) -> None:
        """Compile now, unless that needs shapes or values of the first run. May raise UserError or UnsupportedError."""
        infos = [x for x in self._model.graph.input if x.name in self._inputs]
        if all(_is_closed(info) for info in infos):
            blank: Feeds = {info.name: _blank(info) for info in infos}
            with suppress(NotKnownError):
                self._compiled[self._key(blank)] = self._compile(blank)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, by position and by name, for inputs in the model's order or by name. May raise UserError."""
        feeds = self._feeds(inputs)
        model = self._specialized(feeds)
        results = model.run(None, {spec.name: feeds[spec.name] for spec in model.inputs})
        named = dict(zip([spec.name for spec in model.outputs], results, strict=True))
        return self._result(*(_output(info, named) for info in self._outputs))

    def _feeds(self, inputs: Any) -> Feeds:
        if isinstance(inputs, Mapping):
            named = dict(inputs)
        else:
            given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            if len(given) > len(self._inputs):
                raise UserError(f"the model takes {len(self._inputs)} inputs, got {len(given)}")
            named = dict(zip(self._inputs, given, strict=False))
        kinds = {info.name: info.type for info in self._model.graph.input}
        feeds: Feeds = {}
        for name, value in named.items():
            listed = name in kinds and _is_sequence(kinds[name]) and isinstance(value, list)
            feeds |= (
                _elements(name, value)
                if listed
                else {name: None if value is None else _array(value)}
            )
        return feeds

    def _specialized(self, feeds: Feeds) -> CompiledModel:
        """The model compiled for inputs of these shapes, and for the values of those that decide shapes."""
        while True:
            key = self._key(feeds)
            if key not in self._compiled:
                try:
                    self._compiled[key] = self._compile(feeds)
                except NotKnownError as error:
                    found = self._deciding(error.key, feeds)
                    if not found:
                        raise
                    self._values += found
                    continue
            return self._compiled[key]

    def _key(self, feeds: Feeds) -> tuple[Any, ...]:
        return tuple(
            (n, x.dtype.name, x.shape, x.tobytes() if n in self._values else b"")
            if x is not None
            else n
            for n, x in sorted(feeds.items())
        )

    def _compile(self, feeds: Feeds) -> CompiledModel:
        kinds = {info.name: info.type for info in self._model.graph.input}
        constants: dict[str, Any] = {name: feeds[name] for name in self._values if name in feeds}
        for name in [name for name, x in feeds.items() if x is None]:
            constants[name] = [] if kinds[name].HasField("sequence_type") else None
        specs = {n: _spec(x) for n, x in feeds.items() if n not in constants and x is not None}
        return compile(self._model, inputs=specs, constants=constants, **self._options)

    def _deciding(self, key: object, feeds: Feeds) -> list[str]:
        """Return more inputs whose values are compiled in: the requested one, or else all small integer lists, or else
        all scalars."""
        new = {n: x for n, x in feeds.items() if n not in self._values and x is not None}
        small = {n: x for n, x in new.items() if x.size <= _LARGEST_KEY}
        if key in small:
            return [str(key)]
        integers = [n for n, x in small.items() if x.dtype.kind in "iub" and x.ndim <= 1]
        return integers or [n for n, x in small.items() if x.ndim == 0]


class GraphcBackend(Backend):
    """The onnx package's interface of a backend."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Return whether the model compiles, as far as that can be said before its inputs are known."""
        try:
            cls.prepare(model, device, **kwargs)
        except GraphcError:
            return False
        return True

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> GraphcModel:
        """The model, compiled now if all shapes are known, else at its first run. May raise UserError or
        UnsupportedError."""
        _check_device(device)
        made = GraphcModel(model, **kwargs)
        made.compile_ahead()
        return made

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Any = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one node. `opset_version`: of the operator set, default the newest."""
        arrays = [_array(value) for value in inputs]
        opset = kwargs.pop("opset_version", None)
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in zip((n for n in node.input if n), arrays, strict=True)
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "node", infos, results)
        imports = [helper.make_opsetid(node.domain, opset)] if opset else None
        made = helper.make_model(graph, opset_imports=imports)
        return cls.run_model(made, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only the CPU."""
        return device.split(":")[0] == "CPU"


is_compatible = GraphcBackend.is_compatible
prepare = GraphcBackend.prepare
run_model = GraphcBackend.run_model
run_node = GraphcBackend.run_node
supports_device = GraphcBackend.supports_device


def _check_device(device: str) -> None:
    if not GraphcBackend.supports_device(device):
        raise UserError(f"device must be CPU, got '{device}'")


def _is_sequence(kind: TypeProto) -> bool:
    inner = kind.optional_type.elem_type if kind.HasField("optional_type") else kind
    return bool(inner.HasField("sequence_type"))


def _elements(name: str, values: list[Any]) -> Feeds:
    if not values:
        return {name: None}
    return {f"{name}.{i}": _array(value) for i, value in enumerate(values)}


def _output(info: ValueInfoProto, results: Mapping[str, Array]) -> Any:
    """A result as its type says: an array, the list of a sequence, None for an option without a value."""
    if not _is_sequence(info.type):
        return results.get(info.name)
    count = 0
    while f"{info.name}.{count}" in results:
        count += 1
    return [results[f"{info.name}.{i}"] for i in range(count)]


def _array(value: Any) -> Array:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def _spec(array: Array) -> str:
    return f"{from_numpy(array.dtype)}[{','.join(map(str, array.shape))}]"


def _is_closed(info: ValueInfoProto) -> bool:
    """Return whether an input has a fixed shape."""
    shape = info.type.tensor_type.shape
    given = info.type.HasField("tensor_type") and info.type.tensor_type.HasField("shape")
    return given and all(dim.HasField("dim_value") for dim in shape.dim)


def _blank(info: ValueInfoProto) -> Array:
    """An array of the type of an input that takes no memory."""
    kind = info.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    return np.broadcast_to(np.zeros((), dtype), [dim.dim_value for dim in kind.shape.dim])
