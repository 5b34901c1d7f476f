"""Code that a policy writes in its text, between tags, instead of in the arguments of a call (ReTool's form)."""

from dataclasses import dataclass

from rollwright.environments.errors import EnvironmentSetupError

__all__ = ["CodeBlocks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeBlocks:
    """A grammar of blocks and results."""

    opening: str = "<code>"
    closing: str = "</code>"
    result_opening: str = "<interpreter>"
    result_closing: str = "</interpreter>"

    def __post_init__(self) -> None:
        """Refuse tags that are empty or equal."""
        if not self.opening or not self.closing or self.opening == self.closing:
            raise EnvironmentSetupError(f"the tags {self.opening!r} and {self.closing!r} must differ and not be empty")

    def find(self, text: str) -> str | None:
        """The code of the last complete block where nothing but space comes after it; None where there is none.

        A block in the middle of a turn is a quotation: only what a turn ends with is run.
        """
        ended = text.rstrip()
        if not ended.endswith(self.closing):
            return None
        _, opened, code = ended.removesuffix(self.closing).rpartition(self.opening)
        return _plain(code) if opened else None

    def result(self, text: str) -> str:
        """How a result is shown; it cannot close its own tag early."""
        inner = text.replace(self.result_closing, "").replace(self.result_opening, "")
        return f"{self.result_opening}{inner}{self.result_closing}"

    def write(self, code: str) -> str:
        """A block, as a demonstration shows it."""
        return f"{self.opening}{code}{self.closing}"

    def parts(self) -> list[str]:
        """What decides the reading, for a revision."""
        return [self.opening, self.closing, self.result_opening, self.result_closing]


def _plain(code: str) -> str:
    """Without a Markdown fence around it."""
    lines = code.strip("\n").split("\n")
    if lines[0].strip().startswith("```"):
        lines = lines[1:]
        if lines and lines[-1].strip() == "```":
            lines.pop()
    return "\n".join(lines)
