"""The answer keeps to one language: by script where the script tells, by common words where several share one."""

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from rollwright.record import NamedValue, Submission, digest
from rollwright.verifiers.errors import VerifierSetupError
from rollwright.verifiers.grading import NO_ANSWER, FunctionVerifier, Grade, gold_payload

__all__ = ["LANGUAGES", "LanguageRule", "language_share", "language_verifier"]

_REVISION = 1
_MAX_CHARACTERS = 200_000
_SCRIPT_OF = {
    "zh": ("CJK",),
    "ja": ("CJK", "HIRAGANA", "KATAKANA"),
    "ko": ("HANGUL",),
    "ru": ("CYRILLIC",),
    "el": ("GREEK",),
    "ar": ("ARABIC",),
    "he": ("HEBREW",),
    "hi": ("DEVANAGARI",),
    "th": ("THAI",),
}
_COMMON_WORDS = {
    "en": "the of and to in is that it for was with as are be this by not or from we so have which then if but",
    "de": "der die das und ist nicht ein eine zu den von mit sich auf im auch wir dann also wenn oder aber sind wird",
    "fr": "le la les et est un une des du que qui dans pour pas sur avec nous donc ce cette sont ou mais alors si",
    "es": "el la los las y es un una de del que en por para con no se como pero entonces si son nos esta lo",
    "it": "il la gli e di che un una per con non si sono ma quindi se come della nel anche allora questo lo",
    "pt": "o a os as e de que um uma em para com se mas como por entao ou do da no na isso",
}
LANGUAGES = (*_COMMON_WORDS, *_SCRIPT_OF)
"""Codes of the languages that can be told apart."""
_MARKUP = re.compile(r"```.*?```|\$\$.*?\$\$|\$[^$\n]*\$|\\[A-Za-z]+|<[^<>\n]*>|https?://\S+", re.DOTALL)
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageRule:
    """Which language, and how strictly."""

    language: str = "en"
    """One of LANGUAGES; a task may state its own as `info.language`."""
    least_share: float = 0.9
    """Of the letters that are in the language's script, and of the common words that are the language's."""
    pays: Literal["threshold", "share"] = "threshold"
    """`threshold`: 1 or 0. `share`: the share itself, as R1 pays it."""

    def __post_init__(self) -> None:
        """Refuse languages that cannot be told."""
        if self.language not in LANGUAGES or not 0 < self.least_share <= 1:
            raise VerifierSetupError(
                f"language {self.language!r} with least_share {self.least_share}: languages are "
                f"{', '.join(LANGUAGES)}, and the share is in (0, 1]"
            )


def language_verifier(rule: LanguageRule | None = None, *, name: str = "language") -> FunctionVerifier:
    """What share of what the policy wrote, reasoning included, is in the asked language; code and formulas aside."""
    settings = rule or LanguageRule()

    def grade(submission: Submission) -> Grade:
        text = "\n".join(p.text for p in submission.passages if p.kind in ("policy", "reasoning"))
        if not text.strip():
            return Grade(value=0.0, finding=NO_ANSWER, evidence="nothing was said")
        asked = gold_payload(submission).text("language", settings.language)
        if asked not in LANGUAGES:
            asked = settings.language
        share = language_share(text, asked)
        value = share if settings.pays == "share" else float(share >= settings.least_share)
        components = (NamedValue(name="share", value=share),)
        return Grade(value=value, evidence=f"{share:.3f} of it is {asked}", components=components)

    parts = [_REVISION, name, settings.language, settings.least_share, settings.pays]
    return FunctionVerifier(name=name, revision=digest(parts)[:16], grade=grade)


def language_share(text: str, language: str) -> float:
    """How much of a text is in a language, from 0 to 1; a text without words is 1: nothing in it is foreign.

    Args:
        text: of any length; its beginning is read.
        language: one of LANGUAGES.

    Returns:
        The share of letters in its script, times, for languages in Latin script, the share that its common words have
        of all common words that only some of these languages use.
    """
    plain = _MARKUP.sub(" ", text[:_MAX_CHARACTERS])
    words = [word for word in _WORD.findall(plain) if len(word) > 1 or not word.isascii()]
    scripts = Counter(_script(letter) for word in words for letter in word)
    total = sum(scripts.values())
    if not total:
        return 1.0
    wanted = _SCRIPT_OF.get(language, ("LATIN",))
    share = sum(scripts[name] for name in wanted) / total
    if language == "ja" and not scripts["HIRAGANA"] + scripts["KATAKANA"]:
        return 0.0  # Characters alone are Chinese.
    if language == "zh" and scripts["HIRAGANA"] + scripts["KATAKANA"] > scripts["CJK"] / 10:
        return 0.0
    return share * _word_share(words, language) if language in _COMMON_WORDS else share


def _word_share(words: list[str], language: str) -> float:
    own = set(_COMMON_WORDS[language].split())
    others = {word for code, listed in _COMMON_WORDS.items() if code != language for word in listed.split()} - own
    folded = [_folded(word) for word in words]
    ours, theirs = sum(word in own for word in folded), sum(word in others for word in folded)
    return ours / (ours + theirs) if ours + theirs else 1.0


def _folded(word: str) -> str:
    decomposed = unicodedata.normalize("NFD", word.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def _script(letter: str) -> str:
    return unicodedata.name(letter, "UNKNOWN").split(" ")[0].split("-")[0]
