"""From the configuration of answer, program and form verifiers to verifiers."""

from typing import assert_never, cast

from rollwright.recipes.build.judges import Closing
from rollwright.recipes.build.named import load_named
from rollwright.recipes.config.verifier_parts import (
    ChoiceVerifierConfig,
    FunctionVerifierConfig,
    JsonSchemaVerifierConfig,
    LanguageVerifierConfig,
    SectionsVerifierConfig,
    SetVerifierConfig,
    TagsVerifierConfig,
    TextMatchVerifierConfig,
    UnitsVerifierConfig,
    UnitTestsVerifierConfig,
)
from rollwright.recipes.errors import RecipeError
from rollwright.record import Verifier
from rollwright.sandboxes import SandboxProfile, SandboxSetupError, open_sandboxes
from rollwright.verifiers import (
    AnswerRule,
    LanguageRule,
    SetRule,
    TagRule,
    ThreadedVerifier,
    UnitsRule,
    UnitTestRule,
    UnitTestVerifier,
    VerifierSetupError,
    choice_verifier,
    json_schema_verifier,
    language_verifier,
    reward_function_verifier,
    sections_verifier,
    set_verifier,
    tags_verifier,
    units_verifier,
)
from rollwright.verifiers.program_running import PRELOADED
from rollwright.verifiers.text_match import TextMatchRule, text_match_verifier

__all__ = ["AnyPartConfig", "FormConfig", "build_part"]

_AnswerConfig = (
    UnitsVerifierConfig | SetVerifierConfig | ChoiceVerifierConfig | TextMatchVerifierConfig | JsonSchemaVerifierConfig
)
FormConfig = TagsVerifierConfig | SectionsVerifierConfig | LanguageVerifierConfig
"""Those that have a role of their own."""
AnyPartConfig = _AnswerConfig | FormConfig | UnitTestsVerifierConfig | FunctionVerifierConfig


def build_part(config: AnyPartConfig, rule: AnswerRule, closers: list[Closing]) -> Verifier:
    """The verifier of one part.

    Args:
        config: of the part.
        rule: where answers stand.
        closers: gets what must be closed after the verifier.

    Raises:
        RecipeError: where its sandboxes cannot be had, or its function cannot be bound.
    """
    match config:
        case UnitTestsVerifierConfig():
            return _unit_tests(config, rule, closers)
        case FunctionVerifierConfig():
            return _function(config)
        case TagsVerifierConfig() | SectionsVerifierConfig() | LanguageVerifierConfig():
            return _form(config)
        case _:
            return _answer(config, rule)


def _answer(config: _AnswerConfig, rule: AnswerRule) -> Verifier:
    match config:
        case UnitsVerifierConfig():
            return units_verifier(rule, UnitsRule(tolerance=config.tolerance))
        case SetVerifierConfig():
            return set_verifier(rule, SetRule(order=config.order, duplicates=config.duplicates))
        case ChoiceVerifierConfig():
            return choice_verifier(rule)
        case TextMatchVerifierConfig():
            return text_match_verifier(TextMatchRule(metric=config.metric, answer=rule, answer_tag=config.answer_tag))
        case JsonSchemaVerifierConfig():
            return json_schema_verifier(rule)
        case _:
            assert_never(config)


def _form(config: FormConfig) -> Verifier:
    match config:
        case TagsVerifierConfig():
            return tags_verifier(TagRule(tags=config.tags, outside=config.outside))
        case SectionsVerifierConfig():
            return sections_verifier(config.sections)
        case LanguageVerifierConfig():
            return language_verifier(
                LanguageRule(language=config.language, least_share=config.least_share, pays=config.pays)
            )
        case _:
            assert_never(config)


def _unit_tests(config: UnitTestsVerifierConfig, rule: AnswerRule, closers: list[Closing]) -> Verifier:
    try:
        sandboxes = open_sandboxes(SandboxProfile(isolation=config.isolation, preload=PRELOADED))
    except SandboxSetupError as error:
        raise RecipeError(f"verifier unit_tests runs programs, and there is no sandbox for them: {error}") from error
    closers.append(sandboxes)
    tests = UnitTestRule(scoring=config.scoring, repeats=config.repeats, suite_s=config.suite_s)
    return UnitTestVerifier(rule=rule, sandboxes=sandboxes, tests=tests)


def _function(config: FunctionVerifierConfig) -> Verifier:
    """In a thread: it comes from outside, and may block."""
    function = load_named(config.path)
    if not callable(function):
        raise RecipeError(f"{config.path!r} is a {type(function).__name__}; name a function.")
    try:
        bound = reward_function_verifier(function, text=config.text, scope=config.scope)
    except VerifierSetupError as error:
        raise RecipeError(f"{config.path!r} cannot be bound: {error}.") from error
    return ThreadedVerifier(cast("Verifier", bound))
