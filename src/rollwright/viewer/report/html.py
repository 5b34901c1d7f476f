"""A report as one HTML file that needs nothing else: drawings and style inside, no script, no network."""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import assert_never

from rollwright.viewer.figures import Cell, Figure, Provenance, Table
from rollwright.viewer.report.document import Block, Bullets, Document, Paragraph, Section
from rollwright.viewer.report.drawing import COLORS, FACE, GRID, INK
from rollwright.viewer.report.escaping import cell_text, html_text

__all__ = ["render_html"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_THEMED = {INK: "var(--ink)", GRID: "var(--grid)", FACE: "var(--face)"} | {
    color: f"var(--line-{place})" for place, color in enumerate(COLORS)
}
_DROPPED = (re.compile(r"^.*?(?=<svg)", re.DOTALL), re.compile(r"<metadata>.*?</metadata>", re.DOTALL))


def render_html(document: Document, drawings: Mapping[str, str]) -> str:
    """The page.

    Args:
        document: the report.
        drawings: slug of a figure to its SVG.

    Returns:
        HTML5; text from the run is escaped, and a policy in it forbids scripts and any request.
    """
    style = (files("rollwright.viewer.report") / "report.css").read_text(encoding="utf-8")
    links = "".join(f'<li><a href="#{s.slug}">{html_text(s.title)}</a></li>' for s in document.sections)
    body = "\n".join(_section(section, drawings) for section in document.sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html_text(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html_text(document.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<header><h1>{html_text(document.title)}</h1><p class="subtitle">{html_text(document.subtitle)}</p></header>\n'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n<main>\n{body}\n</main>\n</body>\n</html>\n'
    )


def _section(section: Section, drawings: Mapping[str, str]) -> str:
    blocks = "\n".join(_block(block, drawings) for block in section.blocks)
    title = f"<h2>{html_text(section.title)}</h2>"
    return f'<section id="{section.slug}">\n{title}\n<div class="blocks">\n{blocks}\n</div>\n</section>'


def _block(block: Block, drawings: Mapping[str, str]) -> str:
    match block:
        case Paragraph():
            return f'<p class="wide">{html_text(block.text)}</p>'
        case Bullets():
            items = "".join(f"<li>{html_text(item)}</li>" for item in block.items)
            return f'<ul class="wide">{items}</ul>'
        case Figure():
            drawn = _inline(drawings[block.slug], block.title) if block.series else ""
            said = _said((block.absent, block.note, block.thinned))
            caption = f"<figcaption>{html_text(block.title)}</figcaption>"
            return f'<figure id="{block.slug}">{caption}{drawn}{said}{_provenance(block.provenance)}</figure>'
        case Table():
            table = _table(block.columns, block.rows) if block.rows else ""
            said = _said((block.absent, block.note))
            caption = f"<figcaption>{html_text(block.title)}</figcaption>"
            kind = ' class="wide"' if block.rows else ""
            return f'<figure id="{block.slug}"{kind}>{caption}{table}{said}{_provenance(block.provenance)}</figure>'
        case _:
            assert_never(block)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    head = "".join(f'<th scope="col">{html_text(column)}</th>' for column in columns)
    body = "\n".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _cell(cell: Cell) -> str:
    kind = ' class="number"' if isinstance(cell, int | float) else ""
    return f"<td{kind}>{html_text(cell_text(cell))}</td>"


def _said(texts: Sequence[str]) -> str:
    return "".join(f'<p class="note">{html_text(text)}.</p>' for text in texts if text)


def _provenance(provenance: Provenance) -> str:
    lines = "".join(f"<dt>{html_text(name)}</dt><dd>{html_text(text)}</dd>" for name, text in provenance.lines())
    brief = f"{provenance.protocol} · steps {provenance.steps} · interval {provenance.interval}"
    return f"<details><summary>{html_text(brief)}</summary><dl>{lines}</dl></details>"


def _inline(svg: str, title: str) -> str:
    """A drawing inside the page, in the colors of its theme."""
    for pattern in _DROPPED:
        svg = pattern.sub("", svg, count=1)
    for color, variable in _THEMED.items():
        svg = svg.replace(color, variable)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html_text(title)}" ', 1)
