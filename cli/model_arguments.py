"""Arguments shared by several commands, and the inputs a model is run on."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import UserError
from ..base.file_errors import unreadable
from ..base.memory_limit import parse_memory
from ..base.options import LAYOUTS, PRECISIONS, SWITCHES, WINOGRAD, CompileOptions, verify_asked
from ..base.records import dataclass

if TYPE_CHECKING:
    from ..driver.request import CompileRequest
    from ..graph_ir.ir.graph import Graph
    from ..graph_ir.ir.schedule import Schedule
    from ..runtime.metadata import TensorSpec

Array = np.ndarray[Any, Any]
TARGETS = ("native", "avx512", "avx2", "generic")


CHECK_BOUNDS = "check-bounds"
"""The switch (`-X`) for code that checks every access."""


def add_input_argument(parser: argparse.ArgumentParser) -> None:
    """--input, for commands that run a model."""
    parser.add_argument(
        "--input", "-i", action="append", default=[], metavar="NAME=VALUE",
        help="x=@x.npy (a file), x=random, or x=f32[8,13] to fix dimensions that the model leaves open",
    )  # fmt: skip


def add_size_argument(parser: argparse.ArgumentParser) -> None:
    """--size, for commands that run a model whose sizes may be open."""
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=NUMBER",
        help="what sizes that the model leaves open are in this run: B=2,S=37 (default: what cost models assume, 64)",
    )  # fmt: skip


def call_sizes(texts: Sequence[str]) -> dict[str, int]:
    """The numbers that the texts of --size give, by name. UserError for another text."""
    found = {}
    for text in ",".join(texts).split(",") if texts else ():
        name, equals, number = text.partition("=")
        if not (name.strip() and equals and number.isascii() and number.isdigit()):
            raise UserError(f"--size must be NAME=NUMBER, got '{text}'; write B=2,S=37")
        found[name.strip()] = int(number[:18])
    return found


def add_model_argument(parser: argparse.ArgumentParser) -> None:
    """The model file."""
    parser.add_argument(
        "model", help="model file: .onnx, .pnnx.param, HLO text, GE dump, TVM graph JSON"
    )


def add_reading_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for what a model file may omit."""
    add_input_argument(parser)
    parser.add_argument(
        "--const", action="append", default=[], metavar="NAME=@FILE",
        help="a constant that the file omits, as a .npy file; @FILE.params: all constants in that file",
    )  # fmt: skip
    parser.add_argument(
        "--attr", action="append", default=[], metavar="NODE.KEY=VALUE",
        help="an attribute that a fused TVM kernel does not record; NODE may be a pattern, @FILE holds one per line",
    )  # fmt: skip


def add_compile_arguments(parser: argparse.ArgumentParser) -> None:
    """The model file and how to compile it."""
    add_model_argument(parser)
    add_reading_arguments(parser)
    parser.add_argument(
        "--target", choices=TARGETS, default="native", help="instruction set (default: this CPU's)"
    )
    add_threads_argument(parser)
    parser.add_argument(
        "-X", action="append", default=[], metavar="no-SWITCH", dest="switches",
        help=f"leave an optimisation out: {', '.join('no-' + s for s in SWITCHES)}; "
        "or winograd=off, f2 or f4: that form wherever it can run; or layout=blocked: NCHW16c, MK16m16k and similar "
        "wherever they can be; or check-bounds: code that checks every access",
    )  # fmt: skip
    parser.add_argument(
        "--max-memory", metavar="SIZE",
        help="what the model may need to run: 512M, 16G (default: what this process may use)",
    )  # fmt: skip
    parser.add_argument(
        "--precision", choices=PRECISIONS, default="f32",
        help="what products of f32 models are computed in: bf16 or f16 operands, int8, int4 weights (default: f32)",
    )  # fmt: skip
    parser.add_argument(
        "--exact", action="store_true",
        help="turn off optimisations that increase rounding errors (-X winograd=off)",
    )  # fmt: skip


