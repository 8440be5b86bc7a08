"""Charts: well-formed, self-contained, and honest about gaps and odd data."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zorivest_rpc.embedded.scheduling.charts import KINDS, Series, chart

SVG = "{http://www.w3.org/2000/svg}"


def draw(kind: str, *values: Any, title: str = "") -> ET.Element:
    labels = [f"d{index}" for index in range(len(values[0]))]
    series = [Series(f"s{index}", list(one)) for index, one in enumerate(values)]
    return ET.fromstring(chart(kind, labels, series, title))


def test_a_line_has_one_point_per_value_and_grows_upwards() -> None:
    line = draw("line", [1, 5, 3]).find(f"{SVG}polyline")
    assert line is not None
    heights = [float(pair.split(",")[1]) for pair in line.attrib["points"].split()]
    assert len(heights) == 3
    assert heights[1] < heights[2] < heights[0]  # SVG counts from the top


def test_a_gap_breaks_the_line() -> None:
    assert len(draw("line", [1, 2, None, 4, 5]).findall(f"{SVG}polyline")) == 2
    assert len(draw("line", [1, None, 3]).findall(f"{SVG}circle")) == 2


def test_bars_start_at_zero_and_losses_hang_below() -> None:
    bars = draw("bar", [4, -2]).findall(f"{SVG}rect")[1:]
    gain, loss = ({name: float(bar.attrib[name]) for name in ("y", "height")} for bar in bars)
    assert gain["height"] == pytest.approx(2 * loss["height"], abs=0.3)
    assert loss["y"] == pytest.approx(gain["y"] + gain["height"], abs=0.3)


@pytest.mark.parametrize("values", [[], [None], [float("nan"), "text", True]])
def test_no_numbers_give_a_chart_that_says_so(values: list[Any]) -> None:
    assert "no data" in "".join(draw("line", values).itertext())


def test_text_of_the_data_cannot_become_markup() -> None:
    hostile = '"><script>alert(1)</script><image href="http://evil/">'
    text = chart("bar", [hostile], [Series(hostile, [1.0]), Series("b", [2.0])], hostile)
    tree = ET.fromstring(text)
    assert {element.tag for element in tree.iter()} <= {f"{SVG}{tag}" for tag in ("svg", "rect", "text", "line")}
    assert "<script" not in text


@settings(deadline=None, max_examples=60)
@given(
    kind=st.sampled_from(KINDS),
    values=st.lists(st.one_of(st.none(), st.floats(), st.integers(-(10**400), 10**400)), max_size=30),
)
def test_any_numbers_give_well_formed_svg_with_finite_places(kind: str, values: list[Any]) -> None:
    text = ET.tostring(draw(kind, values)).decode()
    assert "nan" not in text.replace("no data", "")
    assert '"inf' not in text
    assert '"-inf' not in text


def test_the_same_data_gives_the_same_text() -> None:
    assert chart("line", [1, 2], [Series("a", [1.5, 2.5])]) == chart("line", [1, 2], [Series("a", [1.5, 2.5])])
