"""Results lie where PyTorch has them: those that are views of one another there are so here."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import pytest

import graphc
from graphc.integrations.torch_backend import backend
from support.dynamo import fresh, torch  # noqa: F401

CHANNELS_LAST = torch.channels_last
PAIRS = {
    "itself and all of it": lambda y: (y, y.view(-1)),
    "a part and the whole": lambda y: (y[1:], y),
    "parts that overlap": lambda y: (y[1:3], y[:2]),
    "columns of one": lambda y: (y[:, :2], y[:, 2:]),
    "rows of one": lambda y: (y[:2], y[2:]),
    "transposed": lambda y: (y.t(), y),
    "one element, often": lambda y: (y[:, None].expand(-1, 3, 4), y + 1),
    "windows": lambda y: (y.unfold(1, 3, 1), y),
    "channels last": lambda y: (y.view(-1, 2, 1, 2).contiguous(memory_format=CHANNELS_LAST), y + 1),
    "nothing": lambda y: (y[:0], y),
    "twice": lambda y: (y, y),
}


def results(x: Any) -> list[Any]:
    """Pairs that are made of one value each, which no input holds."""
    return [y for i, pair in enumerate(PAIRS.values()) for y in pair(x * (i + 2))]


def by_dynamo(x: Any, **options: Any) -> Any:
    return torch.compile(results, backend=backend, options=options)(x)


DOORS = {
    "dynamo": by_dynamo,
    "aot": lambda x: by_dynamo(x, aot_autograd=True),
    "module": lambda x: graphc.torch.compile(results, x)(x),
    "open module": lambda x: graphc.torch.compile(
        results, torch.ones(6, 4), dynamic={"x": {0: torch.export.Dim("rows", min=4, max=64)}}
    )(x),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("door", DOORS)
def test_a_write_to_one_is_seen_in_the_other(door: str) -> None:
    x = torch.arange(16.0).reshape(4, 4)
    expected = results(x)
    found = DOORS[door](x)
    for written in (*expected[1::2], *found[1::2]):
        written -= 100
    for a, b in zip(expected, found, strict=True):
        assert torch.equal(a, b) and a.stride() == b.stride()


def test_views_of_dynamic_sizes() -> None:
    compiled = torch.compile(
        lambda x: PAIRS["a part and the whole"](x * 2), backend=backend, dynamic=True
    )
    for rows in (3, 5):
        part, whole = compiled(torch.ones(rows, 2))
        whole[1] = 7
        assert part[0].tolist() == [7, 7] and part.shape == (rows - 1, 2)


class Writing(torch.nn.Module):
    """Returns its inputs, views of them and tensors it wrote to, and a buffer it owns."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(3, 4))

    def forward(self, x: Any, z: Any) -> Any:
        self.rows.index_copy_(0, torch.tensor([1]), x[:1] * 2)
        first = z[0]
        z.add_(1)
        return (
            x,
            x.view(-1)[1:],
            x.reshape(4, -1),
            first,
            z,
            self.rows,
            self.rows[1:].t(),
            x.t() + 1,
        )


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_inputs_and_buffers_come_back_as_they_are(is_dynamic: bool) -> None:
    module, given = Writing(), (torch.rand(2, 4), torch.rand(5, 4))
    dynamic = ({0: torch.export.Dim.AUTO}, {0: torch.export.Dim.AUTO}) if is_dynamic else None
    fast = pickle.loads(pickle.dumps(graphc.torch.compile(Writing(), *given, dynamic=dynamic)))
    if is_dynamic:
        given = torch.rand(6, 4), torch.rand(3, 4)
    for _ in range(2):
        mine = [x.clone() for x in given]
        pairs = [
            (module(*given), fast(*mine)),
            (given, mine),
            ([module.rows], [*fast.states.values()]),
        ]
        for x in (pairs[0][0][2], pairs[0][1][2]):
            x[0] = 7  # x, by a view of it
        expected, found = ([x for pair in pairs for x in pair[i]] for i in (0, 1))
        for a, b in zip(expected, found, strict=True):
            torch.testing.assert_close(a, b, check_stride=True)
        for i, j in itertools.combinations(range(len(found)), 2):
            shared = [
                x[i].untyped_storage()._cdata == x[j].untyped_storage()._cdata
                for x in (expected, found)
            ]
            assert shared[0] == shared[1], (i, j)


def test_other_strides_of_inputs() -> None:
    fast = graphc.torch.compile(Writing(), torch.rand(2, 4), torch.rand(5, 4))
    x, z = torch.rand(4, 2).t(), torch.rand(5, 8)[:, ::2]
    expected = Writing()(x.clone(memory_format=torch.contiguous_format), z.clone())
    found = fast(x, z)
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(a, b)
    assert found[0] is x and found[4] is z


def test_what_is_written_to_must_be_apart() -> None:
    fast = graphc.torch.compile(Writing(), torch.rand(2, 4), torch.rand(5, 4))
    both = torch.rand(7, 8)
    fast(both[:2, :4], both[2:, ::2])
    fast(both[:2, 1::2], both[:5, ::2])  # the same range, other elements
    with pytest.raises(
        graphc.UserError, match="'z', which the module writes to, shares memory with 'x'"
    ):
        fast(both[:2, ::2], both[:5, ::2])
    with pytest.raises(
        graphc.UserError, match="'b_rows', which the module writes to, shares memory with 'z'"
    ):
        fast(both[:2, :4], fast.states["rows"].as_strided((5, 4), (0, 1)))


def test_a_counted_result_is_strided_by_its_count() -> None:
    """PyTorch writes the columns of nonzero one after another, as many as a run counts."""

    def found(x: Any) -> Any:
        return (x > 0).nonzero(), x[x[:, 0] > 0].t()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(found, backend=backend, dynamic=True)
        for rows in (3, 17, 1, 5):
            x = torch.randn(rows, 4, generator=torch.Generator().manual_seed(rows))
            for a, b in zip(found(x), compiled(x), strict=True):
                assert torch.equal(a, b) and a.stride() == b.stride()
