"""Verifiers by name, for cases and runs that no recipe describes: audits, and scoring anew."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pydantic import ValidationError

from rollwright.recipes.build.verifiers import Closing, build_verifier
from rollwright.recipes.config.verifier_parts import (
    ChoiceVerifierConfig,
    JsonSchemaVerifierConfig,
    LanguageVerifierConfig,
    SectionsVerifierConfig,
    SetVerifierConfig,
    TagsVerifierConfig,
    TextMatchVerifierConfig,
    UnitsVerifierConfig,
    UnitTestsVerifierConfig,
)
from rollwright.recipes.config.world import (
    ExactVerifierConfig,
    FormatVerifierConfig,
    MathVerifierConfig,
    NumericVerifierConfig,
)
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.keys import closest
from rollwright.record import Verifier
from rollwright.verifiers import AnswerRule

__all__ = ["DECIDED_BY_ANSWER", "LABELED_TEXT", "VERIFIER_NAMES", "NamedVerifier", "named_verifier"]

_NamedConfig = (
    ExactVerifierConfig
    | NumericVerifierConfig
    | MathVerifierConfig
    | UnitsVerifierConfig
    | SetVerifierConfig
    | ChoiceVerifierConfig
    | TextMatchVerifierConfig
    | JsonSchemaVerifierConfig
    | UnitTestsVerifierConfig
    | FormatVerifierConfig
    | TagsVerifierConfig
    | SectionsVerifierConfig
    | LanguageVerifierConfig
)
_CONFIGS: Mapping[str, type[_NamedConfig]] = MappingProxyType(
    {
        "exact": ExactVerifierConfig,
        "numeric": NumericVerifierConfig,
        "math": MathVerifierConfig,
        "units": UnitsVerifierConfig,
        "set": SetVerifierConfig,
        "choice": ChoiceVerifierConfig,
        "text_match": TextMatchVerifierConfig,
        "json_schema": JsonSchemaVerifierConfig,
        "unit_tests": UnitTestsVerifierConfig,
        "format": FormatVerifierConfig,
        "tags": TagsVerifierConfig,
        "sections": SectionsVerifierConfig,
        "language": LanguageVerifierConfig,
    }
)
VERIFIER_NAMES: Mapping[str, str] = MappingProxyType(
    {name: (config.__doc__ or "").splitlines()[0] for name, config in _CONFIGS.items()}
)
"""The verifiers that ship: name to what each decides. A recipe has the same names as kinds of its parts."""
DECIDED_BY_ANSWER = frozenset({"exact", "numeric", "math", "units", "set", "choice", "text_match"})
"""Those that hold what was said against a gold answer."""
LABELED_TEXT = AnswerRule(form="free", reasoning="opened_in_output")
"""How a completion is read that no prompt asked a form of: boxes, marked lines, or the whole text, which must agree;
what stands between `<think>` and `</think>` never counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedVerifier:
    """A verifier, and what ends the processes behind it."""

    verifier: Verifier
    close: Callable[[], None]


def named_verifier(name: str, *, rule: AnswerRule = LABELED_TEXT, **options: object) -> NamedVerifier:
    """Make one of the verifiers that ship.

    Args:
        name: one of VERIFIER_NAMES.
        rule: where the answer stands in a final text.
        options: the keys of the part of a recipe of that kind: `tolerance`, `scoring`, `isolation`, …

    Raises:
        RecipeError: for a name or an option that there is not, or where the verifier needs a sandbox and there is none.
    """
    if name not in _CONFIGS:
        near = closest(name, tuple(_CONFIGS), 0.4)
        hint = f" Did you mean {near}?" if near else ""
        raise RecipeError(f"no verifier {name!r}; there are {', '.join(_CONFIGS)}.{hint}")
    try:
        config = _CONFIGS[name].model_validate(options)
    except ValidationError as error:
        keys = sorted(set(_CONFIGS[name].model_fields) - {"kind", "weight", "role"})
        said = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise RecipeError(f"verifier {name} takes {', '.join(keys) or 'no options'}: {said}.") from error
    closers: list[Closing] = []
    verifier = build_verifier(config, rule, closers)

    def close() -> None:
        for closer in closers:
            closer.close()

    return NamedVerifier(verifier=verifier, close=close)
