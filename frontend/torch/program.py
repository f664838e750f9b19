"""Exported programs: from an object, a `.pt2` file or its bytes, with what graphc does not read decomposed."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...base.errors import UnsupportedError, UserError
from ...base.file_errors import unreadable
from .fx_reader import reader_of


def open_program(source: Any) -> Any:
    """The ExportedProgram of a path, of bytes, or itself. Raise UserError if torch or the file cannot be had."""
    if not isinstance(source, (str, Path, bytes)):
        return source
    name = "a .pt2 file" if isinstance(source, bytes) else f"'{source}'"
    if not isinstance(source, bytes):
        try:
            Path(source).open("rb").close()
        except OSError as error:
            raise unreadable(source, error) from error
    try:
        import torch
    except ImportError as error:
        raise UserError(
            f"{name} can only be read where torch is installed, which is missing here; pip install torch"
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with suppress(ImportError):  # registers what PyTorch's quantization writes
                import torch.ao.quantization.fx._decomposed
            return torch.export.load(io.BytesIO(source) if isinstance(source, bytes) else source)
    except ModuleNotFoundError as error:  # of a tensor's own type, such as torchao's
        raise UserError(
            f"{name} can only be read where the package '{error.name}' is installed, whose tensors it has; "
            f"install '{error.name}'"
        ) from error
    except Exception as error:
        text = f"{error}".splitlines()[0] if f"{error}" else type(error).__name__
        raise UserError(
            f"{name} is not a program that torch.export.load reads: {text}; "
            "write it again with torch.export.save in this version of PyTorch"
        ) from error


def decomposed(program: Any, own: Mapping[Any, Any] = MappingProxyType({})) -> Any:
    """The program in operators that graphc reads, as far as PyTorch expresses others by them, without mutations.

    `own`: the user's decompositions, by operator, which come before PyTorch's.
    """
    calls = [
        node.target
        for part in program.graph_module.modules()
        if hasattr(part, "graph")
        for node in part.graph.nodes
        if node.op == "call_function"
    ]
    mutates = any(getattr(getattr(f, "_schema", None), "is_mutable", False) for f in calls)
    if not mutates and all(reader_of(target) and target not in own for target in calls):
        return program
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = program.run_decompositions({**_table_of_programs(), **own})
            found._guards_code = guards_of(program)  # files do not tell it what they follow from
            return found
        except Exception as error:
            raise not_captured(error) from error


def guards_of(program: Any) -> list[str]:
    """Return the conditions on sizes that a program was traced under, which old versions of PyTorch do not keep."""
    return list(getattr(program, "_guards_code", ()))


def not_captured(error: Exception) -> UnsupportedError:
    """Return the UnsupportedError for an error of torch.export."""
    text = f"{error}".strip().splitlines()[0] if f"{error}".strip() else type(error).__name__
    return UnsupportedError(
        f"torch.export cannot capture this as a whole ({type(error).__name__}: {text})",
        "torch.compile(model, backend='graphc') leaves such parts to PyTorch",
    )


def mutated_states(program: Any) -> set[str]:
    """The names of parameters and buffers that a program writes to."""
    signature = program.graph_signature
    return {*signature.buffers_to_mutate.values(), *signature.parameters_to_mutate.values()}


@cache
def decomposition_table() -> dict[Any, Any]:
    """PyTorch's decompositions of operators that graphc does not read, but composites, which tracing takes apart."""
    from torch._decomp import global_decomposition_table

    return _unread(global_decomposition_table["post_autograd"]) | _own()


def _own() -> dict[Any, Any]:
    """Rules that PyTorch does not have, or has wrong."""
    import torch

    return {
        torch.ops.aten.mkldnn_rnn_layer.default: _lstm_layer,
        torch.ops.aten.multilabel_margin_loss_forward.default: _multilabel_margin_loss,
    }


def _lstm_layer(
    x: Any, w: Any, r: Any, b: Any, rb: Any, h: Any, c: Any, is_reverse: bool, *rest: Any
) -> Any:
    """The steps of an LSTM in one direction, which PyTorch has a kernel for and no rule; the last result is nothing."""
    from torch._decomp.decompositions import one_layer_lstm

    y, (h_n, c_n) = one_layer_lstm(x, (h[0], c[0]), (w, r, b, rb), rest[4], is_reverse)
    return y, h_n.unsqueeze(0), c_n.unsqueeze(0), x.new_empty(0)


def _multilabel_margin_loss(x: Any, target: Any, reduction: int) -> Any:
    """The loss of each pair of a label and another class, and which classes are labels: those before the first -1, of
    which PyTorch's own rule takes the others for the class 0."""
    import torch

    width = x.shape[-1]
    listed = (target == -1).cumsum(-1) == 0
    labels = torch.where(listed, target, width).unsqueeze(-1) == torch.arange(width)
    is_label = labels.any(-2)
    score = x.gather(-1, torch.where(listed, target, 0)).unsqueeze(-1)
    terms = (1 - score + x.unsqueeze(-2)).clamp_min(0)
    counts = listed.unsqueeze(-1) & ~is_label.unsqueeze(-2)
    loss = torch.where(counts, terms, 0).sum((-2, -1)) / width
    return (loss, loss.mean(), loss.sum())[reduction], is_label.to(x.dtype)


@cache
def _table_of_programs() -> dict[Any, Any]:
    """The same with composites, which programs keep. Some 0.1 s."""
    import torch

    composites = _unread(dict(torch.export.default_decompositions().items()))
    return decomposition_table() | composites | _own()


def _unread(table: Mapping[Any, Any]) -> dict[Any, Any]:
    return {target: rule for target, rule in table.items() if reader_of(target) is None}
