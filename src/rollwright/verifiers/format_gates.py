"""Gates on form: tags each once and in order, sections that must be there, one language throughout."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rollwright.record import NamedValue, Submission, digest
from rollwright.verifiers.errors import VerifierSetupError
from rollwright.verifiers.grading import NO_ANSWER, FunctionVerifier, Grade
from rollwright.verifiers.visible import is_blank

__all__ = ["TagRule", "sections_verifier", "tags_verifier"]

_REVISION = 2
_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:\n[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6}[ \t]+([^\n]*?)[ \t]*#*[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRule:
    """Which tags a turn is made of."""

    tags: tuple[str, ...] = ("think", "answer")
    """Each stands exactly once, opened and closed, in this order, none inside another."""
    outside: str = "blank"
    """`blank`: nothing but blanks stands outside of the tags. `any`: other text may."""

    def __post_init__(self) -> None:
        """Refuse names that are none."""
        if not self.tags or len(set(self.tags)) < len(self.tags) or not all(t.isidentifier() for t in self.tags):
            raise VerifierSetupError(f"tags {self.tags}: give different names, each a word")
        if self.outside not in ("blank", "any"):
            raise VerifierSetupError(f"outside is {self.outside!r}; it is blank or any")


def tags_verifier(rule: TagRule | None = None, *, name: str = "tags") -> FunctionVerifier:
    """1 where the last turn keeps to the tags, each with something in it, else 0; a gate, or shaping with a weight."""
    settings = rule or TagRule()

    def grade(submission: Submission) -> Grade:
        text = _last_turn(submission)
        if is_blank(text):
            return Grade(value=0.0, finding=NO_ANSWER, evidence="nothing was said")
        fault = _tag_fault(text, settings)
        return Grade(value=float(fault is None), evidence=fault or "as asked")

    revision = digest([_REVISION, "tags", name, settings.tags, settings.outside])[:16]
    return FunctionVerifier(name=name, revision=revision, grade=grade)


def sections_verifier(sections: Sequence[str], *, name: str = "sections") -> FunctionVerifier:
    """1 where every section stands once as a heading, in the order given and with text below it, else 0.

    Args:
        sections: titles of headings, letter case aside.
        name: in the tables.
    """
    wanted = [title.casefold().strip() for title in sections]
    if not wanted or not all(wanted) or len(set(wanted)) < len(wanted):
        raise VerifierSetupError(f"sections {list(sections)}: give different titles, none of them empty")

    def grade(submission: Submission) -> Grade:
        text = _last_turn(submission)
        if is_blank(text):
            return Grade(value=0.0, finding=NO_ANSWER, evidence="nothing was said")
        # A line such as `# total` in a program is no heading.
        headings = list(_HEADING.finditer(_FENCED.sub(lambda fenced: " " * len(fenced[0]), text)))
        ends = [*(heading.start() for heading in headings[1:]), len(text)]
        filled = [h[1].casefold() for h, end in zip(headings, ends, strict=False) if not is_blank(text[h.end() : end])]
        found = [title for title in filled if title in wanted]
        present = NamedValue(name="present", value=float(len(set(found))))
        return Grade(value=float(found == wanted), evidence=f"sections {found} of {wanted}", components=(present,))

    return FunctionVerifier(name=name, revision=digest([_REVISION, "sections", name, wanted])[:16], grade=grade)


def _last_turn(submission: Submission) -> str:
    """All that the policy wrote after the world's last word, reasoning included: form is asked of all of it."""
    spoken: list[str] = []
    for passage in submission.passages:
        if passage.kind in ("policy", "reasoning"):
            spoken.append(passage.text)
        else:
            spoken.clear()
    return "".join(spoken)


def _tag_fault(text: str, rule: TagRule) -> str | None:
    place, outside = 0, list[str]()
    for tag in rule.tags:
        opening, closing = f"<{tag}>", f"</{tag}>"
        if text.count(opening) != 1 or text.count(closing) != 1:
            return f"<{tag}> is opened {text.count(opening)} and closed {text.count(closing)} times; each is once"
        start, end = text.index(opening), text.index(closing)
        if start < place or end < start:
            return f"<{tag}> stands out of order"
        if is_blank(text[start + len(opening) : end]):
            return f"<{tag}> is empty"
        outside.append(text[place:start])
        place = end + len(closing)
    outside.append(text[place:])
    if rule.outside == "blank" and "".join(outside).strip():
        return "text stands outside of the tags"
    return None
