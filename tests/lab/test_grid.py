"""Sweeps: grids as text, what each point gives, and the picture of them."""

from __future__ import annotations

import xml.etree.ElementTree as xml

import pytest

from graphc.base.errors import UserError
from graphc.bench.measure import Timing
from graphc.lab.grid import Point, offered, points_of, read_grid, sweep
from graphc.lab.heat_map import heat_map, html, svg, text_lines
from graphc.lab.read import read_problem
from graphc.lab.trial import Bench
from graphc.targets.microkernels import f32_tiles
from support.isa import host_target


def quiet(_: str, __: int, ___: int) -> None:
    pass


def test_a_grid_is_values_and_ranges() -> None:
    grid = read_grid("mr=4..8..2,kc=128,256, b=panels")
    assert grid == {"mr": [4, 6, 8], "kc": [128, 256], "b": ["panels"]}
    assert points_of(grid)[1] == {"mr": 4, "kc": 256, "b": "panels"} and len(points_of(grid)) == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [("4", "got '4'"), ("mr=", "got 'mr='"), ("mr=4..", "got 'mr=4..'"), ("a=1..99,b=1..99", "at most 2000 points")],
)  # fmt: skip
def test_a_wrong_grid_is_shown(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_grid(text)


@pytest.mark.isa("avx2", "fma")
def test_points_are_measured_predicted_or_refused() -> None:
    bench = Bench(host_target("avx2"), 1, seconds=0.002)
    grid = read_grid("mr=2,4,40,nv=2")
    found = sweep(read_problem("matmul m24n32k16"), bench, points_of(grid), quiet)
    ran = [point for point in found if not point.refused]
    assert [point.settings["mr"] for point in ran] == [2, 4]
    assert all(point.predicted and point.timing and "tensorize" in point.schedule for point in ran)
    assert all(sum("vfmadd" in line for line in point.loop.lines) >= 4 for point in ran)
    assert "mr x nv must be at most 64" in found[2].refused


@pytest.mark.isa("avx2", "fma")
def test_all_schedules_have_tiles_that_no_table_lists() -> None:
    bench = Bench(host_target("avx2"), 1)
    found = offered(read_problem("matmul m64n64k64"), bench)
    tiles = {(point["mr"], point["nv"]) for point in found}
    assert {(x.rows, x.vectors) for x in f32_tiles(bench.target)} < tiles and len(tiles) > 8


def test_packed_weights_have_no_panels_to_choose() -> None:
    assert offered(read_problem("matmul m2n64k256 q4_k"), Bench(host_target("avx2"), 1))


def test_the_picture_shows_speed_and_refusals() -> None:
    def timed(seconds: float, **settings: int) -> Point:
        return Point(settings, "x", Timing(seconds, seconds, 1), 5.0)

    points = [
        timed(1.0, mr=4, kc=8),
        timed(4.0, mr=4, kc=16),
        timed(2.0, mr=8, kc=8),
        Point({"mr": 8, "kc": 16}, refused="no"),
    ]
    found = heat_map("a <problem>", points)
    assert [line.strip() for line in text_lines(found)] == [
        "kc   8  16",
        "mr=4 ███ ░░░",
        "mr=8 ▒▒▒ ···",
    ]
    picture = xml.fromstring(svg(found))
    assert "a <problem>" in "".join(picture.itertext()) and "refused" in "".join(picture.itertext())
    assert html(found).startswith("<!doctype html>")
    with pytest.raises(UserError, match="the first as no; choose other values"):
        heat_map("x", points[3:])
