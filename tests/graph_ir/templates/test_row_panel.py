"""Row groups, interpreted: softmax, layer norm, log-softmax as one kernel each."""

import pytest

from support.lowered import build, check_interpreted, context

SHAPES = [(1, 1), (3, 7), (2, 3, 8), (4, 1), (1, 33)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("op_name", ["softmax", "log_softmax"])
def test_softmax_is_one_kernel(op_name: str, shape: tuple[int, ...]) -> None:
    graph = build({"x": shape}, lambda make, x: make(op_name, x["x"], axis=-1))
    lowered = check_interpreted(graph, context(threads=2), exact=False)
    assert len(lowered.calls) == 1


@pytest.mark.parametrize("shape", [(3, 7), (2, 3, 8)])
def test_layer_norm_is_one_kernel(shape: tuple[int, ...]) -> None:
    graph = build(
        {"x": shape, "scale": shape[-1:], "bias": shape[-1:]},
        lambda make, x: make("layer_norm", x["x"], x["scale"], x["bias"], axis=-1, epsilon=1e-5),
    )
    lowered = check_interpreted(graph, context(), exact=False)
    assert len(lowered.calls) == 1


def test_a_group_may_end_in_one_value_per_row() -> None:
    def body(make, x):  # type: ignore[no-untyped-def]
        largest = make("reduce_max", x["x"], axes=(1,), keep_dims=True)
        return make("reduce_sum", make("sub", x["x"], largest), axes=(1,), keep_dims=False)

    lowered = check_interpreted(build({"x": (5, 9)}, body), context())
    assert len(lowered.calls) == 1


def test_what_feeds_the_rows_joins_the_group() -> None:
    graph = build(
        {"x": (4, 9), "mask": (9,)},
        lambda make, x: make("softmax", make("add", x["x"], x["mask"]), axis=-1),
    )
    lowered = check_interpreted(graph, context(), exact=False)
    assert len(lowered.calls) == 1
