"""A report before it is written: sections of sentences, figures and tables, the same for Markdown and HTML."""

from dataclasses import dataclass

from rollwright.viewer.figures import Figure, Table

__all__ = ["Block", "Bullets", "Document", "Paragraph", "Section"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """Sentences; plain text, whatever it holds."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bullets:
    """One item a line; plain text."""

    items: tuple[str, ...]


Block = Paragraph | Bullets | Figure | Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading and what stands under it."""

    slug: str
    """Its anchor: a-z, 0-9 and hyphens."""
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The whole report."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All that are to be drawn, in order."""
        return tuple(
            block for section in self.sections for block in section.blocks if isinstance(block, Figure) and block.series
        )