def add_threads_argument(parser: argparse.ArgumentParser) -> None:
    """--threads."""
    parser.add_argument(
        "--threads", type=int, help="number of threads (default: the CPUs this process may use)"
    )


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """How much to print, and in which form."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    volume = parser.add_mutually_exclusive_group()
    volume.add_argument("-v", "--verbose", action="store_true", help="also print every kernel")
    volume.add_argument("-q", "--quiet", action="store_true", help="print only the verdict")


def compile_options(args: argparse.Namespace, dump_dir: str | None = None) -> CompileOptions:
    """The options given by the shared arguments. UserError for an unknown switch."""
    from ..runtime.threadpool import resolve_threads

    disabled, winograd, layout = {"winograd"} if args.exact else set(), "auto", "auto"
    for switch in args.switches:
        if switch == CHECK_BOUNDS:
            continue
        if switch.startswith("winograd="):
            winograd = _value(switch, ("off", *WINOGRAD))
        elif switch.startswith("layout="):
            layout = _value(switch, LAYOUTS)
        elif switch.startswith("no-"):
            disabled.add(switch.removeprefix("no-"))
        else:
            raise UserError(
                f"-X must be no-SWITCH, got '{switch}'; switches are {', '.join(SWITCHES)}"
            )
    if winograd == "off":
        disabled |= {"winograd", "byte-winograd"}
        winograd = "auto"
    folder = Path(dump_dir) if dump_dir else None
    threads = resolve_threads(args.threads)
    memory = parse_memory(args.max_memory) if args.max_memory else None
    return CompileOptions(
        threads, frozenset(disabled), folder, verify_asked(), winograd, memory, args.precision,
        CHECK_BOUNDS in args.switches, layout,
    )  # fmt: skip


def compile_request(
    args: argparse.Namespace, texts: ModelTexts, dump_dir: str | None = None
) -> CompileRequest:
    """What the arguments of a command ask to compile, on one process and without a cache. UserError."""
    from ..codegen.host import target_for
    from ..driver.request import CompileRequest
    from ..driver.tuning import tuned_schedules

    options, target = compile_options(args, dump_dir), target_for(args.target)
    tuned = tuned_schedules(target, options.threads, args.tuning)
    return CompileRequest(
        args.model, target, options, texts.inputs, texts.constants, texts.attrs, tuned,
        asked_schedules(getattr(args, "schedule", None) or ()),
    )  # fmt: skip


def add_schedule_arguments(parser: argparse.ArgumentParser) -> None:
    """--tuning and --schedule."""
    parser.add_argument(
        "--tuning", metavar="FILE", help="measured schedules (default: what `graphc tune` wrote)"
    )
    parser.add_argument(
        "--schedule", action="append", metavar="OP=TEXT",
        help="how an op runs, or a few settings of it: 'fc1=mr=8 nv=3', 'conv1=algorithm=winograd form=f4'",
    )  # fmt: skip


def asked_schedules(texts: Iterable[str]) -> dict[str, Schedule]:
    """`fc1=gemm mr=8 kc=256` of the command line, by op. UserError."""
    from ..graph_ir.ir.schedule import parse_schedule

    found: dict[str, Schedule] = {}
    for text in texts:
        name, equals, settings = text.partition("=")
        if not equals or not name:
            raise UserError(f"--schedule must look like 'fc1=mr=8 kc=256', got '{text}'")
        found[name] = parse_schedule(settings)
    return found


def _value(switch: str, known: Sequence[str]) -> str:
    """What follows the `=` of a switch."""
    name, _, value = switch.partition("=")
    if value not in known:
        raise UserError(f"-X {name} must be one of {', '.join(known)}, got '{value}'")
    return value


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


@dataclass(frozen=True)
class ModelTexts:
    """The command line's arguments for a model file: those of `frontend.load`, and `values` of inputs to run on."""

    inputs: dict[str, str]
    constants: dict[str, Array]
    attrs: dict[str, str]
    values: dict[str, str]


