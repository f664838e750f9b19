"""The arrays that a command runs a model on: read from files, or generated, at sizes the command line gives."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import UserError
from ..base.file_errors import unreadable
from ..base.pipes import without_waiting
from ..base.source_files import note_source

if TYPE_CHECKING:
    from ..base.dims import Symbol
    from ..runtime.metadata import TensorSpec

Array = np.ndarray[Any, Any]

SMALL_BATCH, SMALL_LENGTH, SMALL_IMAGE = 2, 16, 64
"""Default sizes of dynamic dimensions: of a first axis, of others, and of the height and width of an image."""


def call_sizes(texts: Sequence[str]) -> dict[str, int]:
    """The numbers that the texts of --size give, by name. Raise UserError for another text."""
    found = {}
    for text in ",".join(texts).split(",") if texts else ():
        name, equals, number = text.partition("=")
        if not (name.strip() and equals and number.isascii() and number.isdigit()):
            raise UserError(f"--size must be NAME=NUMBER, got '{text}'; write B=2,S=37")
        found[name.strip()] = int(number[:18])
    return found


def split_inputs(texts: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """(shape specs, values) of the --input texts by name. A .npy file also fixes the input's shape."""
    specs: dict[str, str] = {}
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise UserError(
                f"--input must be NAME=VALUE, got '{text}'; write x=@x.npy, x=random or x=f32[8,13]"
            )
        if value == "random" or value.startswith("@"):
            values[name] = value
        else:
            specs[name] = value
    return specs, values


def shapes_of_files(values: Mapping[str, str]) -> dict[str, str]:
    """Return the shape spec of every input read from a file, for models with dynamic dimensions."""
    from ..base.dtypes import from_numpy

    specs = {}
    for name, value in values.items():
        if value.startswith("@"):
            array = read_npy(name, value[1:])
            specs[name] = f"{from_numpy(array.dtype)}[{','.join(map(str, array.shape))}]"
    return specs


def input_arrays(
    tensors: Sequence[TensorSpec],
    values: Mapping[str, str],
    sizes: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, Array]:
    """Return an array per input: from its file, or generated with the input's name as seed.

    Dynamic dimensions have the sizes of files, else those in `sizes` by name, else small ones, which are printed.
    Raise UserError for a name in `sizes` that no input has.
    """
    check_names([tensor.name for tensor in tensors], values)
    files = {
        tensor.name: read_npy(tensor.name, value[1:])
        for tensor in tensors
        if (value := values.get(tensor.name, "random")).startswith("@")
    }
    known = known_sizes(tensors, files, sizes)
    return {
        tensor.name: files[tensor.name] if tensor.name in files else random_array(tensor.at(known))
        for tensor in tensors
    }


def known_sizes(
    tensors: Sequence[TensorSpec], files: Mapping[str, Array], sizes: Mapping[str, int]
) -> dict[str, int]:
    """Return a number for every dynamic dimension of the inputs, by name; print to stderr those that nobody gave."""
    from ..base.dims import symbols_of
    from ..base.size_queries import solved

    symbols = symbols_of(size for tensor in tensors for size in tensor.shape)
    unknown = sorted(set(sizes) - {symbol.name for symbol in symbols})
    if unknown:
        known = ", ".join(symbol.name for symbol in symbols) or "none"
        raise UserError(
            f"--size names '{unknown[0]}', which is not a dynamic dimension of the model; its dynamic dimensions are "
            f"{known}"
        )
    given = dict(sizes)
    for tensor in tensors:
        shape = files[tensor.name].shape if tensor.name in files else ()
        for size, number in zip(tensor.shape, shape, strict=False):
            if value := solved(size, number):
                given[value[0].name] = value[1]
    assumed = {x.name: _small_size(x, tensors) for x in symbols if x.name not in given}
    if assumed:
        text = ",".join(f"{name}={number}" for name, number in assumed.items())
        print(f"graphc: runs at {text}; --size {text} sets them", file=sys.stderr)
    return assumed | given


def _small_size(symbol: Symbol, tensors: Sequence[TensorSpec]) -> int:
    """Return a size at which a model with this dynamic dimension runs quickly."""
    from ..base.dims import symbols_of

    found = [
        SMALL_BATCH if axis == 0 and len(tensor.shape) > 1
        else SMALL_IMAGE if axis >= 2 and len(tensor.shape) > 3
        else SMALL_LENGTH
        for tensor in tensors
        for axis, size in enumerate(tensor.shape)
        if symbol in symbols_of([size])
    ]  # fmt: skip
    return min(max(min(found, default=SMALL_LENGTH), symbol.least), symbol.most)


def check_names(names: Sequence[str], values: Mapping[str, str]) -> None:
    """Raise UserError if --input names something that is not an input of the model."""
    unknown = sorted(set(values) - set(names))
    if unknown:
        known = ", ".join(names) or "none"
        raise UserError(
            f"--input names '{unknown[0]}', which is not an input of the model; its inputs are {known}"
        )


def random_array(tensor: TensorSpec) -> Array:
    """Typical values for a network: standard normal floats, small integers, random bools; reproducible by name."""
    seed = int.from_bytes(
        hashlib.sha256(tensor.name.encode(errors="surrogatepass")).digest()[:8], "little"
    )
    rng = np.random.default_rng(seed)
    if tensor.dtype.is_float:
        normal = rng.standard_normal(tensor.shape, dtype=np.float32)
        return (normal if tensor.dtype.is_signed else abs(normal)).astype(tensor.dtype.numpy)
    low, high = tensor.dtype.limits
    return rng.integers(max(low, -4), min(high, 4) + 1, tensor.shape).astype(tensor.dtype.numpy)


def read_npy(name: str, path: str) -> Array:
    """Return the array in the .npy file given for the input `name`. May raise UserError."""
    note_source(path)
    try:
        with open(path, "rb", opener=without_waiting) as file:
            array = np.load(file, allow_pickle=False)
    except OSError as error:
        raise unreadable(path, error, f"input '{name}'") from error
    except (ValueError, EOFError) as error:
        raise UserError(
            f"input '{name}': '{path}' is not a .npy file of numbers; write one with numpy.save"
        ) from error
    if not isinstance(array, np.ndarray):
        raise UserError(f"input '{name}': '{path}' holds several arrays; give a .npy file of one")
    return array
