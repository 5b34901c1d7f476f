"""The program in a final text: its last fenced block, or the whole text where nothing is fenced."""

import re

__all__ = ["final_code"]

_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([\w+#.-]*)[^\n]*$", re.MULTILINE)
_NAMES = {
    "python": ("", "python", "py", "python3", "py3"),
    "sh": ("", "sh", "bash", "shell"),
    "cpp": ("", "cpp", "c++", "cc", "cxx"),
}


def final_code(text: str, language: str) -> str | None:
    """The code that an answer gives, None where it gives none.

    Args:
        text: what was said at the end.
        language: one of python, sh, cpp; blocks in other languages do not count.

    Returns:
        The last complete block of the language. A block that was opened and never closed is no program, and text with
        blocks of other languages alone has none.
    """
    blocks, opened = list[tuple[str, str]](), None
    for match in _FENCE.finditer(text):
        if opened is None:
            opened = match
        elif match[1].startswith(opened[1]) and not match[2]:
            blocks.append((opened[2].lower(), text[opened.end() + 1 : match.start()]))
            opened = None
    if opened is not None:
        return None
    if not blocks:
        return text if text.strip() else None
    wanted = [code for name, code in blocks if name in _NAMES.get(language, ("", language))]
    return wanted[-1] if wanted and wanted[-1].strip() else None
