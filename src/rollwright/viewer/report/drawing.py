"""Figures as SVG, the same bytes for the same numbers: no date, no random names, text as text.

Colors are those of Okabe and Ito, told apart with any color vision; dashes and markers tell lines apart in gray print.
"""

# matplotlib leaves its keyword arguments without types.
# pyright: reportUnknownMemberType=false

import io
import math
import re
import warnings
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator
from matplotlib.typing import RcKeyType

from rollwright.viewer.figures import Figure, Mark, Point, Series
from rollwright.viewer.report.escaping import visible

__all__ = ["COLORS", "FACE", "GRID", "INK", "draw_svg"]

INK, GRID, FACE = "#16181d", "#d0d4da", "#fefefd"
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b7280")
_DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
_MARKERS = "osD^vPX"
_HATCHES = ("", "///", "\\\\\\", "xx", "--")
_MOST_MARKERS = 40
"""Points of a line that each get a marker; a single point always has one."""
_LONGEST_NAME = 40

_STYLE: dict[RcKeyType, Any] = {
    "svg.hashsalt": "rollwright",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.useoffset": True,
    "axes.unicode_minus": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "hatch.linewidth": 0.6,
}


def draw_svg(figure: Figure) -> str:
    """One figure, with its axes, units, intervals and how many stand behind each series.

    Args:
        figure: with at least one series.

    Returns:
        An SVG document.
    """
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # The reader's fonts draw the text; ours only measures it, and lacks many scripts.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        canvas = Canvas(figsize=(7.2, 3.3), layout="constrained", facecolor=FACE)
        axes = canvas.add_subplot()
        axes.grid(visible=True, axis="y")
        axes.set_xlabel(visible(figure.x.title))
        axes.set_ylabel(visible(figure.y.title))
        if figure.categories:
            _draw_bars(axes, figure)
        else:
            _draw_lines(axes, figure)
        _bound(axes, figure)
        handles, names = axes.get_legend_handles_labels()
        if handles:
            canvas.legend(handles, names, loc="outside right upper", fontsize=8, frameon=False, handlelength=3.2)
        content = io.BytesIO()
        canvas.savefig(content, format="svg", metadata={"Date": None, "Creator": None, "Title": visible(figure.title)})
    # Only letters name what a drawing refers to, so that several stand in one page.
    return _own_names(content.getvalue().decode("utf-8"), figure.slug)


def _draw_lines(axes: Axes, figure: Figure) -> None:
    for place, series in enumerate(figure.series):
        color = COLORS[place % len(COLORS)]
        xs = [point.x for point in series.points]
        few = len(xs) <= _MOST_MARKERS
        axes.plot(
            xs,
            [_finite(point.value) for point in series.points],
            color=color,
            linestyle=_DASHES[(place // len(COLORS) + place) % len(_DASHES)],
            marker=_MARKERS[place % len(_MARKERS)] if few else "",
            markersize=3.5,
            linewidth=1.4,
            label=_legend(series),
        )
        lows, highs = ([_finite(end) for end in ends] for ends in _ends(series.points))
        if any(not math.isnan(low) for low in lows):
            axes.fill_between(xs, lows, highs, color=color, alpha=0.16, linewidth=0)
            if few:
                axes.vlines(xs, lows, highs, color=color, linewidth=0.8, alpha=0.7)
    for mark in figure.marks:
        axes.axvline(mark.x, color=INK, linewidth=0.8, linestyle=(0, (2, 2)))
        _annotate(axes, mark)
    if not figure.x.unit:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))


def _annotate(axes: Axes, mark: Mark) -> None:
    """The text of a mark, on the side where there is room."""
    left, right = axes.get_xlim()
    is_late = mark.x > left + 0.75 * (right - left)
    axes.annotate(
        _shown(mark.text),
        (mark.x, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(-3 if is_late else 3, -9),
        textcoords="offset points",
        fontsize=7.5,
        horizontalalignment="right" if is_late else "left",
    )


def _bound(axes: Axes, figure: Figure) -> None:
    """Shares are seen from 0, unless some lie below, and at least 0.05 high: equal values fill no axis with nothing."""
    values = [end for series in figure.series for point in series.points for end in (point.value, point.low)]
    if figure.y.unit == "fraction" and min((end for end in values if end is not None), default=0.0) >= 0:
        top = max(axes.get_ylim()[1], 0.05)
        axes.set_ylim(-0.02 * top, top)


def _draw_bars(axes: Axes, figure: Figure) -> None:
    width = 0.8 / len(figure.series)
    for place, series in enumerate(figure.series):
        axes.bar(
            [point.x + (place - (len(figure.series) - 1) / 2) * width for point in series.points],
            [_finite(point.value) for point in series.points],
            width=width,
            color=COLORS[place % len(COLORS)],
            hatch=_HATCHES[place % len(_HATCHES)],
            edgecolor=INK,
            linewidth=0.4,
            label=_legend(series),
        )
    names = [_shown(name) for name in figure.categories]
    is_tight = sum(map(len, names)) > 60
    axes.set_xticks(range(len(names)), names, rotation=30 if is_tight else 0, ha="right" if is_tight else "center")


def _legend(series: Series) -> str:
    counts = sorted({point.num_items for point in series.points if point.num_items and point.value is not None})
    said = "" if not counts else f" (n {counts[0]:,})" if len(counts) == 1 else f" (n {counts[0]:,}–{counts[-1]:,})"
    name = _shown(series.name)
    # A leading underscore would hide a line from its legend.
    return (f" {name}" if name.startswith("_") else name) + said


def _shown(text: str) -> str:
    shown = visible(text)
    return shown if len(shown) <= _LONGEST_NAME else shown[: _LONGEST_NAME - 1] + "…"


def _ends(points: Sequence[Point]) -> tuple[list[float | None], list[float | None]]:
    return [point.low for point in points], [point.high for point in points]


def _finite(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else math.nan


def _own_names(svg: str, slug: str) -> str:
    named = re.sub(r'\bid="([^"]+)"', rf'id="{slug}-\1"', svg)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{slug}-", named)
