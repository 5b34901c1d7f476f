"""A report as Markdown, its figures as SVG files beside it."""

from collections.abc import Sequence
from typing import assert_never

from rollwright.viewer.figures import Cell, Figure, Provenance, Table
from rollwright.viewer.report.document import Block, Bullets, Document, Paragraph, Section
from rollwright.viewer.report.escaping import cell_text, markdown_text

__all__ = ["render_markdown"]


def render_markdown(document: Document, folder: str) -> str:
    """The text of the report.

    Args:
        document: the report.
        folder: of the drawings, seen from the Markdown file; each is named by its figure's slug.

    Returns:
        GitHub's Markdown; text from the run is escaped.
    """
    parts = [f"# {markdown_text(document.title)}", markdown_text(document.subtitle)]
    parts += ["\n".join(f"- [{markdown_text(s.title)}](#{s.slug})" for s in document.sections)]
    for section in document.sections:
        parts += _section(section, folder)
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(section: Section, folder: str) -> list[str]:
    found = [f'<a id="{section.slug}"></a>\n\n## {markdown_text(section.title)}']
    for block in section.blocks:
        found += _block(block, folder)
    return found


def _block(block: Block, folder: str) -> list[str]:
    match block:
        case Paragraph():
            return [markdown_text(block.text)]
        case Bullets():
            return ["\n".join(f"- {markdown_text(item)}" for item in block.items)]
        case Figure():
            title = markdown_text(block.title)
            drawn = f"![{title}]({folder}/{block.slug}.svg)" if block.series else ""
            said = [markdown_text(text) for text in (block.absent, block.note, block.thinned) if text]
            return [f"### {title}", drawn, *(f"{text}." for text in said), _provenance(block.provenance)]
        case Table():
            said = [markdown_text(text) for text in (block.absent, block.note) if text]
            table = _table(block.columns, block.rows) if block.rows else ""
            return [
                f"### {markdown_text(block.title)}",
                table,
                *(f"{text}." for text in said),
                _provenance(block.provenance),
            ]
        case _:
            assert_never(block)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    head = "| " + " | ".join(markdown_text(column) for column in columns) + " |"
    rule = "|" + "|".join("---:" if _is_number(rows, place) else "---" for place in range(len(columns))) + "|"
    body = ["| " + " | ".join(markdown_text(cell_text(cell)) for cell in row) + " |" for row in rows]
    return "\n".join((head, rule, *body))


def _is_number(rows: Sequence[Sequence[Cell]], place: int) -> bool:
    return any(isinstance(row[place], int | float) for row in rows)


def _provenance(provenance: Provenance) -> str:
    said = "; ".join(f"{name}: {markdown_text(text)}" for name, text in provenance.lines())
    return f"<sub>Where this comes from. {said}</sub>"
