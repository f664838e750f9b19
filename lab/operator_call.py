"""A problem that is a call of an ONNX operator: `Softmax(f32[8, 128], axis=-1)`, in the syntax of `bench.one_op`."""

from __future__ import annotations

from ..base.dtypes import from_numpy
from ..base.errors import InternalError, UserError
from ..bench.one_op import one_op_case
from ..bench.operands import Operand
from .problem import Problem


def operator_call(text: str) -> Problem:
    """Return the problem of a call. Raise UserError if it is none, or the operator does not take these operands."""
    from onnx.shape_inference import InferenceError

    try:
        case = one_op_case(text, text)
    except (SyntaxError, ValueError, TypeError, KeyError, InternalError, InferenceError) as error:
        why = str(error).strip().splitlines()[0]
        raise UserError(
            f"problem '{text}' is not a call of an ONNX operator, {why}; write it like Softmax(f32[8, 128], axis=-1)"
        ) from error
    operands = {
        name: Operand(from_numpy(array.dtype), array.shape) for name, array in case.given.items()
    }
    operations = round((case.op_gflop or 0) * 1e9)
    multiplied = next(iter(operands.values())).dtype.name if operands else "f32"
    model = case.onnx()
    return Problem(text, model, operands, operations, "op", multiplied, given=case.given)