def model_texts(args: argparse.Namespace) -> ModelTexts:
    """Read --input, --const and --attr. UserError naming the text that is malformed."""
    specs, values = split_inputs(args.input)
    constants: dict[str, Array] = {}
    for text in args.const:
        if text.startswith("@"):
            from ..frontend.tvm.params import read_params

            constants.update(read_params(text[1:]))
            continue
        ((name, value),) = pairs("--const", [text], "NAME=@file.npy")
        if not value.startswith("@"):
            raise UserError(f"--const must be NAME=@file.npy, got '{name}={value}'")
        constants[name] = _read_npy(name, value[1:])
    attrs = dict(pairs("--attr", _lines(args.attr), "NODE.KEY=VALUE"))
    return ModelTexts({**shapes_of_files(values), **specs}, constants, attrs, values)


def _lines(texts: Sequence[str]) -> list[str]:
    """The texts, those of a file, `@FILE`, in its place: blank lines and comments (`#`) are left out."""
    found: list[str] = []
    for text in texts:
        if not text.startswith("@"):
            found.append(text)
            continue
        try:
            lines = Path(text[1:]).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise unreadable(text[1:], error, "--attr") from error
        found += [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return found


def read_model(args: argparse.Namespace) -> tuple[Graph, dict[str, str]]:
    """(the graph of the model the command line names, values of its inputs). UserError, UnsupportedError."""
    from ..frontend import load

    texts = model_texts(args)
    return load(args.model, texts.inputs, texts.constants, texts.attrs), texts.values


def pairs(option: str, texts: Sequence[str], form: str) -> list[tuple[str, str]]:
    """(before, after) the first `=` of each text."""
    found = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UserError(f"{option} must be {form}, got '{text}'")
        found.append((name, value))
    return found


def shapes_of_files(values: Mapping[str, str]) -> dict[str, str]:
    """The spec text of every input read from a file, for dimensions that the model leaves open."""
    from ..base.dtypes import from_numpy

    specs = {}
    for name, value in values.items():
        if value.startswith("@"):
            array = _read_npy(name, value[1:])
            specs[name] = f"{from_numpy(array.dtype)}[{','.join(map(str, array.shape))}]"
    return specs


def input_arrays(
    tensors: Sequence[TensorSpec],
    values: Mapping[str, str],
    sizes: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, Array]:
    """An array per input: from its file, or generated with the input's name as seed.

    Open sizes are those of files, else of `sizes` by name, else what cost models assume. UserError for a name in
    `sizes` that no input has.
    """
    check_names([tensor.name for tensor in tensors], values)
    files = {
        tensor.name: _read_npy(tensor.name, value[1:])
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
    """A number for every open size of the inputs, by name."""
    from ..base.dims import symbols_of
    from ..base.size_queries import solved

    symbols = symbols_of(size for tensor in tensors for size in tensor.shape)
    unknown = sorted(set(sizes) - {symbol.name for symbol in symbols})
    if unknown:
        known = ", ".join(symbol.name for symbol in symbols) or "none"
        raise UserError(
            f"--size names '{unknown[0]}', which is no open size of the model; its open sizes are {known}"
        )
    found = {symbol.name: symbol.typical for symbol in symbols} | dict(sizes)
    for tensor in tensors:
        shape = files[tensor.name].shape if tensor.name in files else ()
        for size, number in zip(tensor.shape, shape, strict=False):
            if value := solved(size, number):
                found[value[0].name] = value[1]
    return found


def check_names(names: Sequence[str], values: Mapping[str, str]) -> None:
    """UserError if --input names something that is not an input of the model."""
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


def _read_npy(name: str, path: str) -> Array:
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise unreadable(path, error, f"input '{name}'") from error
    except (ValueError, EOFError) as error:
        raise UserError(
            f"input '{name}': '{path}' is not a .npy file of numbers; write one with numpy.save"
        ) from error
    if not isinstance(array, np.ndarray):
        raise UserError(f"input '{name}': '{path}' holds several arrays; give a .npy file of one")
    return array
