"""Draws a line or bar chart as one self-contained SVG element: no script, no style sheet, no outside reference.

The same data gives the same text, so a chart does not change a report's hash."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

__all__ = ["KINDS", "Series", "chart"]

KINDS = ("line", "bar")
_COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed")
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 34, 40
_MOST_POINTS = 1000
_MOST_LABELS = 8
_TICKS = 5


class Series(NamedTuple):
    name: str
    values: list[float | None]


class _Scale(NamedTuple):
    """Data values to vertical positions; `low` and `high` are round numbers around the data and zero where near."""

    low: float
    high: float
    step: float
    top: float
    bottom: float

    def at(self, value: float) -> float:
        return self.bottom - (value - self.low) / (self.high - self.low) * (self.bottom - self.top)

    def ticks(self) -> list[float]:
        count = round((self.high - self.low) / self.step)
        return [self.low + self.step * index for index in range(count + 1)]


def chart(
    kind: str, labels: Sequence[Any], series: Sequence[Series], title: str = "", width: int = 640, height: int = 280
) -> str:
    """The SVG element; values that are not finite numbers are gaps."""
    shown = [Series(one.name, [_finite(value) for value in one.values[:_MOST_POINTS]]) for one in series]
    names = [str(label) for label in labels[:_MOST_POINTS]]
    values = [value for one in shown for value in one.values if value is not None]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title or kind, quote=True)}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    if title:
        parts.append(_text(width / 2, 18, title, "middle", size=13))
    if not values:
        parts += [_text(width / 2, height / 2, "no data", "middle"), "</svg>"]
        return "".join(parts)
    scale = _scale(values, kind, _TOP, height - _BOTTOM)
    parts += _grid(scale, width)
    parts += _labels(names, width, height, kind)
    draw = _bars if kind == "bar" else _lines
    parts += draw(shown, len(names), scale, width)
    parts += _legend(shown, height) if len(shown) > 1 else []
    parts.append("</svg>")
    return "".join(parts)


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    if not abs(number) < 1e100:  # nan as well; what no scale can show is a gap
        return None
    return number if abs(number) > 1e-100 else 0.0


def _scale(values: Sequence[float], kind: str, top: float, bottom: float) -> _Scale:
    low, high = min(values), max(values)
    if kind == "bar":
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low <= max(abs(high), abs(low)) * 1e-9:
        spread = abs(high) * 0.1 or 1.0
        low, high = low - spread, high + spread
    raw = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next((factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999), 10 * power)
    return _Scale(math.floor(low / step) * step, math.ceil(high / step) * step, step, top, bottom)


def _grid(scale: _Scale, width: int) -> list[str]:
    parts = []
    for tick in scale.ticks():
        y = scale.at(tick)
        colour = "#9ca3af" if abs(tick) < scale.step / 1000 else "#e5e7eb"
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{width - _RIGHT}" y2="{y:.1f}" stroke="{colour}"/>')
        parts.append(_text(_LEFT - 6, y + 4, _short(tick, scale.step), "end"))
    return parts


def _place(index: int, count: int, width: int, kind: str) -> float:
    room = width - _LEFT - _RIGHT
    if kind == "bar":
        return _LEFT + room * (index + 0.5) / count
    return _LEFT + (room * index / (count - 1) if count > 1 else room / 2)


def _labels(names: Sequence[str], width: int, height: int, kind: str) -> list[str]:
    every = max(1, math.ceil(len(names) / _MOST_LABELS))
    return [
        _text(_place(index, len(names), width, kind), height - _BOTTOM + 16, _cut(name), "middle")
        for index, name in enumerate(names)
        if index % every == 0
    ]


def _lines(series: Sequence[Series], count: int, scale: _Scale, width: int) -> list[str]:
    parts = []
    for number, one in enumerate(series):
        colour = _COLOURS[number % len(_COLOURS)]
        for run in _runs(one.values):
            points = [(_place(index, count, width, "line"), scale.at(value)) for index, value in run]
            if len(points) == 1:
                parts.append(f'<circle cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="3" fill="{colour}"/>')
            else:
                path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
                parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return parts


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """Stretches without a gap."""
    runs: list[list[tuple[int, float]]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((index, value))
    return [run for run in runs if run]


def _bars(series: Sequence[Series], count: int, scale: _Scale, width: int) -> list[str]:
    parts = []
    slot = (width - _LEFT - _RIGHT) / count
    thick = slot * 0.8 / len(series)
    zero = scale.at(min(max(0.0, scale.low), scale.high))
    for number, one in enumerate(series):
        colour = _COLOURS[number % len(_COLOURS)]
        for index, value in enumerate(one.values):
            if value is not None:
                y = scale.at(value)
                x = _LEFT + slot * (index + 0.1) + thick * number
                parts.append(
                    f'<rect x="{x:.1f}" y="{min(y, zero):.1f}" width="{thick:.1f}" height="{abs(y - zero):.1f}" '
                    f'fill="{colour}"/>'
                )
    return parts


def _legend(series: Sequence[Series], height: int) -> list[str]:
    parts = []
    x = float(_LEFT)
    for number, one in enumerate(series):
        colour = _COLOURS[number % len(_COLOURS)]
        parts.append(f'<rect x="{x:.1f}" y="{height - 14}" width="10" height="10" fill="{colour}"/>')
        parts.append(_text(x + 14, height - 5, _cut(one.name), "start"))
        x += 30 + 6.5 * len(_cut(one.name))
    return parts


def _text(x: float, y: float, content: str, anchor: str, size: int = 11) -> str:
    printable = "".join(char for char in content if char >= " ")
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="#374151">'
        f"{escape(printable)}</text>"
    )


def _cut(text: str, most: int = 14) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _short(value: float, step: float) -> str:
    if abs(value) < step / 1000:
        return "0"
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.4g}{unit}"
    return f"{value:.6g}"
