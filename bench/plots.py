"""Plots as SVG."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

_WIDTH, _LEFT, _RIGHT, _BAR, _GAP, _TOP = 720, 150, 90, 12, 10, 56
_COLOURS = ("#1f6f8b", "#e09f3e", "#9e2a2b", "#7a7a7a")


def bars(title: str, values: Mapping[str, Mapping[str, float]]) -> str:
    """A group of horizontal bars for each row, with one bar for each series that the row has."""
    series = list(dict.fromkeys(name for row in values.values() for name in row))
    largest = max((value for row in values.values() for value in row.values()), default=1.0)
    parts, y = [], _TOP
    for label, row in values.items():
        middle = y + len(row) * _BAR / 2 + 4
        parts.append(f'<text x="{_LEFT - 8}" y="{middle:.0f}" text-anchor="end">{escape(label)}</text>')
        for name, value in row.items():
            length = value / largest * (_WIDTH - _LEFT - _RIGHT)
            colour = _COLOURS[series.index(name) % len(_COLOURS)]
            parts.append(f'<rect x="{_LEFT}" y="{y}" width="{length:.1f}" height="{_BAR - 2}" fill="{colour}"/>')
            parts.append(f'<text x="{_LEFT + length + 4:.1f}" y="{y + _BAR - 3}" class="value">{value:,.0f}</text>')
            y += _BAR
        y += _GAP
    for number, name in enumerate(series):
        x = _LEFT + number * 135
        parts.append(f'<rect x="{x}" y="34" width="10" height="10" fill="{_COLOURS[number % len(_COLOURS)]}"/>')
        parts.append(f'<text x="{x + 14}" y="43">{escape(name)}</text>')
    style = "text{font:12px sans-serif;fill:#222}.value{font-size:10px}.title{font-size:15px;font-weight:bold}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y}" viewBox="0 0 {_WIDTH} {y}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="{_LEFT}" y="22" class="title">{escape(title)}</text>{"".join(parts)}</svg>\n'
    )
