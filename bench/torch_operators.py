"""PyTorch's functions by ONNX operator, and its own compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..frontend.torch.tensors import shared_tensor
from .operators import Function, Program, read_program

ATTENTION = ("Mul", "Transpose", "MatMul", "Softmax", "MatMul")
MASKED = (*ATTENTION[:3], "Add", *ATTENTION[3:])
"""Attention as the lab writes it, which PyTorch has one function for."""


def inductor(module: Any, **options: Any) -> Function:
    """Compile a module by PyTorch's own compiler, with weights frozen. It needs a C++ compiler."""
    import torch

    options = {"freezing": True, **options}
    compiled: Function = torch.compile(module, backend="inductor", dynamic=False, options=options)
    return compiled


def torch_call(model: bytes, threads: int, compiled: bool) -> Function:
    """Return a function of tensors that runs an ONNX model, without gradients. Raise ValueError for what has no
    function."""
    import torch

    program = read_program(model, torch_functions())
    torch.set_num_threads(threads)

    class Model(torch.nn.Module):  # type: ignore[misc]  # PyTorch has no types here
        def __init__(self) -> None:
            super().__init__()
            for number, value in enumerate(program.constants.values()):
                self.register_buffer(f"constant{number}", shared_tensor(value))

        def forward(self, *operands: Any) -> tuple[Any, ...]:
            constants = dict(zip(program.constants, self.buffers(), strict=True))
            return _attention(program, constants, operands) or program.run(constants, operands)

    module: Any = Model().eval()
    if compiled:
        torch._dynamo.reset()
        module = inductor(module)
    with_no_gradients: Function = torch.no_grad()(module)
    return with_no_gradients


def _attention(
    program: Program, constants: Mapping[str, Any], operands: tuple[Any, ...]
) -> tuple[Any, ...] | None:
    """Return the result of PyTorch's own attention, if that is the program."""
    import torch

    ops = tuple(node.op for node in program.nodes)
    if ops not in (ATTENTION, MASKED):
        return None
    values = {**constants, **dict(zip(program.inputs, operands, strict=True))}
    mask = values[program.nodes[3].operands[1]] if ops == MASKED else None
    scale = float(program.constants[program.nodes[0].operands[1]])
    query, key, value = (values[name] for name in "qkv")
    attend = torch.nn.functional.scaled_dot_product_attention
    return (attend(query, key, value, mask, scale=scale),)


def torch_functions() -> dict[str, Function]:
    """Return PyTorch's functions by ONNX operator."""
    import torch
    from torch.nn import functional as f

    def convolution(
        x: Any, w: Any, bias: Any = None, strides: Any = (1,), pads: Any = (0,), dilations: Any = (1,),
        group: int = 1, kernel_shape: Any = (),
    ) -> Any:  # fmt: skip
        half = len(pads) // 2
        if pads[:half] != pads[half:]:
            raise ValueError("PyTorch pads both ends alike")
        call = {3: f.conv1d, 4: f.conv2d, 5: f.conv3d}[x.ndim]
        spatial = x.ndim - 2
        return call(
            x, w, bias, _each(strides, spatial), _each(pads[:half], spatial), _each(dilations, spatial), group
        )  # fmt: skip

    def matmul_integer(a: Any, b: Any) -> Any:
        if a.dtype == torch.int8 and a.ndim == b.ndim == 2:
            return torch._int_mm(a, b)
        return torch.matmul(a.int(), b.int())

    def normalization(
        x: Any, scale: Any, bias: Any = None, axis: int = -1, epsilon: float = 1e-5
    ) -> Any:
        return f.layer_norm(x, x.shape[axis:], scale, bias, epsilon)

    def reduced(function: Callable[..., Any]) -> Function:
        def reduce(x: Any, axes: Any = None, keepdims: int = 1) -> Any:
            return function(x, dim=None if axes is None else axes.tolist(), keepdim=bool(keepdims))

        return reduce

    def gelu(x: Any, approximate: bytes = b"none") -> Any:
        return f.gelu(x, approximate=approximate.decode())

    return {
        "MatMul": torch.matmul, "MatMulInteger": matmul_integer, "Conv": convolution,
        "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Pow": torch.pow,
        "Max": torch.maximum, "Min": torch.minimum, "Exp": torch.exp, "Log": torch.log, "Sqrt": torch.sqrt,
        "Abs": torch.abs, "Neg": torch.neg, "Erf": torch.erf, "Sin": torch.sin, "Cos": torch.cos, "Tanh": torch.tanh,
        "Floor": torch.floor, "Ceil": torch.ceil, "Round": torch.round, "Sign": torch.sign,
        "Reciprocal": torch.reciprocal, "Softplus": f.softplus, "Elu": f.elu, "Mish": f.mish,
        "Relu": torch.relu, "Sigmoid": torch.sigmoid, "HardSwish": f.hardswish, "Gelu": gelu,
        "Softmax": lambda x, axis=-1: torch.softmax(x, axis),
        "LogSoftmax": lambda x, axis=-1: torch.log_softmax(x, axis),
        "LayerNormalization": normalization,
        "Transpose": lambda x, perm: x.permute(perm).contiguous(),
        "ReduceSum": reduced(torch.sum), "ReduceMean": reduced(torch.mean), "ReduceMax": reduced(torch.amax),
        "ArgMax": lambda x, axis=0, keepdims=1: torch.argmax(x, axis, bool(keepdims)),
    }  # fmt: skip


def _each(values: Any, count: int) -> Any:
    return list(values) if len(values) == count else [values[0]] * count
